"""Choosing mechanisms before anything is released, at one's own site.

`ranking` ranks mechanisms under a party's caps; `division` divides a total over columns, by the
`evidence` of a public sample or of declared importances;
`designs` makes channels to measure; `attacks` attacks the release that a party would make.
"""
