"""The label holder's models: immutable versions with their cards.

`registry.Registry` adds versions and names the champion, `card.make_card` describes one,
`scores` adds files of scores, `tracking.record_champion` reports the champion to MLflow.
"""
