"""Tools to choose mechanisms at a party's own site, before anything is released.

`ranking.rank` ranks mechanisms under a party's caps; `division.divide` divides a total loss over
columns, by `evidence` from a public sample or declared importances; `designs.channel` builds
channels; `leakage.leakage` attacks the release that a party would make; `simulation.simulate` and
`centralised` compare with training on all columns.
"""
