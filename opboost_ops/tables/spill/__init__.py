"""Columns with more rows than a stage holds in memory, spilled to the party's own disk.

Up to a declared number of rows, arrays stay in memory. Larger ones are mapped from unnamed files:
nobody else can open them, and they disappear with the array, even if the process is killed. To sort
or look up people, records are first partitioned on disk by ranges of a number or of the first bits
of a hash, so that each partition can be processed by itself. Hashes are uniform, so partitions have
similar sizes, and their concatenation is sorted by hash.

    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from opboost_ops.tables.spill.arrays import Scratch
    >>> from opboost_ops.tables.spill.parts import gather
    >>> scratch = Scratch(Path(tempfile.gettempdir()), rows=2)
    >>> gather(scratch, np.array([5, 6, 7], np.uint8), np.array([2, 0, 1])).tolist()
    [7, 5, 6]
"""
