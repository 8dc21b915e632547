"""Privacy-preserving vertical federated gradient boosting, run by Airflow."""

import os

__version__ = "0.4.0"

# Threads that wait for work sleep instead of spinning: on a busy machine, as workers are, spinning
# takes several times the processor's time for the same result. OpenMP reads it when the first
# booster is imported, OpenBLAS when NumPy is, which is after this. Who has set it keeps it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
# Arrow's allocator would ask for huge pages. For the first one of a process the kernel may have to
# move memory, which takes longer than a small table.
os.environ.setdefault("MIMALLOC_ALLOW_THP", "0")
