"""Output of commands: tables, CSV, progress.

`printing` prints blocks and JSON, `progress` the steps of a run.
"""
