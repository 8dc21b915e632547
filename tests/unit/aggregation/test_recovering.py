"""Parties that drop out of a private session: the sum is of who remains, and nothing else opens."""

import json
import shutil

import numpy as np
import pytest

from opboost_ops.aggregation import shamir
from opboost_ops.aggregation.double_masks import _exchange, _key, _public
from opboost_ops.aggregation.masks import stream
from opboost_ops.aggregation.recovering import SHARES
from opboost_ops.boosting.private_federboost import BATCH
from opboost_ops.boosting.rounds import Round
from opboost_ops.config.schema import Record
from opboost_ops.errors import ContractError
from tests.horizontal import RUN, Banks

PRIVATE = {"epsilon": 4.0, "delta": 1e-4, "remain": 3, "colluding": 1}
FIRST, SECOND, THIRD = (Round("trees", first) for first in (0, BATCH, 2 * BATCH))


class Sum(Record):
    total: tuple[int, ...]


def plain(total):
    return Sum(total=tuple(int(n) for n in total))


def banks_of(folder, count=4, **private):
    banks = Banks(folder, count, private={**PRIVATE, **private})
    banks.draw = lambda phase, size: np.zeros(size, dtype=np.int64)
    return banks


class Gone(Exception):
    pass


def added(box, i, *names, until=None):
    """Rounds in which party i adds 10^i; it is gone before the round `until`."""
    totals = []
    for name in names:
        if name == until:
            raise Gone
        vector = np.array([10**i], dtype=np.int64)
        totals.append(box.step(name, 1, lambda vector=vector: vector, plain, Sum).total[0])
    return totals


def test_with_everybody_there_the_sum_is_everybodys(tmp_path):
    banks = banks_of(tmp_path)
    found, errors = banks.together(lambda box, i: added(box, i, FIRST, SECOND), patience=20)
    assert not errors
    assert set(map(tuple, found.values())) == {(1111, 1111)}


@pytest.mark.parametrize("victim", [1, 2, 3])
def test_without_a_party_the_sum_is_of_those_that_remain(tmp_path, victim):
    banks = banks_of(tmp_path)

    def work(box, i):
        return added(box, i, FIRST, SECOND, THIRD, until=SECOND if i == victim else None)

    found, errors = banks.together(work)
    assert [type(error) for error in errors.values()] == [Gone]
    less = 1111 - 10**victim
    assert set(map(tuple, found.values())) == {(1111, less, less)}


class Stops:
    """A store whose party is killed before it publishes its first message of a kind and round.

    Who hears a round's decision first need not publish the rest: it hears it later.
    """

    def __init__(self, store, kind, name, after=False):
        self._store, self._place, self._after = store, (kind, name), after
        self.last = {}

    def __getattr__(self, name):
        return getattr(self._store, name)

    def get(self, reference, admit=None):
        if reference == f"banks/{RUN}/decision/bank_a/{self._place[1]}":
            return None
        return self._store.get(reference, admit)

    def put_once(self, reference, files, **options):
        _, _, kind, _, name = reference.split("/")
        here = (kind, name) == self._place
        if here:
            self.last = {reference: dict(files)}
        if here and not self._after:
            raise Gone
        new = self._store.put_once(reference, files, **options)
        if here:
            raise Gone
        return new


def test_a_party_that_is_gone_after_its_vector_is_in_the_sum_and_then_no_more(tmp_path):
    """Its own mask comes off by the others' shares."""
    banks = banks_of(tmp_path)
    dying = {"bank_c": Stops(banks.store, "masked", SECOND.name, after=True)}
    found, errors = banks.together(
        lambda box, i: added(box, i, FIRST, SECOND, THIRD), store=dying, patience=0.6
    )
    assert [type(error) for error in errors.values()] == [Gone]
    assert set(map(tuple, found.values())) == {(1111, 1111, 1011)}


def test_a_party_that_comes_back_late_listens_and_sends_nothing_more(tmp_path):
    banks = banks_of(tmp_path)

    def work(box, i):
        return added(box, i, FIRST, SECOND, THIRD, until=SECOND if i == 3 else None)

    banks.together(work)
    before = set(banks.store.list(f"banks/{RUN}"))
    found, errors = banks.together(
        lambda box, i: added(box, i, FIRST, SECOND, THIRD), only=["bank_d"]
    )
    assert not errors and found["bank_d"] == [1111, 111, 111]
    assert set(banks.store.list(f"banks/{RUN}")) == before


def test_a_vector_that_comes_late_stays_under_its_own_mask(tmp_path):
    """Its pairwise masks are open then; the share of its own mask is never given out."""
    banks = banks_of(tmp_path)
    late = {"bank_d": Stops(banks.store, "masked", SECOND.name)}
    _, errors = banks.together(lambda box, i: added(box, i, FIRST, SECOND), store=late)
    assert set(errors) == {"bank_d"}
    box = banks.mailbox("bank_d")
    # As if it had not looked: it sends what it had ready when it was taken for gone.
    box.step(FIRST, 1, lambda: np.array([1000]), plain, Sum)
    masked = box._under_masks(box._masks, SECOND, np.array([1000]))
    box._post.send("masked", SECOND.name, 1, vector=masked.tobytes())
    assert f"banks/{RUN}/masked/bank_d/{SECOND.name}" in banks.store.list(f"banks/{RUN}")
    # With all that the others have opened, its pairwise masks come off, and its own one does not.
    doubles = [banks.mailbox(name)._doubles for name in banks.names[:3]]
    shares = {at: d._dealt["bank_d"].pair[SECOND.name] for at, d in enumerate(doubles, start=1)}
    key = _key(shamir.joined(shares))
    assert _public(shamir.joined(shares)) == doubles[0]._dealt["bank_d"].keys[SECOND.name]
    left = masked.copy()
    for other in banks.names[:3]:
        # bank_d comes last, and so has taken them away.
        shared = _exchange(key, box._doubles._dealt[other].keys[SECOND.name], other)
        left += stream(doubles[0]._seed(b"pair", SECOND.name, shared), 1)
    own = box._doubles._own(SECOND.name, box._doubles._secrets.own(SECOND.name), 1)
    assert (left - own)[0] == 1000 and left[0] > 1 << 32
    for name in banks.names[:3]:
        kept = banks.mailbox(name)._sent
        assert kept.present(SECOND) == banks.names[:3]
        with pytest.raises(ContractError, match="opens nothing"):
            kept.keep_present(SECOND, banks.names)


def test_with_too_few_left_one_refusal_stands_at_all_that_remain(tmp_path):
    banks = banks_of(tmp_path)

    def work(box, i):
        return added(box, i, FIRST, SECOND, THIRD, until=SECOND if i > 1 else None)

    _, errors = banks.together(work)
    for name in banks.names[:2]:
        assert isinstance(errors[name], ContractError)
        assert "closed the session: fewer than 3 parties remain, without bank_c, bank_d" in str(
            errors[name]
        )
    # It is final: nobody learns that level, even if a party comes back.
    _, errors = banks.together(lambda box, i: added(box, i, FIRST, SECOND))
    assert set(errors) == set(banks.names)
    assert all("closed the session" in str(error) for error in errors.values())
    places = banks.store.list(f"banks/{RUN}")
    assert not [p for p in places if "/opened/" in p and p.endswith(SECOND.name)]


def test_a_party_that_vanishes_twice_ends_in_one_refusal(tmp_path):
    """One is gone before its vector; of three that are named one does not attest: two open."""
    banks = banks_of(tmp_path)
    dying = {
        "bank_c": Stops(banks.store, "attested", SECOND.name),
        "bank_d": Stops(banks.store, "masked", SECOND.name),
    }
    _, errors = banks.together(lambda box, i: added(box, i, FIRST, SECOND), store=dying)
    assert "closed the session: fewer than 3" in str(errors["bank_a"])
    assert "closed the session: fewer than 3" in str(errors["bank_b"])
    places = banks.store.list(f"banks/{RUN}")
    # Who has not seen three say the same opens nothing.
    assert not [p for p in places if "/opened/" in p and p.endswith(SECOND.name)]


@pytest.mark.parametrize("kind", ["masked", "attendance", "attested", "opened", "decision"])
@pytest.mark.parametrize("after", [False, True])
def test_who_is_killed_and_comes_back_in_time_sends_the_same(tmp_path, kind, after):
    banks = banks_of(tmp_path)
    victim = "bank_a" if kind in ("attendance", "decision") else "bank_b"
    dying = {victim: Stops(banks.store, kind, SECOND.name, after)}
    sent = {}

    class Notes:
        def __getattr__(self, name):
            return getattr(banks.store, name)

        def put_once(self, reference, files, **options):
            assert sent.setdefault(reference, dict(files)) == dict(files)
            return banks.store.put_once(reference, files, **options)

    def work(box, i):
        if banks.names[i] != victim:
            return added(box, i, FIRST, SECOND, THIRD)
        with pytest.raises(Gone):
            added(box, i, FIRST, SECOND, THIRD)
        sent.update({p: dict(banks.store.get(p)) for p in banks.store.list(f"banks/{RUN}")})
        sent.update(dying[victim].last)
        box = banks.mailbox(victim, Notes(), patience=5.0)
        return added(box, i, FIRST, SECOND, THIRD)

    found, errors = banks.together(work, store=dying, patience=5.0)
    assert not errors
    assert set(map(tuple, found.values())) == {(1111, 1111, 1111)}


class Told:
    """A store that shows one party other files at one place."""

    def __init__(self, store, place, files):
        self._store, self._place, self._files = store, place, files

    def __getattr__(self, name):
        return getattr(self._store, name)

    def get(self, reference, admit=None):
        return self._files if reference == self._place else self._store.get(reference, admit)


def test_an_active_party_that_tells_two_lists_has_neither_opened(tmp_path):
    banks = banks_of(tmp_path, count=5, remain=4)
    banks.together(lambda box, i: added(box, i, FIRST))
    place = f"banks/{RUN}/attendance/bank_a/{SECOND.name}"
    box = banks.mailbox("bank_a", patience=20.0)
    box.step(FIRST, 1, lambda: np.array([1]), plain, Sum)
    two = []
    for names in (["bank_a", "bank_b", "bank_c", "bank_d"], banks.names):
        two.append(box._post.send("attendance", SECOND.name, document={"present": names}))
        shutil.rmtree(banks.folder / "store" / place)
    views = {name: Told(banks.store, place, two[i > 1]) for i, name in enumerate(banks.names[1:])}
    _, errors = banks.together(
        lambda box, i: added(box, i, FIRST, SECOND), only=banks.names[1:], store=views, timeout=1.0
    )
    assert all("told of other parties" in str(errors[n]) for n in ("bank_b", "bank_c"))
    assert set(errors) == set(banks.names[1:])
    places = banks.store.list(f"banks/{RUN}")
    assert [p for p in places if "/attested/" in p and p.endswith(SECOND.name)]
    assert not [p for p in places if "/opened/" in p and p.endswith(SECOND.name)]


def test_a_vector_of_another_round_closes_the_session_for_all(tmp_path):
    banks = banks_of(tmp_path)
    banks.together(lambda box, i: added(box, i, FIRST))
    source = banks.folder / "store" / f"banks/{RUN}/masked/bank_b/{FIRST.name}"
    place = source.with_name(SECOND.name)
    place.mkdir()
    for file in source.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    _, errors = banks.together(
        lambda box, i: added(box, i, FIRST, SECOND), only=["bank_a", "bank_c", "bank_d"]
    )
    assert isinstance(errors["bank_a"], ContractError)
    assert all("closed the session: a message" in str(error) for error in errors.values())
    assert len(errors) == 3


def test_shares_in_the_store_are_sealed_for_one_party_each(tmp_path):
    banks = banks_of(tmp_path)
    banks.together(lambda box, i: added(box, i, FIRST))
    place = f"banks/{RUN}/round_shares/bank_b/{SHARES}"
    document = json.loads(banks.store.get(place)["document.json"])
    assert set(document) == {"keys", "marks", "sealed"}
    assert set(document["sealed"]) == {"bank_a", "bank_c", "bank_d"}
    box = banks.mailbox("bank_c")
    shares = box._doubles._dealt["bank_b"]
    raw = shares.pair[FIRST.name].to_bytes(32, "big")
    assert not [
        p for p in banks.store.list(f"banks/{RUN}")
        if any(raw in content for content in banks.store.get(p).values())
    ]  # fmt: skip
