"""A party's own table within a run.

`own_copy.copy_table` copies the source, `raw_table` and `raw_blocks` read the copy as declared
columns and as domain integers, `model_columns` makes a model's inputs and labels of them, `holdout`
selects held-out rows, and `rehearsal` finds faults of the table before a run.
"""
