"""Choosing mechanisms before anything is released, at one's own site.

`ranking.rank` ranks mechanisms under a party's caps, `division.divide` divides a total over
columns, by the `evidence` of a public sample or of declared importances; `designs.channel` makes
channels to measure; `leakage.leakage` attacks the release that a party would make;
`simulation.simulate` and `centralised` compare with training on everything.
"""
