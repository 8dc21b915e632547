"""Hostile values at every field of every message of horizontal learning, over whole sessions."""

import base64
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from opboost_ops.exchange.artifact import DOCUMENT, VECTOR, Draft
from opboost_ops.exchange.manifest import MANIFEST, ROUND_KINDS, SIGNATURE, Kind
from opboost_ops.exchange.rounds.masks import sum_without_masks
from opboost_ops.exchange.rounds.protocol import DecisionKey
from tests.adversary.hostile_values import ACTIVE, MANIFESTS, ROUND_DOCUMENTS, Change, encoded
from tests.adversary.rounds import ROUNDS, Session, banks_of, require_harmless, session, software
from tests.horizontal import RUN, Banks

#: Who is hostile, if it is not the active party.
PASSIVE = "bank_c"
SENDERS: Mapping[Kind, tuple[str, ...]] = {
    "round_key": (PASSIVE, ACTIVE),
    "masked": (PASSIVE,),
    "decision": (ACTIVE,),
}
#: Fields by which a party spoils the sum: what it adds is its own to say.
DECIDING = {("masked", "vector"), ("decision", "sealed")}
T = TypeVar("T")

#: Kinds at which all hostile values of a manifest are delivered: one of each sender.
EXAMPLES = {"masked", "decision"}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Session:
    found = session(banks_of(tmp_path_factory.mktemp("honest")), timeout=20)
    assert not found.errors
    assert set(map(tuple, found.totals.values())) == {(1111, 1111)}
    return found


def changes(kind: Kind, field: str) -> Iterator[Callable[[dict[str, Any], dict[str, bytes]], None]]:
    """What changes a message's manifest or files."""
    if field in MANIFESTS:
        # The rest of these values is refused by the same code for all kinds.
        for change in MANIFESTS[field] if kind in EXAMPLES else MANIFESTS[field][:1]:

            def in_manifest(data: dict[str, Any], _: Any, change: Change = change) -> None:
                data[field] = change(data.get(field, {}))

            yield in_manifest
        return
    for change in ROUND_DOCUMENTS[kind][field]:

        def in_file(_: Any, raw: dict[str, bytes], change: Change = change) -> None:
            if kind == "masked":
                raw[VECTOR] = change(raw[VECTOR])
                return
            document = json.loads(raw[DOCUMENT])
            if field in document or field == "closed":
                document[field] = change(document.get(field))
            raw[DOCUMENT] = json.dumps(document).encode()

        yield in_file


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "sender"), [(kind, sender) for kind, senders in SENDERS.items() for sender in senders]
)
def test_a_hostile_value_is_refused_or_decides_nothing(
    kind: Kind, sender: str, honest: Session, tmp_path: Path
) -> None:
    attacks = [
        (field, change)
        for field in (*MANIFESTS, *ROUND_DOCUMENTS[kind])
        for change in changes(kind, field)
    ]
    runs = [f"{number:016x}" for number in range(1, len(attacks) + 1)]
    by_run = {run: change for run, (_, change) in zip(runs, attacks, strict=True)}

    def attacked(run: str) -> Session:
        return session(banks_of(tmp_path / run), hostile=sender, run=run)

    with software(sender, kind, lambda data, raw: by_run[data["run"]](data, raw)):
        for (field, _), found in zip(attacks, at_once(attacked, runs), strict=True):
            require_harmless(found, honest, decides=(kind, field) in DECIDING)


def at_once(attacked: Callable[[T], Session], attacks: Iterable[T]) -> Iterator[Session]:
    """Sessions side by side: nearly all of their time is waiting for a party that says no more."""
    with ThreadPoolExecutor(8) as pool:
        yield from pool.map(attacked, attacks)


@pytest.mark.parametrize("count", [3, 4])
@pytest.mark.parametrize("encoding", ["the same bytes", "another encoding"])
def test_who_copies_another_party_s_key_cancels_nobody_s_masks(
    count: int, encoding: str, tmp_path: Path
) -> None:
    """Masks with two parties of one key would cancel at a party between them, by name."""
    banks = Banks(tmp_path, count, encrypted=False)
    hostile, victim = banks.names[-1], banks.names[-2]
    source = f"banks/{RUN}/round_key/{banks.names[0]}/keys"

    def copied(_: Any, raw: dict[str, bytes]) -> None:
        files = waited_for(banks, source)
        key = base64.b64decode(json.loads(files[DOCUMENT])["key"])
        if encoding != "the same bytes":
            key = key[:-1] + bytes([key[-1] | 0x80])  # X25519 ignores the highest bit.
        raw[DOCUMENT] = json.dumps({**json.loads(raw[DOCUMENT]), "key": encoded(key)}).encode()

    with software(hostile, "round_key", copied):
        found = session(banks, hostile)
    assert found.errors[victim].reason == "malformed"  # type: ignore[attr-defined]
    assert not [place for place in found.sizes if f"/masked/{victim}/" in place]


def waited_for(banks: Banks, place: str) -> Mapping[str, bytes]:
    end = time.monotonic() + 20
    while (files := banks.store.get(place)) is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    return files


class Shown:
    """A store that shows every reader other files at one place."""

    def __init__(self, store: Any, place: str, files: Callable[[dict[str, bytes]], Any]) -> None:
        self._store, self._place, self._files = store, place, files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, reference: str, admit: Any = None) -> Any:
        files = self._store.get(reference, admit)
        return self._files(dict(files)) if files is not None and reference == self._place else files


def test_parties_that_heard_different_decisions_add_up_to_nothing(tmp_path: Path) -> None:
    """By a decision for each, the active party could have all others but one send zeros."""
    banks = banks_of(tmp_path, encrypted=False)
    place = f"banks/{RUN}/decision/{ACTIVE}/{ROUNDS[0].name}"
    key = DecisionKey.of_run(banks.identity(ACTIVE).seed or b"")

    def another(files: dict[str, bytes]) -> Mapping[str, bytes]:
        document = json.loads(files[DOCUMENT])
        document["sealed"] = key.seal(ROUNDS[0].name, b'{"total":[7]}')
        answers = json.loads(files[MANIFEST])["answers"]
        draft = Draft(
            kind="decision",
            about=ACTIVE,
            round=ROUNDS[0].name,
            rows=1,
            answers=answers,
            discloses="",
            document=document,
        )
        return draft.seal(banks.signers[ACTIVE], "banks", RUN, ACTIVE, False)[1]

    found = session(banks, ACTIVE, store={PASSIVE: Shown(banks.store, place, another)})
    assert found.totals[PASSIVE] == [7] and found.totals["bank_b"] == [1111]
    sent = [banks.store.get(f"banks/{RUN}/masked/{n}/{ROUNDS[1].name}") for n in banks.names[1:]]
    raw = [files[VECTOR] for files in sent if files is not None]
    raw += [(tmp_path / f"kept_{RUN}_{ACTIVE}" / f"{ROUNDS[1].name}.bin").read_bytes()]
    assert len(raw) == 4
    assert int(sum_without_masks([np.frombuffer(each, dtype="<u8") for each in raw])[0]) != 1111


class Limits:
    """A store that notes how much its readers are about to take of a message's files."""

    def __init__(self, store: Any) -> None:
        self._store, self.most = store, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, reference: str, admit: Any = None) -> Any:
        def noted(heads: Mapping[str, bytes]) -> Mapping[str, int]:
            sizes: Mapping[str, int] = admit(heads)
            self.most = max(self.most, *sizes.values())
            return sizes

        return self._store.get(reference, noted if admit else None)


@pytest.mark.parametrize("kind", ["masked", "round_key"])
def test_a_message_larger_than_any_that_is_due_is_not_read(kind: Kind, tmp_path: Path) -> None:
    """Its sender decides what it lists, and the reader's memory is not the sender's."""
    banks = banks_of(tmp_path)
    store = Limits(banks.store)

    def huge(_: Any, raw: dict[str, bytes]) -> None:
        raw[VECTOR if kind == "masked" else DOCUMENT] = bytes(40 << 20)

    with software(PASSIVE, kind, huge):
        found = session(banks, PASSIVE, store=store, timeout=20)
    assert store.most < 40 << 20
    assert found.errors[ACTIVE].reason == "malformed"  # type: ignore[attr-defined]


def by_a_coordinator(earlier: Mapping[str, bytes], other: Mapping[str, bytes]) -> dict[str, Any]:
    """What somebody without a key shows in the place of a message."""
    found: dict[str, Any] = {
        "an empty manifest": lambda files: {**files, MANIFEST: b""},
        "no signature": lambda files: {n: raw for n, raw in files.items() if n != SIGNATURE},
        "one more file": lambda files: {**files, "more.bin": b"x"},
        "of another run": lambda _: dict(earlier),
        "of another place": lambda _: dict(other),
        "with an old signature": lambda files: {**files, SIGNATURE: earlier[SIGNATURE]},
        "nothing": lambda _: None,
    }
    for name in earlier:
        found[f"a shorter {name}"] = lambda f, n=name: {**f, n: f[n][:-1]}
        found[f"without {name}"] = lambda f, n=name: {k: raw for k, raw in f.items() if k != n}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROUND_KINDS)
def test_whoever_writes_in_the_store_without_a_key_is_refused(
    kind: Kind, honest: Session, tmp_path: Path
) -> None:
    sender = SENDERS[kind][0]
    name = "keys" if kind == "round_key" else ROUNDS[1].name
    place = f"banks/{RUN}/{kind}/{sender}/{name}"
    one, earlier_run = banks_of(tmp_path / "one"), "1" * 16
    session(one, run=earlier_run, timeout=20)
    earlier = one.store.get(place.replace(RUN, earlier_run))
    session(one, timeout=20)
    other = one.store.get(next(p for p in one.store.list(f"banks/{RUN}") if p != place))
    assert earlier and other
    attacks = by_a_coordinator(earlier, other)
    assert len(attacks) > 8

    def attacked(numbered: tuple[int, Any]) -> Session:
        banks = banks_of(tmp_path / str(numbered[0]))
        return session(banks, store=Shown(banks.store, place, numbered[1]))

    for found in at_once(attacked, enumerate(attacks.values())):
        require_harmless(found, honest, decides=False)
