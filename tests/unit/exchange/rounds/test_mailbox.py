"""Rounds over a store: all end with one model, whatever dies; what is foreign is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

from opboost_ops.config.schema import Record
from opboost_ops.errors import ArtifactError, ClosedSessionError, ContractError
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.rounds.protocol import Alone, Round
from opboost_ops.learning.federboost.federboost import learn
from opboost_ops.learning.federboost.histogram_text import ColumnText, text_of
from opboost_ops.learning.federboost.objectives import Objective
from tests.horizontal import RUN, Banks, some_rows


class Sum(Record):
    total: tuple[int, ...]


def text(ensemble, settings=None):
    columns = [ColumnText(f"c{i}", (1.0, 256.0), float) for i in range(3)]
    return text_of(ensemble, (settings or some_rows()[2]).objective, columns)


def shares(count):
    columns, label, settings = some_rows()
    parts = np.array_split(np.arange(label.size), count)
    return [([c[part] for c in columns], label[part]) for part in parts], settings


def alone(settings):
    """The model of one party that has all rows."""
    columns, label, _ = some_rows()
    return text(learn(columns, label, settings, Alone()), settings)


def published(banks):
    return {place: banks.store.get(place) for place in banks.store.list(f"banks/{RUN}")}


def plain(total):
    return Sum(total=tuple(int(n) for n in total))


@pytest.mark.parametrize(
    ("count", "encrypted", "task"),
    [(3, True, "binary"), (5, False, "binary"), (3, True, "regression")],
)
def test_all_parties_end_with_the_model_of_one_party(tmp_path, count, encrypted, task):
    banks = Banks(tmp_path, count, encrypted)
    parts, settings = shares(count)
    if task == "regression":
        settings = replace(settings, objective=Objective("regression", 0, (0.0, 1.0)))
    found, errors = banks.together(
        lambda box, i: (text(learn(*parts[i], settings, box), settings), box.head)
    )
    assert not errors
    assert {model for model, _ in found.values()} == {alone(settings)}
    assert len({head for _, head in found.values()}) == 1
    places = banks.store.list(f"banks/{RUN}")
    assert not [place for place in places if f"/masked/{banks.active}/" in place], (
        "anyone who reads the store could add up all vectors"
    )


class Dies:
    """A store whose party is killed as it publishes, after or before the message is out."""

    def __init__(self, store, at, after):
        self._store, self._left, self._after = store, at, after

    def __getattr__(self, name):
        return getattr(self._store, name)

    def put_once(self, reference, files, **options):
        self._left -= 1
        if self._left == 0 and not self._after:
            raise KeyboardInterrupt
        new = self._store.put_once(reference, files, **options)
        if self._left == 0:
            raise KeyboardInterrupt
        return new


@pytest.mark.parametrize(("victim", "after"), [(0, True), (0, False), (1, False)])
def test_a_party_killed_in_mid_training_goes_on_with_the_same_bytes(tmp_path, victim, after):
    banks = Banks(tmp_path)
    parts, settings = shares(3)
    name = banks.names[victim]
    dying = {name: Dies(banks.store, 14, after)}

    def work(box, i):
        try:
            return text(learn(*parts[i], settings, box))
        except KeyboardInterrupt:
            raise RuntimeError("killed") from None

    _, errors = banks.together(work, store=dying, timeout=0.7)
    assert str(errors[name]) == "killed"
    # The others say whom they waited for.
    for other in set(banks.names) - {name}:
        waited_for = name if victim == 0 or other == banks.active else banks.active
        assert f"waits for {waited_for}" in str(errors[other])
        assert isinstance(errors[other], ArtifactError)
    before = published(banks)
    assert len(before) > 20
    found, errors = banks.together(work)
    assert not errors
    assert set(found.values()) == {alone(settings)}
    assert before.items() <= published(banks).items()


@pytest.mark.parametrize("rows", [30, 240])
def test_an_integer_takes_as_many_bytes_whatever_the_rows(tmp_path, rows):
    """They follow from what is declared: who reads the store learns of no rows from them."""
    banks = Banks(tmp_path, encrypted=False)
    columns, label, settings = some_rows(rows)
    settings = replace(settings, growth=replace(settings.growth, min_node_rows=2))
    parts = np.array_split(np.arange(rows), 3)
    _, errors = banks.together(
        lambda box, i: learn([c[parts[i]] for c in columns], label[parts[i]], settings, box)
    )
    assert not errors
    found = set()
    for place in banks.store.list(f"banks/{RUN}"):
        if "/masked/" in place:
            files = banks.store.get(place)
            phase = place.split("/")[-1].split("-")[0]
            found.add(
                (phase, len(files["vector.bin"]) / json.loads(files["manifest.json"])["rows"])
            )
    assert found == {("facts", 4), ("lookup", 4), ("trees", (8 + 8 + 4) / 3)}


def one_round(value):
    def work(box, i):
        vector = np.array([value, i], dtype=np.int64)
        return box.step(Round("facts"), 2, lambda: vector, plain, Sum)

    return work


def test_another_vector_in_a_round_is_never_sent(tmp_path):
    banks = Banks(tmp_path)
    passive = banks.names[2]
    _, errors = banks.together(one_round(5), only=banks.names[1:], timeout=0.3)
    assert all("waits for bank_a" in str(error) for error in errors.values())
    place = f"banks/{RUN}/round_key/{passive}/keys"
    key = banks.store.get(place)
    assert key is not None
    # All keys come, but the active party is slow: the vectors go out, and no decision comes.
    banks.together(lambda box, i: None)
    banks.together(one_round(5), only=banks.names[1:], timeout=0.3)
    sent = banks.store.get(f"banks/{RUN}/masked/{passive}/facts-00000-00")
    assert sent is not None
    _, errors = banks.together(one_round(6), only=[passive], timeout=0.3)
    assert isinstance(errors[passive], ContractError)
    assert "computed a different vector" in str(errors[passive])
    assert banks.store.get(f"banks/{RUN}/masked/{passive}/facts-00000-00") == sent
    found, errors = banks.together(one_round(5))
    assert not errors
    assert {tuple(one.total) for one in found.values()} == {(15, 3)}


def test_a_vector_that_might_overflow_or_has_another_size_is_not_sent(tmp_path):
    banks = Banks(tmp_path)

    def work(box, i):
        wrong = np.array([(1 << 63) // 3 + 1] if i == 1 else [1, 2][: 1 + (i == 2)])
        return box.step(Round("facts"), 1, lambda: wrong, plain, Sum)

    _, errors = banks.together(work, timeout=0.5)
    for name in banks.names[1:]:
        assert "does not fit its round" in str(errors[name])
    assert not [p for p in banks.store.list(f"banks/{RUN}") if "/masked/" in p]


def forge(banks, source, place, spoil):
    """Put what ``spoil`` makes of one place's files at another."""
    files = spoil(dict(banks.store.get(source)))
    folder = banks.folder / "store" / place
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def changed(files, **entries):
    manifest = {**json.loads(files["manifest.json"]), **entries}
    raw = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    return {**files, "manifest.json": raw}


def signed(banks, name):
    def sign(files):
        return {**files, "manifest.sig": banks.signers[name].sign(files["manifest.json"])}

    return sign


def first(name):
    return f"banks/{RUN}/masked/{name}/lookup-00000-00"


def second(name):
    return f"banks/{RUN}/masked/{name}/lookup-00000-01"


@pytest.mark.parametrize(
    ("reason", "spoil"),
    [
        ("replayed", lambda b, f: f),
        ("wrong_answer", lambda b, f: signed(b, "bank_b")(changed(f, round="lookup-00000-01"))),
    ],
)
def test_a_message_that_is_not_due_closes_the_session_for_all(tmp_path, reason, spoil):
    banks = Banks(tmp_path, encrypted=False)

    def once(box, i):
        return box.step(Round("lookup"), 1, lambda: np.array([i]), plain, Sum)

    def twice(box, i):
        if i == 1:
            # What lies at its place in the second round is not its own.
            box.step(Round("lookup"), 1, lambda: np.array([i]), plain, Sum)
            return
        for level in range(2):
            box.step(Round("lookup", level=level), 1, lambda: np.array([i]), plain, Sum)

    # A first try in which the second party stops after the first round.
    banks.together(once)
    forge(banks, first("bank_b"), second("bank_b"), lambda files: spoil(banks, files))
    if reason == "replayed":
        # The same conversation has heard it in the round before.
        (banks.folder / "store" / f"banks/{RUN}/decision/bank_a/lookup-00000-00").rename(
            banks.folder / "taken"
        )
    _, errors = banks.together(twice, timeout=1.0)
    assert isinstance(errors["bank_a"], Rejected), errors
    assert errors["bank_a"].reason == reason
    # Nobody waits for what can't come any more: one refusal at all that remain, also at a retry.
    assert set(errors) == {"bank_a", "bank_c"}
    _, again = banks.together(twice, only=["bank_a", "bank_c"], timeout=1.0)
    assert set(again) == {"bank_a", "bank_c"}
    for error in (errors["bank_c"], *again.values()):
        assert isinstance(error, ClosedSessionError)
        assert "the active party has closed the session" in str(error)
        assert "charged" not in str(error), "exact sums have no budget"


def test_a_strangers_key_or_one_of_another_run_opens_no_session(tmp_path):
    banks = Banks(tmp_path)
    banks.together(lambda box, i: None, run="1" * 16)
    for name in banks.names[1:]:
        place = banks.folder / "store" / f"banks/{RUN}/round_key/{name}/keys"
        place.mkdir(parents=True)
        for file, raw in banks.store.get(f"banks/{'1' * 16}/round_key/{name}/keys").items():
            (place / file).write_bytes(raw)
    _, errors = banks.together(lambda box, i: None, only=[banks.active], timeout=0.5)
    assert errors[banks.active].reason == "wrong_run"
    banks.pinned.pop("bank_b")
    _, errors = banks.together(lambda box, i: None, only=["bank_c"], timeout=0.5, run="1" * 16)
    assert errors["bank_c"].reason == "unknown_party"


def test_decisions_are_for_the_parties_eyes(tmp_path):
    """Also where no party declares an encryption key."""
    banks = Banks(tmp_path, encrypted=False)
    _, errors = banks.together(one_round(123456789))
    assert not errors
    document = json.loads(
        banks.store.get(f"banks/{RUN}/decision/{banks.active}/facts-00000-00")["document.json"]
    )
    assert set(document) == {"sealed", "keys"} and set(document["keys"]) == set(banks.names[1:])
    assert "370370367" not in json.dumps(document), "three times the number is what was decided"
