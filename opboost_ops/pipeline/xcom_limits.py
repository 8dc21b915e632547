"""Summaries whose size does not grow with parties or columns: all of it fits into an XCom."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

#: Names that are told one by one; of more, only how many there are and what they come to.
_MOST = 16


def counts(by_name: Mapping[str, int]) -> dict[str, int]:
    """Counts by name, or their sum where there are many.

    Args:
        by_name: Public counts, such as of thresholds by feature.

        >>> counts({"bank.income": 3})
        {'bank.income': 3}
        >>> counts({f"bank.x{i}": 2 for i in range(100)})
        {'names': 100, 'sum': 200}
    """
    if len(by_name) <= _MOST:
        return dict(by_name)
    return {"names": len(by_name), "sum": sum(by_name.values())}


def digests(found: Sequence[str]) -> list[str]:
    """Digests of artifacts in short, or where there are many, one of all of them.

    Args:
        found: In their order, hex.
    """
    if len(found) <= _MOST:
        return [digest[:16] for digest in found]
    return [f"{len(found)} artifacts, {hashlib.sha256(''.join(found).encode()).hexdigest()[:16]}"]


def verdicts(passed: Mapping[str, bool]) -> dict[str, Any]:
    """How many checks passed, and the names of those that failed.

    Args:
        passed: By boundary.
    """
    failed = [name for name, good in passed.items() if not good]
    return {"passed": len(passed) - len(failed), "failed": failed[:_MOST]}
