"""The label holder's models: immutable versions with their cards.

`registry.Registry` stores versions and the champion, `registry.store_scores` stores files of
scores, `card.make_card` describes a version, `importance` ranks its features, and
`tracking.record_champion` records the champion in MLflow.
"""
