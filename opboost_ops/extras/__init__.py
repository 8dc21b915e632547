"""Packages that scheduled training does not need; only `api` and `cli` import them.

`setup` writes a party's first files, `lab` compares mechanisms and attacks releases, `serving`
scores single rows, `export` writes models for other programs, `backup` saves a party's state,
`datasets` has tables for demos, `outcomes` joins later labels to scores.
"""
