"""A party's own table within a run.

`own_copy.copy_table` copies the source, `raw_table` and `raw_blocks` read the copy as declared and
as domain integers, `holdout` chooses the held-out rows, `rehearsal` finds its faults before a run.
"""
