"""A second implementation of the protocol that verifies finished runs. Read it in an afternoon.

`verify` reads the files of finished runs and reports for each promise of docs/guarantee.md,
docs/exchange.md and docs/ledger.md whether it is held, broken or not checkable. It shares no code
with the rest of the package (import-linter enforces this), so a bug in either implementation
shows as a difference.

Start with `verification`, which lists the checks for a store and for a party. A check is a
function ``check_<promise>``: its docstring states the promise, and it yields one `Check` per
comparison.
"""

from opboost_ops.verifier.outcomes import Outcome
from opboost_ops.verifier.places import InvalidPlaceError
from opboost_ops.verifier.verification import verify

__all__ = ["InvalidPlaceError", "Outcome", "verify"]
