"""What single persons have been charged, seen at home only: the maximum over people."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from opboost_ops.privacy.accountant import Loss, exact, times
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.events import Release

#: Persons, and what each is charged by loss(1) and loss(R - L), shape (n,) each.
_Charged = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class ColumnPeople:
    """The cells of one column.

    Attributes:
        feature: What is charged.
        people: How many persons have released a value of it.
        changes: The largest number of different values that one cell has released.
        at_cap: Which share of the cells has released as many as the cap of the last draw allowed,
            and so goes on with the last of them; None without a cap.
        step: loss(1) of the person who was charged most.
        whole: loss(R - L) of that person.
    """

    feature: str
    people: int
    changes: int
    at_cap: float | None
    step: Loss
    whole: Loss


@dataclass(frozen=True)
class People:
    """All cells of a party.

    Attributes:
        columns: By column and noise key.
        step: Sum of loss(1) over all features of the person who was charged most.
        whole: The same of loss(R - L).
    """

    columns: tuple[ColumnPeople, ...]
    step: Loss
    whole: Loss


def people(releases: Sequence[Release], cells: Cells) -> People:
    """Charge each person for each different value of each cell that was ever released.

    Persons have other hashes towards other receivers and under a former noise secret, so a person
    is charged there as the one who was charged most.

    Args:
        releases: The party's.
        cells: Its cell states.
    """
    known: dict[tuple[UUID, str], Release] = {}
    caps: dict[tuple[UUID, str], int | None] = {}
    for release in releases:
        if release.column is not None and release.cells is not None:
            known[release.column, release.cells] = release
            if release.draw is not None:
                caps[release.column, release.cells] = release.draw.most
    columns: list[ColumnPeople] = []
    charged: dict[tuple[str, str], list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = defaultdict(
        list
    )
    for column, key in cells.generations():
        found = known.get((column, key))
        state = cells.load(column, key) if found is not None else None
        if found is None or found.loss is None or state is None:
            continue
        changes = state.changes()
        step, whole = exact(found.loss.loss[0]), exact(found.loss.loss[-1])
        most = int(changes.max(initial=0))
        name = found.feature or ""
        columns.append(
            ColumnPeople(
                name,
                len(changes),
                most,
                _at_cap(changes, caps.get((column, key))),
                times(step, most),
                times(whole, most),
            )
        )
        charged[found.receiver, found.noise or ""].append(
            (state.people, _charged(changes, step), _charged(changes, whole))
        )
    totals = [_most(entries) for entries in charged.values()]
    return People(
        tuple(columns),
        sum(step for step, _ in totals),
        sum(whole for _, whole in totals),
    )


def _at_cap(changes: np.ndarray, most: int | None) -> float | None:
    if most is None:
        return None
    return round(float(np.mean(changes >= most)), 6) if len(changes) else 0.0


def _charged(changes: np.ndarray, loss: Loss) -> np.ndarray:
    # Nothing released costs nothing, also where one release costs without bound.
    return np.where(changes > 0, np.maximum(changes, 1) * float(loss), 0.0)


def _most(entries: list[_Charged]) -> tuple[float, float]:
    persons = np.concatenate([person for person, _, _ in entries])
    _, place = np.unique(persons, return_inverse=True)
    step = np.bincount(place, weights=np.concatenate([s for _, s, _ in entries]))
    whole = np.bincount(place, weights=np.concatenate([w for _, _, w in entries]))
    return float(step.max(initial=0.0)), float(whole.max(initial=0.0))
