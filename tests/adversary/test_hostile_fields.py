"""Hostile values at every field of every message: they are refused, or they decide nothing.

A hostile sender signs them with its real key; a coordinator, who writes in the store between the
parties, has no key. The receivers are unmodified.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from opboost_ops.domain import Domain
from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.artifact import DOCUMENT
from opboost_ops.exchange.files import ENTRIES
from opboost_ops.exchange.manifest import MANIFEST, SIGNATURE, Kind
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.loss import loss_curve
from opboost_ops.run.admission import REFUSED
from opboost_ops.run.inbox import Run
from opboost_ops.run.runner import run_stage
from tests.adversary.kit import released, replace, send
from tests.adversary.test_message_table import table
from tests.federation import SCORING_RUN, SECOND_RUN, Workspace, small_credit

#: Who reads each kind of message about the bank, in which stage.
READERS: Mapping[Kind, tuple[str, str]] = {
    "plan": ("bank", "check_table"),
    "psi_query": ("bank", "psi_answer"),
    "psi_answer": ("credit", "open_rows"),
    "shares": ("credit", "open_rows"),
    "ranks": ("credit", "open_rows"),
    "split_request": ("bank", "answer_splits"),
    "split_values": ("credit", "materialise"),
    "route_request": ("bank", "answer_routes"),
    "routes": ("credit", "evaluate"),
    "values": ("credit", "open_rows"),
}
#: Kinds of horizontal learning: `tests/unit/aggregation` has their hostile messages.
ROUNDS = {"round_key", "round_shares", "masked", "attendance", "attested", "opened", "decision"}
#: Kinds at which all hostile values of a manifest are delivered: two to each reader.
EXAMPLES = {"plan", "psi_query", "ranks", "split_values"}
#: Kinds with points or entries, and with a layout.
LISTS = ("psi_query", "psi_answer", "shares", "ranks", "routes", "values")
LAID = ("shares", "ranks", "routes", "values")
OTHER, DIGEST, HUGE = "f" * 16, "a" * 64, 10**30
SCRIPT = "<script>alert(1)</script>"

CURVE = loss_curve(GlobalMap(epsilon=0.1), Domain(1, 10)).model_dump(mode="json")

#: Changes a value in a document or manifest; what it returns is put there.
Change = Callable[[Any], Any]


def to(value: Any) -> Change:
    """Another value, whatever was there."""
    return lambda _: value


#: By field of the manifest, hostile values.
MANIFESTS: Mapping[str, tuple[Change, ...]] = {
    "version": (to(1), to(4), to(-1), to(HUGE)),
    "protocol": (lambda v: v + 1, lambda v: v - 1, to(HUGE), to(float("nan"))),
    "federation": (to("other"), to("../credit_scoring"), to("")),
    "run": (to(OTHER), to("../../escape"), to("")),
    "kind": (lambda kind: "psi_query" if kind == "ranks" else "ranks", to("secrets"), to("")),
    "party": (lambda party: "bank" if party == "credit" else "credit", to("shop"), to(SCRIPT)),
    "about": (to("shop"), to("nobody"), to("")),
    "round": (to("round-1"), to("")),
    "answers": (to(DIGEST), lambda v: None if v else DIGEST, to("")),
    "columns": (to(["income", "income"]), to(["secret_salary"]), to([SCRIPT])),
    "rows": (lambda n: -n - 1, to(HUGE), to(float("nan")), to("1")),
    "losses": (
        lambda losses: {} if losses else {"income": CURVE},
        lambda losses: {**losses, "secret_salary": CURVE},
        to({"income": {**CURVE, "loss": [float("nan")] * 9}}),
    ),
    "files": (
        to({}),
        lambda files: {n: {**f, "size": HUGE} for n, f in files.items()},
        lambda files: {n: {**f, "sha256": DIGEST} for n, f in files.items()},
        lambda files: {**files, "../../escape": {"sha256": DIGEST, "size": 0}},
    ),
    "encrypted_to": (to(OTHER), lambda key: None if key else OTHER),
    "experiment": (lambda it: not it, to("yes")),
    "software": (to("99.0.0"), to("0.1.0"), to(""), to(SCRIPT)),
    "head": (
        lambda head: {**head, "number": HUGE},
        lambda head: {**head, "head": "b" * 64},
        lambda head: {**head, "number": 10**6},
        lambda head: {**head, "signature": head["signature"][::-1]},
        to(None),
    ),
    "seen": (
        lambda seen: {"bank": {**a_checkpoint(seen or {}), "number": 10**6}},
        lambda seen: {"credit": {**a_checkpoint(seen or {}), "number": 10**6}},
        to({"nobody": {}}),
    ),
}


def a_checkpoint(seen: Mapping[str, Any]) -> dict[str, Any]:
    """Some checkpoint in its form, signed by nobody unless one is there."""
    unsigned = {"number": 1, "head": "c" * 64, "signature": "0" * 128}
    return dict(next(iter(seen.values()), unsigned))


#: By field of a layout, hostile values.
LAYOUTS: Mapping[str, tuple[Change, ...]] = {
    "nonce": (to("0" * 64), to("0" * 63), to(""), to(7)),
    "width": (lambda n: n + 1, to(0), to(-1), to(HUGE), to(float("nan")), to(True)),
    "keys": (lambda n: [*n, 1], lambda n: [n[0] + 1], to([-1]), to([HUGE]), to([]), to([True])),
    "numbers": (to([256]), to([-1]), to([]), to([HUGE]), to([float("nan")]), to("x")),
}
_RANKS: tuple[Change, ...] = (
    lambda asked: {**asked, "secret_salary": [1]},
    lambda asked: {**asked, SCRIPT: [1]},
    lambda asked: {name: [*some, *some] for name, some in asked.items()},
    lambda asked: {name: [0] for name in asked},
    lambda asked: {name: [-1] for name in asked},
    lambda asked: {name: [HUGE] for name in asked},
    lambda asked: {name: [float("nan")] for name in asked},
    lambda asked: {name: [True] for name in asked},
    lambda asked: {name: list(range(1, 400)) for name in asked},
    to([]),
    to(None),
)
#: Hostile values at each field of a document, by kind.
DOCUMENTS: Mapping[str, Mapping[str, tuple[Change, ...]]] = {
    "plan": {
        "federation": (
            to({}),
            lambda f: {**f, "name": "other"},
            lambda f: {**f, "domain": {"lower": 1, "upper": HUGE}},
            lambda f: {**f, "domain": {"lower": 1, "upper": float("nan")}},
            lambda f: {**f, "parties": {**f["parties"], SCRIPT: f["parties"]["bank"]}},
            lambda f: {**f, "training": {**f["training"], "weight_column": "secret_salary"}},
        ),
        "purpose": (to("score"), to("spy"), to(None)),
        "model": (to("champion"), to("../../x"), to(OTHER), to(HUGE)),
        "agreement": (to(DIGEST), to(""), to(None)),
        "protocol": (lambda n: n - 1, lambda n: n + 1, to(True), to(float("nan"))),
        "form": (to({"trees": HUGE}), to({SCRIPT: SCRIPT}), to([]), to(None)),
        "reference": (to(OTHER), to("../../x"), to(7)),
        "epoch": (to("2020-01"), to("2999-12"), to("now"), to(None)),
        "holdout": (to(f"1:{'0' * 64}"), to(f"3:{'0' * 64}"), to("1:"), to(None)),
        "day": (to("2020-01-01"), to("2999-01-01"), to("today"), to(HUGE)),
    },
    "split_request": {"splits": _RANKS, "thresholds": _RANKS},
    "split_values": {
        "splits": (
            lambda s: {n: dict.fromkeys(v, float("nan")) for n, v in s.items()},
            lambda s: {n: dict.fromkeys(v, HUGE) for n, v in s.items()},
            lambda s: {n: dict.fromkeys(v, -HUGE) for n, v in s.items()},
            lambda s: {n: dict.fromkeys(v, "1") for n, v in s.items()},
            lambda s: {n: dict(zip(v, reversed(v.values()), strict=True)) for n, v in s.items()},
            lambda s: {n: {"1000000": 1.5, **v} for n, v in s.items()},
            to({}),
            to(None),
        ),
        "ranks": (to({"income": [HUGE]}), to({SCRIPT: [1]}), to([]), to(None)),
    },
    "route_request": {"thresholds": _RANKS},
}


def lists(width: int, kind: str) -> tuple[Change, ...]:
    """Hostile contents of a list of entries.

    Args:
        width: Bytes of one.
        kind: Of the message.
    """
    # One person's entry is spoiled, or two people's answers are exchanged: no run fails by that.
    one: Change = lambda raw: raw[:-1] + bytes([raw[-1] ^ 1])  # noqa: E731
    if kind == "psi_answer":
        one = lambda raw: raw[width : 2 * width] + raw[:width] + raw[2 * width :]  # noqa: E731
    return (
        one,
        to(b""),
        lambda raw: raw[:-1],
        lambda raw: raw[:-width],
        lambda raw: raw + raw[-width:],
        lambda raw: raw[width:] + raw[:width],
        lambda raw: raw[:width] * (len(raw) // width),
        lambda raw: bytes(len(raw)),
        lambda raw: b"\xff" * len(raw),
    )


@pytest.fixture(scope="module")
def stands(
    trained_once: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Workspace]:
    """By kind, a federation whose reader is about to read such a message."""
    found: dict[str, Workspace] = {}
    folder = tmp_path_factory.mktemp("stands")
    due = {READERS[kind]: [k for k in READERS if READERS[k] == READERS[kind]] for kind in READERS}

    def walk(workspace: Workspace, kinds: set[str]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            workspace.known_to(patch)
            workspace.open()
            for step in workspace.steps():
                here = [k for k in due.get((step.party, step.stage), []) if k in kinds]
                for kind in here:
                    copied = folder / f"{kind}-{workspace.purpose}"
                    shutil.copytree(workspace.folder, copied)
                    found[kind] = Workspace(copied, workspace.run, workspace.purpose)
                kinds -= set(here)
                if not kinds:
                    break
                workspace.step(step.party, step.stage)
        assert not kinds

    routed = Workspace.write(folder / "routed", small_credit(rows=200), scoring={"mode": "routed"})
    again = {"split_request", "split_values"}
    walk(routed, set(READERS) - {"values", *again})
    # Of a second run, which asks for thresholds of the version that it compares to.
    walk(trained_once.copy(folder / "again", SECOND_RUN), again)
    walk(trained_once.copy(folder / "scored", SCORING_RUN).scoring(), {"values"})
    return found


class Delivery:
    """Lets messages be delivered, one after the other, to a reader who has read none yet.

    Args:
        workspace: A federation whose reader is about to read such a message.
        kind: Of the message.
    """

    def __init__(self, workspace: Workspace, kind: Kind) -> None:
        self.workspace = workspace
        self.kind = kind
        self.about = "credit" if kind == "plan" else "bank"
        self.place = f"credit_scoring/{workspace.run}/{kind}/{self.about}"
        self.honest = dict(workspace.store.get(self.place) or {})
        self.document: Any = None
        manifest = workspace.artifact(kind, self.about)
        if DOCUMENT in manifest.files:
            self.document = manifest.document
        self.files = {n: raw for n, raw in manifest.files.items() if n not in (MANIFEST, SIGNATURE)}

    def __call__(self, attack: Callable[[], None]) -> tuple[str, Any]:
        """What the reader says in refusing, and what leaves it if it goes on."""
        workspace, (party, stage) = self.workspace, READERS[self.kind]
        home, aside = workspace.home(party), workspace.folder.with_name("aside")
        shutil.rmtree(aside, ignore_errors=True)
        shutil.copytree(workspace.folder / party, aside)
        before, there = released(workspace, party), set(workspace.published())
        try:
            attack()
            try:
                summary = run_stage(party, stage, Run("credit_scoring", workspace.run, "credit"))
            except OpBoostError as error:
                assert released(workspace, party) == before, "something was charged"
                assert set(workspace.published()) <= there, "something was published"
                assert not list(home.glob("errors/*.txt")) or (home / REFUSED).exists(), error
                return str(error), None
            summary.pop("published")
            new = {place: workspace.artifact(*place.split("/")).manifest  # type: ignore[arg-type]
                   for place in set(workspace.published()) - there}  # fmt: skip
            sizes = {place: (m.rows, m.columns, sorted(f.size for f in m.files.values()))
                     for place, m in new.items()}  # fmt: skip
            return "", (summary, sizes)
        finally:
            replace(workspace, self.place, self.honest)
            for place in set(workspace.published()) - there:
                replace(workspace, f"credit_scoring/{workspace.run}/{place}", {})
            shutil.rmtree(workspace.folder / party)
            aside.rename(workspace.folder / party)

    def changed(self, field: str, change: Change) -> tuple[str, Any]:
        """Deliver a message with another value in a field of its manifest."""
        value = change(json.loads(self.honest[MANIFEST]).get(field))
        return self(lambda: send(self.workspace, self.kind, self.about, **{field: value}))

    def rewritten(self, field: str, change: Change) -> tuple[str, Any]:
        """Deliver a message with another value in a field of its document."""
        value = change(self.document.get(field))
        raw = json.dumps({**self.document, field: value}).encode()
        contents = {**self.files, DOCUMENT: raw}
        return self(lambda: send(self.workspace, self.kind, self.about, contents))

    def filled(self, change: Change) -> tuple[str, Any]:
        """Deliver a message with other entries."""
        contents = {**self.files, ENTRIES: change(self.files[ENTRIES])}
        return self(lambda: send(self.workspace, self.kind, self.about, contents))


@pytest.fixture
def delivery(
    stands: Mapping[str, Workspace], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Delivery]:
    """Makes the delivery of a kind."""

    def made(kind: str) -> Delivery:
        stands[kind].known_to(monkeypatch)
        return Delivery(stands[kind], kind)  # type: ignore[arg-type]

    return made


def cases() -> Iterator[tuple[str, str, str]]:
    """Message of the table, field, and kind that bears it."""
    for kind in READERS:
        yield from (("manifest", field, kind) for field in MANIFESTS)
        yield from ((kind, field, kind) for field in DOCUMENTS.get(kind, {}))
        if kind in LISTS:
            yield kind, "entries", kind
        if kind in LAID:
            fields = LAYOUTS if kind == "shares" else ("nonce", "width")
            yield from (("layout", field, kind) for field in fields)


def hostile(one: Delivery, message: str, field: str) -> list[tuple[str, Any]]:
    """Deliver all hostile values at a field."""
    kind = one.kind
    if message == "manifest":
        # The rest of these values is refused by the same code for all kinds.
        some = MANIFESTS[field] if kind in EXAMPLES else MANIFESTS[field][:1]
        return [one.changed(field, change) for change in some]
    if field == "entries":
        rows = one.workspace.artifact(kind, one.about).manifest.rows + 1
        width = 16 if kind == "shares" else len(one.files[ENTRIES]) // rows
        return [one.filled(change) for change in lists(width, kind)]
    changes = LAYOUTS[field] if message == "layout" else DOCUMENTS[kind][field]
    return [one.rewritten(field, change) for change in changes]


@pytest.mark.slow
@pytest.mark.parametrize(("message", "field", "kind"), cases())
def test_a_hostile_value_is_refused_or_decides_nothing(
    message: str, field: str, kind: str, delivery: Callable[[str], Delivery]
) -> None:
    """Where its reader goes on, what leaves the reader is what leaves it without the attack."""
    one = delivery(kind)
    found = hostile(one, message, field)
    gone_on = [outside for said, outside in found if not said]
    if gone_on:
        refused, honest = one(lambda: None)
        assert not refused
        assert all(outside == honest for outside in gone_on)


def by_a_coordinator(one: Delivery, another: Workspace) -> Iterator[tuple[str, dict[str, bytes]]]:
    """What somebody without a key puts in the place of a message."""
    honest, root = one.honest, f"credit_scoring/{one.workspace.run}"
    yield "nothing", {}
    yield "an empty manifest", {**honest, MANIFEST: b""}
    yield "no signature", {n: raw for n, raw in honest.items() if n != SIGNATURE}
    yield "one more file", {**honest, "more.bin": b"x"}
    for name, raw in honest.items():
        yield f"another bit in {name}", {**honest, name: raw[:-1] + bytes([raw[-1] ^ 1])}
        yield f"a shorter {name}", {**honest, name: raw[:-1]}
        yield f"twice what is in {name}", {**honest, name: raw + raw}
        yield f"without {name}", {n: r for n, r in honest.items() if n != name}
    for place in sorted({f"{one.kind}/shop", "shares/bank", "ranks/bank", "plan/credit"}):
        files = one.workspace.store.get(f"{root}/{place}")
        if files is not None and not one.place.endswith(place):
            yield place, dict(files)
    files = another.store.get(f"credit_scoring/{another.run}/{one.kind}/{one.about}")
    if files is not None:
        yield "of another night", dict(files)
        yield "with an old signature", {**honest, SIGNATURE: files[SIGNATURE]}


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
def test_whoever_writes_in_the_store_without_a_key_is_refused(
    kind: str, delivery: Callable[[str], Delivery], trained_once: Workspace
) -> None:
    one = delivery(kind)
    attacks = dict(by_a_coordinator(one, trained_once))
    went_on = [
        what for what, files in attacks.items()
        if not one(lambda files=files: replace(one.workspace, one.place, files))[0]
    ]  # fmt: skip
    assert len(attacks) > 10 and not went_on


def test_every_field_of_the_table_has_hostile_values() -> None:
    told = table()
    assert told.pop("manifest") == set(MANIFESTS)
    assert told.pop("layout") == set(LAYOUTS)
    # Both are inside the manifest's `files`, `head` and `seen`.
    assert told.pop("file") == {"sha256", "size"} and told.pop("checkpoint")
    assert set(told) == set(READERS) | ROUNDS
    for kind, fields in told.items():
        if kind not in ROUNDS and kind not in LISTS:
            assert fields == set(DOCUMENTS[kind]), kind
