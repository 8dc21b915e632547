"""The label holder's models: immutable versions with their cards.

`registry.Registry` adds versions and names the champion, `registry.keep` adds files of scores,
`card.make_card` describes a version, `importance` its features, `tracking.record_champion` reports
the champion to MLflow.
"""
