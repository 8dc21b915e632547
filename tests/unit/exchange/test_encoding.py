"""Tables as bytes."""

import subprocess
import sys
from pathlib import Path

import pytest

READ = """
import os
import numpy as np
import pyarrow as pa
from opboost_ops.exchange.encoding import table_from_bytes, table_to_bytes

raw = table_to_bytes(pa.table({name: np.arange(1000) % 10 for name in "abc"}))
before = len(os.listdir("/proc/self/task"))
assert table_from_bytes(raw, "ranks", 1000).num_rows == 1000
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads in /proc")
def test_reading_leaves_no_thread_behind() -> None:
    """A thread of Arrow's that holds the bytes aborts the interpreter that is just ending."""
    done = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
