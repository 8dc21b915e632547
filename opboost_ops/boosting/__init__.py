"""Boosters on ranks and buckets, and what becomes of their trees."""

import os

# Threads that wait for work sleep instead of spinning: on a busy machine, as workers are, spinning
# takes several times the processor's time for the same model. OpenMP reads it once, when the first
# booster is imported, which is after this. Who has set it keeps it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
