"""Agreements of a party, and checks of a plan against its policy.

`compliance.require_consent` checks a plan against the policy, `agreements.Agreements` holds what
the party agreed to, `changes.changes` lists what is new, `exposure` and `guessing` describe what a
release discloses.
"""
