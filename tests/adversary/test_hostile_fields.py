"""Hostile values at every field of every message: they are refused, or they decide nothing.

A hostile sender signs them with its real key; a coordinator, who writes in the store between the
parties, has no key. The receivers are unmodified.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.artifact import DOCUMENT
from opboost_ops.exchange.files import ENTRIES
from opboost_ops.exchange.manifest import MANIFEST, SIGNATURE, Kind
from opboost_ops.pipeline.party.admission import REFUSED
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.runner.runner import run_stage
from tests.adversary.hostile_values import DOCUMENTS, LAYOUTS, LISTS, MANIFESTS, Change, lists
from tests.adversary.kit import released, replace, send
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
#: Kinds at which all hostile values of a manifest are delivered: two to each reader.
EXAMPLES = {"plan", "ranks"}
#: Kinds with a layout.
LAID = ("shares", "ranks", "routes", "values")


@pytest.fixture(scope="module")
def stands(
    trained_once: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Workspace]:
    """By kind, a federation whose reader is about to read such a message."""
    found: dict[str, Workspace] = {}
    folder = tmp_path_factory.mktemp("stands")
    due = {READERS[kind]: [k for k in READERS if READERS[k] == READERS[kind]] for kind in READERS}

    def walk(workspace: Workspace, kinds: set[str]) -> None:
        with workspace.known():
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
    """Message of the table, field, and kind that has it."""
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
    """Where its reader goes on, nothing leaves the reader that does not leave it anyway.

    Who asks for fewer split values is told fewer.
    """
    one = delivery(kind)
    found = hostile(one, message, field)
    gone_on = [outside for said, outside in found if not said]
    if gone_on:
        refused, honest = one(lambda: None)
        assert not refused
        if field == "thresholds":
            answered = [sizes.pop("split_values/bank") for _, sizes in (honest, *gone_on) if sizes]
            assert all(rows <= answered[0][0] for rows, *_ in answered)
            assert len({repr(rest) for _, *rest in answered}) <= 1
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
