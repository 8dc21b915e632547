"""Parties with software of their own against unmodified ones, over whole runs.

Each class of attack of `docs/threat-model.md` has a test here that fails where the party that asks
still chooses something.
"""
