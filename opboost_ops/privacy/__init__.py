"""The account of what a party releases, and how much it may give away.

`loss.loss_curve` computes a release's cost from the counts that are sampled; `releases.Releases`
opens releases, charges each once and pins its responses; `planner.rank` compares mechanisms before
a release; `people` finds people by hashes of their IDs. `ledger` has the entries and budgets,
`consent` the agreements and the policy's answer.
"""
