"""Hostile parties in a simulated federation: what they deliver, and why it is refused.

At least one for every reason; `tests/adversary` has hostile values at every field.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opboost_ops.exchange.acceptance import Reason
from opboost_ops.exchange.manifest import SIGNATURE, Kind
from tests.federation_simulator import (
    ASKED,
    LABEL,
    PEOPLE,
    Files,
    Member,
    Place,
    Simulation,
    flipped,
    points,
    resigned,
    sealed_rows,
)


@dataclass(frozen=True)
class Attack:
    """What a hostile party delivers, to whom, at which point of the run.

    Attributes:
        name: What it does.
        reason: Why it is refused.
        at: Where the attack is delivered.
        reader: Who reads it.
        files: Makes what is found there.
        options: Of the simulation.
        turn: The place whose turn it is then, if that is another one.
    """

    name: str
    reason: Reason
    at: Place
    reader: str
    files: Callable[[Simulation], Files]
    options: Mapping[str, Any] = field(default_factory=dict)
    turn: Place | None = None

    def __str__(self) -> str:
        return f"{self.reason}: {self.name}"


#: Declarations of a plan that the pinned key signs: what is wrong with them, and the change.
_PLANS: tuple[tuple[str, Reason, Callable[[dict[str, Any]], object]], ...] = (
    ("declares another federation", "wrong_federation", lambda d: d.update(name="other")),
    ("declares another label holder", "wrong_party",
     lambda d: d["parties"].update(other=d["parties"].pop(LABEL))),
    ("declares another key of its signer", "malformed",
     lambda d: d["parties"][LABEL].update(signing_key=Member("stranger").signer.public)),
    ("leaves its reader out", "unknown_party", lambda d: d["parties"].pop("b1")),
)  # fmt: skip


def replanned(run: Simulation, change: Callable[[dict[str, Any]], object]) -> Files:
    """A plan whose declared federation is changed."""
    document = deepcopy(run.draft("plan", LABEL).document)
    assert document
    change(document["federation"])
    return run.seal("plan", LABEL, document=document)


def attacks() -> Iterator[Attack]:
    """At least one for every reason."""
    ranks: Place = ("ranks", "b0")

    def on_ranks(name: str, reason: Reason, files: Callable[[Simulation], Files]) -> Attack:
        return Attack(name, reason, ranks, LABEL, files)

    def changed(**changes: Any) -> Callable[[Simulation], Files]:
        return lambda s: s.seal(*ranks, **changes)

    def restated(**changes: Any) -> Callable[[Simulation], Files]:
        return lambda s: resigned(s.seal(*ranks), s.members["b0"].signer, **changes)

    yield on_ranks("a stranger signs", "unknown_party", changed(by="stranger"))
    yield Attack("a stranger's place", "unknown_party", ("ranks", "stranger"), LABEL,
                 lambda s: s.seal("ranks", "stranger"))  # fmt: skip
    yield on_ranks("a neighbour signs", "wrong_party", changed(by="b1"))
    yield on_ranks("in a neighbour's name", "wrong_party", changed(named="b1"))
    yield on_ranks("another federation's", "wrong_federation", changed(federation="other"))
    yield on_ranks("another run's", "wrong_run", changed(run="f" * 16))
    yield Attack("accepted at another place", "replayed", ("split_values", "b0"), LABEL,
                 lambda s: s.store[ranks])  # fmt: skip
    yield on_ranks("new values come first", "out_of_order", lambda s: s.seal("values", "b0"))
    yield Attack("an answer before its query", "out_of_order", ("psi_answer", "b0"), LABEL,
                 lambda s: s.seal("psi_answer", "b0"), turn=("psi_query", "b0"))  # fmt: skip
    yield on_ranks("answers something else", "wrong_answer", changed(answers="a" * 64))
    yield Attack("an answer for another query", "wrong_answer", ("psi_answer", "b0"), LABEL,
                 lambda s: s.seal("psi_answer", "b0", answers="a" * 64))  # fmt: skip
    yield on_ranks("an undeclared column", "unknown_column", changed(columns=("x", "z")))
    yield on_ranks("rows of nobody", "wrong_row_count",
                   changed(rows=99, entries=sealed_rows(100)))  # fmt: skip
    for encrypted in (True, False):
        end = ".enc" if encrypted else ""
        yield Attack(f"a changed table{end}", "bad_digest", ranks, LABEL,
                     lambda s, end=end: flipped(s.seal(*ranks), f"entries.bin{end}"),
                     {"encrypted": encrypted, "holders": 2 if encrypted else 1})  # fmt: skip
    yield on_ranks(
        "a changed signature", "bad_signature", lambda s: flipped(s.seal(*ranks), SIGNATURE)
    )
    yield on_ranks("a stranger in the party's name", "bad_signature",
                   changed(by="stranger", named="b0"))  # fmt: skip
    yield Attack("a plan by another key", "bad_signature", ("plan", LABEL), "b0",
                 lambda s: s.seal("plan", LABEL, by="b1", named=LABEL))  # fmt: skip
    yield on_ranks("a later format", "unsupported_version", restated(version=4))
    yield on_ranks("no loss at all", "wrong_guarantee", changed(losses={}))
    yield on_ranks("an experiment in a real run", "wrong_guarantee", restated(experiment=True))
    yield Attack("an expired key", "expired_key", ("psi_answer", "b0"), LABEL,
                 lambda s: s.seal("psi_answer", "b0"), {"expired": "b0"})  # fmt: skip
    yield Attack("an expired plan", "expired_key", ("plan", LABEL), "b0",
                 lambda s: s.seal("plan", LABEL), {"expired": LABEL})  # fmt: skip
    stolen = changed(by="stranger", named="b0")
    yield Attack("a revoked key", "revoked_key", ranks, LABEL, stolen, {"revoked": "b0"})
    for opened in (-40, -9, 2, 400):
        yield Attack(f"a plan of {opened} days from now", "wrong_day", ("plan", LABEL), "b0",
                     lambda s: s.seal("plan", LABEL), {"opened": opened})  # fmt: skip
    yield Attack("a neighbour's ranks", "not_for_me", ranks, "b1", lambda s: s.seal(*ranks))
    yield Attack("a neighbour's query", "not_for_me", ("psi_query", "b0"), "b0",
                 lambda s: s.seal("psi_query", "b1"))  # fmt: skip
    yield on_ranks("not encrypted", "not_for_me", changed(to=None))
    for name, reason, change in _PLANS:
        yield Attack(f"a plan that {name}", reason, ("plan", LABEL), "b1",
                     lambda s, change=change: replanned(s, change))  # fmt: skip

    def on_points(name: str, reason: Reason, kind: Kind, entries: np.ndarray) -> Attack:
        reader = "b0" if kind == "psi_query" else LABEL
        return Attack(name, reason, (kind, "b0"), reader,
                      lambda s: s.seal(kind, "b0", entries=entries))  # fmt: skip

    honest = points(ASKED + 1)
    yield on_points("points in another order", "malformed", "psi_query", honest[::-1])
    yield on_points("no points", "malformed", "psi_query", sealed_rows(ASKED + 1, 22))
    yield on_points("a point answered twice", "malformed", "psi_answer",
                    honest[[0, *range(ASKED)]])  # fmt: skip
    for count in (ASKED, ASKED + 2):
        yield on_points(f"{count} points asked", "wrong_row_count", "psi_query", points(count))
        yield on_points(f"{count} points answered", "wrong_row_count", "psi_answer", points(count))
    yield Attack("more routes than people", "wrong_row_count", ("routes", "b0"), LABEL,
                 lambda s: s.seal("routes", "b0", rows=PEOPLE + 1, entries=sealed_rows(PEOPLE + 2)),
                 {"mode": "routed"})  # fmt: skip
    yield Attack("a training table of nobody", "wrong_row_count", ranks, LABEL,
                 lambda s: s.seal(*ranks, rows=0, entries=sealed_rows(1)),
                 {"holders": 1})  # fmt: skip
    yield on_ranks("nothing at all", "malformed", lambda _: {})
    yield on_ranks("a field too many", "malformed", restated(more=1))
    yield on_ranks("a path for a run", "malformed", restated(run="../../escape"))
    yield on_ranks(
        "a file too many", "malformed", lambda s: {**s.seal(*ranks), "more.parquet": b""}
    )
    yield Attack("the label holder's own features", "wrong_party", ("ranks", LABEL), LABEL,
                 lambda s: s.seal("ranks", LABEL, to=None))  # fmt: skip
