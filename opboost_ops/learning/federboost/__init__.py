"""Horizontal learning by sums of histograms (FederBoost).

`federboost.learn` trains an ensemble; `private_federboost.learn_private` adds noise to the sums.
"""
