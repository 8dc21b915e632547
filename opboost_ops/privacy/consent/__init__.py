"""Agreements of a party, and the compliance of a plan with them.

`compliance.require_consent` compares a plan with the policy, `agreements.Agreements` has what was
agreed to, `changes.changes` shows what is new, `exposure` and `guessing` put a release into words.
"""
