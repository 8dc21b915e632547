"""Reads a party's tables from files, patterns, S3 objects and queries, for all entry points.

A column's declared type takes precedence over the file's. `copies.copy` reads a source into one
Parquet file; `parquet` reads Parquet in place; `local.read_local` reads a table that a command
names. `spill` handles columns with more rows than memory holds.
"""
