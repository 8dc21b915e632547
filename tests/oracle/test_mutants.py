"""Planted errors of the account: the oracle finds each of them.

A mutant is a replacement in the text of a module. A text that is not found any more fails here.
"""

import inspect
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from opboost_ops.privacy import declarations, releases
from opboost_ops.privacy.ledger import tables
from tests.oracle.account import declaration
from tests.oracle.histories import DECLARATIONS
from tests.oracle.judge import judged

#: By name, what is replaced in `privacy.releases`.
_ACCOUNT = {
    "pins of joiners are not written": {
        (
            "            file = self._pins.write(release.id, pinned)\n"
            "            self._point_to(release, file)\n"
        ): ""
    },
    "pins are narrowed to the table of the night": {
        "            pinned = Pinned(whole, joined)\n": (
            "            inside = match.places(people, whole) >= 0\n"
            "            whole = People(whole.high[inside], whole.low[inside])\n"
            "            pinned = Pinned(whole, joined[inside])\n"
        )
    },
    "the later of two runs overwrites": {
        "        pinned = self._pins.read(release.pins, kind)\n": (
            "        pinned = self._pins.read(None, kind)\n"
        )
    },
    "a new release is not charged": {
        "        self._ledger.reserve(entries)\n        self._ledger.commit(release.id)\n": ""
    },
    "one charge for all receivers": {
        "        connection.execute(sa.insert(RELEASES).values(release_row(release)))\n": (
            "        if any(one.column == release.column for one in self.all()):\n"
            "            release = replace(release, losses={})\n"
            "        connection.execute(sa.insert(RELEASES).values(release_row(release)))\n"
        )
    },
    "the receiver is not in the release": {" and release.receiver == receiver": ""},
    "a run stays in the release of another declaration": {
        "            newest = newest_open.get(declaration.digest)\n": (
            "            newest = list(newest_open.values())[-1] if newest_open else None\n"
        )
    },
    "over the budget a release opens anyway": {
        "                rule(spent, [proposed])\n": "                pass\n"
    },
    "an ended release goes on": {
        "receiver == receiver and not release.ended": "receiver == receiver"
    },
    "a retry goes on with an ended release": {
        "                self._require_open(used.values())\n": "                pass\n"
    },
    "a forgotten person is pinned again": {"        joining = joining[~gone[joining]]\n": ""},
    "forgetting leaves pins": {
        "                if count:\n                    self._point_to(release, file)\n": ""
    },
    "the pins of an ended release are read": {
        'changes = {"ended": now(), "pins": "", "digest": "", "rows": 0}': (
            'changes = {"ended": "", "pins": "", "digest": "", "rows": 0}'
        )
    },
}

#: By name, what is replaced in `privacy.releases`, for releases that are opened again each year.
_YEARLY = {
    "a retry takes the newest release": {
        "                self._require_open(used.values())\n": (
            "                used = self._chosen(request, rule)\n"
        )
    },
}

#: By name, what is replaced in `privacy.declarations`, and the declaration that it confuses.
_DECLARED = {
    "the raw ID column is not declared": (
        {"policy.raw_column(identity.column, identity.column).strip(),\n": '"",\n'},
        "raw_id",
    ),
    "the map is not declared": (
        {'            "map": sorted({column.map_digest.hex() for column in mine}),\n': ""},
        "map",
    ),
    "the channel is not declared": (
        {", column.mechanism.channel(column.domain).digest().hex()]\n": "]\n"},
        "channel",
    ),
    "routed answers are not declared": ({'            "routed": routed,\n': ""}, "once"),
}

#: A mutant must be found in so many histories.
_HISTORIES = 60


def mutated(module: ModuleType, changes: dict[str, str]) -> ModuleType:
    """A module with other text."""
    text = inspect.getsource(module)
    for old, new in changes.items():
        assert text.count(old) == 1, f"not once in {module.__name__}: {old}"
        text = text.replace(old, new)
    copy = ModuleType(module.__name__)
    with pytest.MonkeyPatch.context() as patch:
        # The tables of the module are those of the database.
        patch.setattr(tables, "table", lambda name, *_, **__: tables.METADATA.tables[name])
        exec(compile(text, str(module.__file__), "exec"), copy.__dict__)
    return copy


def _is_found(
    folder: Path,
    code: ModuleType,
    digests: ModuleType,
    agreed: Sequence[str] = (),
    first: int = 0,
) -> bool:
    declared = {name: declaration(name, digests) for name in agreed or DECLARATIONS}
    for seed in range(first, first + _HISTORIES):
        try:
            verdict, *_ = judged(folder, seed, declared, code, agreed=agreed)
        except Exception:  # An error is not what the oracle looks for.
            continue
        if verdict.faults:
            return True
    return False


@pytest.mark.parametrize("name", _ACCOUNT)
def test_a_planted_error_of_the_account_is_found(name: str, tmp_path: Path) -> None:
    code = mutated(releases, _ACCOUNT[name])
    assert _is_found(tmp_path, code, declarations)


@pytest.mark.parametrize("name", _YEARLY)
def test_a_planted_error_of_yearly_releases_is_found(name: str, tmp_path: Path) -> None:
    code = mutated(releases, _YEARLY[name])
    # A run that is tried again after its year is rare: there is one in these histories.
    assert _is_found(tmp_path, code, declarations, ("first", "yearly"), first=60)


@pytest.mark.parametrize("name", _DECLARED)
def test_a_planted_error_of_a_declaration_is_found(name: str, tmp_path: Path) -> None:
    change, agreed = _DECLARED[name]
    assert _is_found(tmp_path, releases, mutated(declarations, change), ("first", agreed))
