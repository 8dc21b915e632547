"""A party's tables: one reader of files, patterns, objects and queries, for every entry point.

A declared type decides first, the file second. `copies.copy` reads a source into one Parquet file;
`parquet` reads Parquet where it lies; `local.read_local` reads a table that a command names.
`spill` has columns of more rows than memory holds.
"""
