"""A party's own table within a run.

`own_copy.copy_table` copies the source, `raw_table` and `raw_blocks` read the copy as declared
columns and as domain integers, `holdout` selects held-out rows, and `rehearsal` finds faults of the
table before a run.
"""
