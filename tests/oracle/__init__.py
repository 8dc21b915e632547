"""An oracle of the account: random histories on the real code, and a reader that shares none of it.

`histories` makes them, `account` plays them at the door of `privacy.releases`, and `reader` says
from what was published how many independent draws left, and compares that with the ledger.
`whole_runs` does the same with whole runs of a federation. `python -m tests.oracle --histories
20000 --whole-runs 200` plays as many as there is time for.
"""
