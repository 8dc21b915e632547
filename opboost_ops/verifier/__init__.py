"""A second implementation of the promises, small enough to read in an afternoon.

It takes the files of a finished run and says of each promise of docs/guarantee.md and
docs/exchange.md whether it is held, broken, or not checkable from there. It shares no code with
the rest of the package, which a contract of import-linter enforces: a fault in one of the two
shows as a difference. `verify` is the one function that others call.

`verification` lists what is checked on what. A check is a function ``check_<promise>``, whose
docstring is the promise; it yields an outcome for each thing that it compares.
"""

from opboost_ops.verifier.outcomes import Outcome
from opboost_ops.verifier.places import CannotBeginError
from opboost_ops.verifier.verification import verify

__all__ = ["CannotBeginError", "Outcome", "verify"]
