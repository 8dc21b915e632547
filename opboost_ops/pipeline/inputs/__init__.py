"""A party's own table within a run.

`sources.take` copies the source, `raw_table` and `raw_blocks` read the copy as declared,
`domain_integers` maps it, `rehearsal` finds its faults before a run.
"""
