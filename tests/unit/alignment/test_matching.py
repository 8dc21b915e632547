"""Private alignment against a plain join, and what each party could learn besides."""

import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.alignment import curve, oprf, parts, zero_shares
from opboost_ops.alignment.ids import CANARY, messages
from opboost_ops.alignment.tags import positions_in, rows_of, sorting, strictly_rising, tags
from opboost_ops.errors import ContractError
from tests.unit.alignment.session import FEDERATION, Session, people, triples


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sets(st.integers(0, 12), min_size=1), min_size=2, max_size=8), st.integers(0, 9))
def test_random_sets_against_a_plain_join(sets: list[set[int]], number: int) -> None:
    label, *holders = (people(*numbers) for numbers in sets)
    mine, found = Session(label, holders, number).run()
    assert set(mine) == set(label).intersection(*holders)
    assert len(mine) == len(set(mine))
    assert all(theirs == mine for theirs in found)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sets(st.integers(0, 40), min_size=1), min_size=2, max_size=5),
    st.sampled_from([1, 3, 8]),
    st.sampled_from([2, 11, 99]),
)
def test_parts_find_whom_one_piece_finds(sets: list[set[int]], size: int, held: int) -> None:
    label, *holders = (people(*numbers) for numbers in sets)
    session = Session(label, holders)
    whole, query = session.run(), session.query()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "PART", size)
        # On the disk, beyond some people.
        patch.setattr(session, "held", held)
        cut = session.query()
        # To the byte: parts are pieces of one list.
        assert (cut.points == query.points).all()
        assert (cut.rows == query.rows).all()
        assert session.run() == whole
        for part, found in enumerate(session.queries()):
            count = parts.part_count(len(label) + 1)
            assert (parts.part_of(found.points, count) == part).all()


@pytest.mark.parametrize("held", [20, 1000])
def test_sorted_tags_in_parts_are_those_in_one_piece(
    monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    session = Session(people(1, 2), [people(*range(300))])
    whole, rows = session.layout(0)
    monkeypatch.setattr(parts, "PART", 50)
    session.held = held
    layouts, again = session.layouts(0)
    assert len(layouts) == 8
    assert (np.concatenate([layout.content for layout in layouts]) == whole.content).all()
    assert (again == rows).all()


def test_no_two_parts_of_a_table_have_a_slot_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free slots of each come from a stream of its own; sums of two parts would show them."""
    monkeypatch.setattr(parts, "PART", 40)
    everyone = people(*range(150))
    session = Session(people(1), [everyone, everyone, everyone])
    layouts, _ = session.layouts(0)
    assert len(layouts) == 4
    slots = [slot.tobytes() for layout in layouts for slot in layout.content]
    assert len(set(slots)) == len(slots)
    pairs = session.pairs(0)
    known = {row.tobytes() for row in zero_shares.shares(pairs, [*everyone, CANARY])}
    found = [triples(layout.content) for layout in layouts]
    assert not any(one & two for one, two in itertools.combinations(found, 2))
    assert not set.union(*found) & known


@pytest.mark.parametrize("holders", [1, 2])
def test_one_person_twice_is_refused_also_where_nothing_is_in_memory(holders: int) -> None:
    twice = [*people(1, 2, 3), *people(2)]
    with pytest.raises(ContractError, match="1 rows have an ID that another row has"):
        Session(people(1), [twice] * holders).layouts(0)
    with pytest.raises(ContractError, match="1 rows have an ID that another row has"):
        Session(twice, [people(1)]).queries()


@pytest.mark.parametrize("holders", [1, 2, 3])
def test_nobody_is_common_and_the_canary_still_is(holders: int) -> None:
    session = Session(people(1, 2), [people(3 + i, 30 + i) for i in range(holders)])
    assert session.match().agrees
    assert session.run()[0] == []


@pytest.mark.parametrize("holders", [1, 2])
def test_one_person_and_the_number_0(holders: int) -> None:
    mine, found = Session(people(0), [people(0, 1)] * holders).run()
    assert mine == [b"i0"]
    assert found == [[b"i0"]] * holders


def test_a_text_is_not_a_number() -> None:
    texts = messages(["7"], "string")
    assert Session(people(7), [texts]).run()[0] == []


@pytest.mark.parametrize("holders", [1, 2, 3])
def test_without_a_common_key_the_canary_is_absent(holders: int) -> None:
    # Holders whose software makes other points.
    session = Session(people(1, 2), [people(1, 2)] * holders, name="other")
    assert not session.match().agrees


@pytest.mark.parametrize("holders", [1, 2])
def test_a_retry_makes_the_same_bytes_and_another_session_none_of_them(holders: int) -> None:
    sets = people(1, 2, 3), [people(*range(9))] * holders
    first, again, later = Session(*sets), Session(*sets), Session(*sets, number=1)
    assert (first.query().points == again.query().points).all()
    assert (first.layout(0)[0].content == again.layout(0)[0].content).all()

    assert not rows(first.query().points) & rows(later.query().points)
    assert not rows(first.layout(0)[0].content) & rows(later.layout(0)[0].content)
    if holders == 2:
        # Two holders of one set lay out nothing in common.
        assert not rows(first.layout(0)[0].content) & rows(first.layout(1)[0].content)


def test_a_query_is_in_the_order_of_its_bytes_and_tells_no_row() -> None:
    query = Session(people(*range(50)), [people(1)]).query()
    assert strictly_rising(query.points)
    assert sorted(query.rows) == list(range(51))
    assert not strictly_rising(query.points[::-1])
    assert not strictly_rising(np.repeat(query.points[:1], 2, axis=0))


def test_no_point_of_a_query_is_found_with_the_feature_holders_own_keys() -> None:
    """A dictionary of everybody, with all secrets but the label holder's."""
    session = Session(people(*range(20)), [people(*range(40))])
    query = {row.tobytes() for row in session.query().points}
    guesses = curve.hash_to_curve(people(*range(40)), oprf.domain_tag(FEDERATION))
    tried = [*guesses, *curve.multiply(oprf.evaluation_key(session.seed(1)), guesses)]
    assert not query & set(tried)
    # Who has the exponent tests them all: it is what the attack lacks.
    scalar = oprf.Blind.of(session.seed(0)).scalar
    assert len(query & set(curve.multiply(scalar, guesses))) == 20


def test_no_tag_is_found_without_the_feature_holders_exponent() -> None:
    session = Session(people(1), [people(*range(40))])
    layout = {row.tobytes() for row in session.layout(0)[0].content}
    guessed = people(*range(40))
    guesses = curve.hash_to_curve(guessed, oprf.domain_tag(FEDERATION))
    for points in (guesses, curve.multiply(oprf.Blind.of(session.seed(0)).scalar, guesses)):
        found = tags("tag", rows_of(b"".join(points), 32), guessed, session.salt)
        assert not layout & {row.tobytes() for row in found}
    known = tags("tag", session.points(0), [*guessed, CANARY], session.salt)
    assert layout == {row.tobytes() for row in known}


@pytest.mark.parametrize("size", [100, 130])
def test_no_triple_of_slots_joins_two_tables_or_meets_a_share(size: int) -> None:
    """What gave the label holder every pairwise overlap in a draft without the mask."""
    everyone = people(*range(size))
    session = Session(people(10**6), [everyone, everyone, people(*range(size // 2, 2 * size))])
    keyless = [*everyone, CANARY]
    first, second, third = (triples(session.layout(j)[0].content) for j in range(3))
    assert not first & second
    assert not third & (first | second)
    # Holder 2 and the label holder together know r_02 and r_12, and so those shares of anybody.
    pairs = session.pairs(0)
    for keys in ({"2": pairs["2"]}, {"1": pairs["1"]}, pairs):
        known = {row.tobytes() for row in zero_shares.shares(keys, keyless)}
        assert not first & known
    # The attack works where the mask is missing, so the test can fail.
    bare, _ = zero_shares.encode(
        session.seed(1),
        tags("tag", session.points(0), keyless, session.salt),
        zero_shares.shares(pairs, keyless),
    )
    shares = {row.tobytes() for row in zero_shares.shares(pairs, keyless)}
    assert len(triples(bare) & shares) == size + 1


@pytest.mark.slow
@pytest.mark.parametrize("size", [400, 800])
def test_no_triple_of_larger_tables_either(size: int) -> None:
    everyone = people(*range(size))
    session = Session(people(10**6), [everyone, everyone])
    # All triples of one table; the shares are what the other holder can compute of everybody.
    content = np.ascontiguousarray(session.layout(0)[0].content).view(np.uint64)
    a, b, c = content.reshape(3, -1, 2)
    shares = zero_shares.shares(session.pairs(0), [*everyone, CANARY])
    known = np.sort(np.ascontiguousarray(shares).view(np.uint64).reshape(-1, 2)[:, 0])
    met = 0
    for one in a:
        firsts = ((one ^ b)[:, None] ^ c[None])[..., 0].ravel()
        at = np.minimum(np.searchsorted(known, firsts), len(known) - 1)
        met += int((known[at] == firsts).sum())
    assert met == 0


@pytest.mark.slow
def test_no_triple_joins_larger_tables() -> None:
    everyone = people(*range(400))
    session = Session(people(10**6), [everyone, everyone])
    # First halves of all 5 million triples of each; two agree with a chance of 10^-6.
    found = []
    for j in (0, 1):
        slots = np.ascontiguousarray(session.layout(j)[0].content).view(np.uint64)
        a, b, c = slots.reshape(3, -1, 2)[..., 0]
        found.append((a[:, None, None] ^ b[None, :, None] ^ c[None, None]).ravel())
    assert len(found[0]) > 5_000_000
    assert not len(np.intersect1d(*found))


@pytest.mark.parametrize("stays", ["points", "points and salt"])
def test_tables_of_one_epoch_cannot_be_joined(monkeypatch: pytest.MonkeyPatch, stays: str) -> None:
    """What one mask in two runs would give: the masks fall out, and shares of holders compare."""
    everyone, half = people(*range(90)), people(*range(45, 135))
    if stays == "points and salt":
        monkeypatch.setattr(Session, "salt", bytes(16))
    runs = [Session(people(10**6), [everyone, half], number, epoch=7) for number in (1, 2)]
    assert (runs[0].points(0) == runs[1].points(0)).all()
    first, second = (
        triples(runs[0].layout(j)[0].content ^ runs[1].layout(j)[0].content) for j in (0, 1)
    )
    # The canary and 45 people are in both tables.
    assert len(first & second) == (0 if stays == "points" else 46)
    assert not triples(runs[0].layout(0)[0].content) & triples(runs[1].layout(0)[0].content)


def test_shares_of_an_asked_person_say_nothing_of_one_holder_in_an_epoch() -> None:
    """The label holder has the points: what it unmasks of a table is noise in each run."""
    everyone = people(*range(40))
    values = []
    for number in (1, 2):
        session = Session(everyone, [everyone, people(*range(100, 140))], number, epoch=7)
        layout, _ = session.layout(0)
        points, told = session.points(0), [*everyone, CANARY]
        keys, mask = (tags(use, points, told, session.salt) for use in ("tag", "mask"))
        found = zero_shares.decode(layout.content, layout.number, keys) ^ mask
        assert (found == zero_shares.shares(session.pairs(0), told)).all()
        values.append(rows(found))
    assert not values[0] & values[1]


def rows(points: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in points}


def test_a_row_that_all_but_one_have_decodes_to_noise() -> None:
    sets = [people(*range(60)), people(*range(60)), people(*range(1, 60))]
    match = Session(people(*range(60)), sets).match()
    assert match.common().sum() == 59
    totals = match._total  # type: ignore[union-attr]
    assert (totals.any(axis=1)).sum() == 1
    assert np.unpackbits(totals[totals.any(axis=1)]).mean() == pytest.approx(0.5, abs=0.25)


def test_pairwise_overlaps_leave_no_trace_at_the_label_holder() -> None:
    """Its whole view, who is in two of three: uniform bits, whichever two they are."""
    label = people(*range(300))
    for second in ((0, 300), (300, 600)):
        cuts = ((0, 300), second, (900, 1200))
        session = Session(label, [people(*range(*cut)) for cut in cuts])
        totals = session.match()._total  # type: ignore[union-attr]
        noise = totals[totals.any(axis=1)]
        assert len(noise) == 300
        assert len(np.unique(noise, axis=0)) == 300
        ones = np.unpackbits(noise).sum()
        # 38,400 bits: five standard deviations.
        assert abs(int(ones) - 19_200) < 5 * np.sqrt(38_400) / 2


def test_tables_of_one_size_cannot_be_told_apart() -> None:
    """Bits, and the XOR of neighbours, of tables of two sets: chi-square far from both tails."""
    shared, apart = people(*range(2000)), people(*range(5000, 7000))
    session = Session(people(1), [shared, shared, apart])
    contents = [session.layout(j)[0].content for j in range(3)]
    for content in (*contents, contents[0] ^ contents[1], contents[0] ^ contents[2]):
        counts = np.bincount(content.ravel(), minlength=256)
        expected = content.size / 256
        statistic = ((counts - expected) ** 2 / expected).sum()
        # 255 degrees of freedom: six standard deviations on either side.
        assert 255 - 6 * np.sqrt(510) < statistic < 255 + 6 * np.sqrt(510)
    assert len({content.shape for content in contents}) == 1


def test_a_table_gives_every_key_its_value_at_every_size() -> None:
    for size in (0, 1, 2, 3, 7, 50, 500, 5000):
        keys, values = (rows_of(os.urandom(16 * size), 16) for _ in range(2))
        table, number = zero_shares.encode(bytes(32), keys, values)
        assert len(table) == zero_shares.slots_for(size)
        assert (zero_shares.decode(table, number, keys) == values).all()
    assert zero_shares.slots_for(10**6) <= 1.301 * 10**6


def test_a_key_that_comes_twice_is_refused() -> None:
    key = rows_of(os.urandom(16), 16)
    with pytest.raises(ValueError, match="comes twice"):
        zero_shares.encode(bytes(32), np.repeat(key, 2, axis=0), rows_of(os.urandom(32), 16))


def test_sorting_by_bytes_also_where_first_halves_agree() -> None:
    keys = rows_of(os.urandom(16 * 400), 16).copy()
    keys[::3, :8] = 7
    order = sorting(keys)
    assert [row.tobytes() for row in keys[order]] == sorted(row.tobytes() for row in keys)
    assert strictly_rising(keys[order])
    at = positions_in(keys[order], np.vstack([keys, rows_of(os.urandom(160), 16)]))
    assert (keys[order][at[:400]] == keys).all()
    assert (at[400:] == -1).all()


def test_all_subsets_of_three_holders_but_the_whole_give_no_common_person() -> None:
    ids = itertools.count()
    groups = {c: next(ids) for n in (1, 2) for c in itertools.combinations(range(3), n)}
    holders = [people(*(p for c, p in groups.items() if j in c), 99) for j in range(3)]
    mine, _ = Session(people(*groups.values(), 99), holders).run()
    assert mine == [b"i99"]


def test_nothing_of_a_key_is_shown() -> None:
    assert "scalar" not in repr(oprf.Blind.of(bytes(32)))
