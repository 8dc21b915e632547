"""Every federation of an end-to-end test ends with its verification."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

from opboost_ops.verifier import verify
from tests.verifier.tampering import broken


def assert_promises_held(folders: Iterable[Path], breaks: Collection[str] = ()) -> None:
    """Verify all federations below some folders.

    Args:
        folders: Where they are looked for.
        breaks: Promises that a test breaks on purpose.
    """
    parties = defaultdict(list)
    for folder in folders:
        for site in sorted(folder.rglob("site.yaml")):
            if (site.parent / "ledger.sqlite").is_file():
                parties[site.parent.parent].append(site.parent)
    for places in parties.values():
        outcomes = verify(places)
        assert broken(outcomes) <= set(breaks), [
            line for outcome in outcomes for line in outcome.lines() if " broken " in line
        ]
