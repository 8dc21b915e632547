"""What a party has agreed to, and whether a plan complies with it.

`compliance.require_consent` compares a plan with the policy, `agreements.Agreements` has what was
agreed to, `changes.changes` shows what is new, `exposure` and `guessing` put a release into words.
"""
