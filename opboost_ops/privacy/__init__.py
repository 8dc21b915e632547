"""Accounting for what a party releases: losses, releases, pins, budgets and consent.

`loss.loss_curve` computes a release's loss from the sampled counts; `releases.Releases` opens
releases, charges each once and pins its responses; `planner.rank` compares mechanisms before a
release; `people` identifies people by hashes of their IDs. `ledger` holds entries and budgets;
`consent` holds agreements and checks plans against the policy.
"""
