"""Horizontal learning from sums of histograms (FederBoost).

`federboost.learn` trains on exact sums, `private_federboost.learn_private` on noisy ones.
"""
