"""Hostile parties in the rounds of horizontal learning, among unmodified ones.

A hostile party runs the protocol, but signs other messages of one kind; its software goes on with
what it has sent. A coordinator, who has no key, puts other files before all readers.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from opboost_ops.config.schema import Record
from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encryption import Envelope
from opboost_ops.exchange.manifest import Kind, Manifest
from opboost_ops.exchange.rounds.protocol import Round
from opboost_ops.exchange.signing import Signer
from opboost_ops.learning.federboost.private_federboost import TREES_PER_ROUND
from tests.adversary.kit import signed
from tests.horizontal import RUN, Banks

PRIVATE = {"epsilon": 4.0, "delta": 1e-4, "colluding": 1}
ROUNDS = tuple(Round("trees", first) for first in (0, TREES_PER_ROUND))


class Sum(Record):
    """A decision that says the sum."""

    total: tuple[int, ...]


def banks_of(folder: Path, **options: Any) -> Banks:
    """Four parties whose noise is 0 so that sums can be read."""
    folder.mkdir(exist_ok=True)
    banks = Banks(folder, 4, private=PRIVATE, **options)
    banks.draw = lambda phase, size: np.zeros(size, dtype=np.int64)  # type: ignore[method-assign]
    return banks


@dataclass
class Session:
    """What became of a session.

    Attributes:
        totals: By honest party, the sums that it heard.
        errors: By honest party, why it ended.
        boxes: By honest party, its side of the rounds.
        sizes: By place, the bytes of what lies there.
        run: Its run.
    """

    totals: dict[str, list[int]]
    errors: dict[str, Exception]
    boxes: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    run: str = RUN


def session(
    banks: Banks,
    hostile: str | None = None,
    store: Any = None,
    timeout: float = 1.5,
    run: str = RUN,
) -> Session:
    """Two rounds in which party i adds 10^i, as its honest parties live through them."""
    boxes: dict[str, Any] = {}
    totals: dict[str, list[int]] = {name: [] for name in banks.names}

    def work(box: Any, i: int) -> None:
        name = banks.names[i]
        boxes[name] = box
        for number in ROUNDS:
            vector = np.array([10**i], dtype=np.int64)
            decided = box.step(number, 1, lambda vector=vector: vector, _plain, Sum)
            totals[name].append(decided.total[0])

    # One store for all, or by party another one.
    stores = store if isinstance(store, dict) else dict.fromkeys(banks.names, store)
    _, errors = banks.together(work, store=stores, timeout=timeout, run=run)
    sizes = {
        place: sum(map(len, banks.store.get(place).values()))
        for place in banks.store.list(f"banks/{run}")
    }
    found = Session(totals, errors, boxes, sizes, run)
    for part in (found.totals, found.errors, found.boxes):
        part.pop(hostile or "", None)  # type: ignore[attr-defined]
    return found


def _plain(total: np.ndarray) -> Sum:
    return Sum(total=tuple(int(n) for n in total))


@contextmanager
def software(
    party: str, kind: Kind, change: Callable[[dict[str, Any], dict[str, bytes]], None]
) -> Iterator[None]:
    """Software of a party that signs other messages of a kind.

    Args:
        party: Whose.
        kind: Of the messages.
        change: Changes a message's manifest and its files, before encryption, in place.
    """
    honest = Draft.seal

    def seal(
        draft: Draft,
        signer: Signer,
        federation: str,
        run: str,
        who: str,
        experiment: bool,
        envelope: Envelope | None = None,
        standing: Any = None,
    ) -> tuple[Manifest, Mapping[str, bytes]]:
        made = honest(draft, signer, federation, run, who, experiment, envelope, standing)
        if who != party or draft.kind != kind:
            return made
        data = json.loads(made[0].to_bytes())
        del data["files"]
        raw = {name: make() for name, make in draft._contents().items()}
        change(data, raw)
        listed, files = signed(made[0], raw, signer, envelope, data)
        # Its own software takes what it has sent for what it wanted to send.
        return made[0].model_copy(update={"files": listed}), files

    with patch.object(Draft, "seal", seal):
        yield


def require_harmless(found: Session, honest: Session, decides: bool) -> None:
    """What must hold of every session, whatever a hostile party does in it.

    Args:
        found: The session.
        honest: The same parties without the attack.
        decides: Whether the hostile value is a part of the sum, or the decision on it.
    """
    for error in found.errors.values():
        assert isinstance(error, OpBoostError), error
    heard = sorted(found.totals.values(), key=len)
    for fewer in heard:
        assert heard[-1][: len(fewer)] == fewer, "two honest parties heard different decisions"
    if not decides:
        for total in (total for totals in heard for total in totals):
            assert total == 1111, "a sum of too few"
    due = {_kind_and_round(place) for place in honest.sizes}
    mine = {place for place in found.sizes if place.split("/")[3] in found.boxes}
    assert {_kind_and_round(place) for place in mine} <= due, "an honest party has sent more"


def _kind_and_round(place: str) -> tuple[str, str]:
    _, _, kind, _, name = place.split("/")
    return kind, name
