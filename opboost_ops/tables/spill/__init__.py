"""Columns of more rows than a stage holds at once: on the party's own disk, and let go as it goes.

Up to a declared number of rows everything is an array in memory. Beyond it an array lies in a file
that has no name: nobody else can open it, and it is gone with the array, also when the process is
killed. To sort, or to look people up, records are partitioned on disk first, by the range that
a number or the first bits of a hash fall into, so that each part is looked at by itself; hashes
are uniform, so parts are of a size, and one after the other they are in order.

    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from opboost_ops.tables.spill.arrays import Scratch
    >>> from opboost_ops.tables.spill.parts import gather
    >>> scratch = Scratch(Path(tempfile.gettempdir()), rows=2)
    >>> gather(scratch, np.array([5, 6, 7], np.uint8), np.array([2, 0, 1])).tolist()
    [7, 5, 6]
"""
