"""A party's own table within a run.

`own_copy.copy_table` copies the source, `raw_table` and `raw_blocks` read the copy as declared,
`domain_integers` maps it, `rehearsal` finds its faults before a run.
"""
