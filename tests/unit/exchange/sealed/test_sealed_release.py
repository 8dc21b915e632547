"""Attacks on the sealed release, at one to four holders, and that it is a join for who may open."""

import hashlib
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.exchange.sealed import month_keys, sealing, zero_shares
from opboost_ops.exchange.sealed.ids import CANARY, TAG
from opboost_ops.exchange.sealed.month_keys import PointCache
from opboost_ops.exchange.sealed.sealing import RowFormat
from opboost_ops.tables.spill.arrays import Scratch
from tests.unit.exchange.sealed.session import FORMAT, Holder, Session, people, triples

RNG = np.random.default_rng(34)


def _holders(m: int, size: int = 40) -> list[Holder]:
    return [Holder.of(sorted(RNG.choice(60, size, replace=False).tolist()), j) for j in range(m)]


@pytest.mark.parametrize("m", [1, 2, 3, 4])
@pytest.mark.parametrize("held", [1 << 20, 16])
def test_whom_all_holders_have_is_opened_with_the_right_row(m: int, held: int) -> None:
    holders = _holders(m)
    asked = sorted(RNG.choice(60, 45, replace=False).tolist())
    session = Session(people(*asked), holders, held=held)

    found, rows = session.open()

    common = set(people(*asked)).intersection(*(set(h.messages) for h in holders))
    for j, holder in enumerate(holders):
        # The canary is the last, and everybody has it.
        assert found[j][-1]
        assert {message for message, is_in in zip(session.label, found[j], strict=False) if is_in} \
            == common  # fmt: skip
        codes = np.column_stack(FORMAT.unpack(rows[j]))
        for at, message in enumerate(session.label):
            if message in common:
                assert codes[at].tolist() == holder.rows[holder.messages.index(message)].tolist()


@pytest.mark.parametrize("m", [1, 2, 3])
def test_strangers_rows_do_not_open_by_anything_the_label_holder_has(m: int) -> None:
    everybody = [Holder.of(range(40), j) for j in range(m)]
    session = Session(people(*range(20)), everybody)
    strangers = people(*range(20, 40))
    known = [session.unblinded(j) for j in range(m)]

    for points in (
        # Points of people who were asked about; the blinded query; the answer as it came.
        [known[j][:20] for j in range(m)],
        [session.points(99, strangers) for _ in range(m)],
        [np.roll(known[j], 1, axis=0)[:20] for j in range(m)],
        [known[(j + 1) % m][:20] if m > 1 else known[j][:20] ^ 1 for j in range(m)],
    ):
        found, _ = session.open_with(points, strangers)
        assert not any(of.any() for of in found)


def test_one_of_two_holders_tables_does_not_open_its_rows() -> None:
    # The label holder with the other holder's keys, about people whom that one lacks.
    session = Session(people(*range(90)), [Holder.of(range(90)), Holder.of(range(90, 180))])

    found, _ = session.open()

    assert not found[0][:-1].any()
    assert not found[1][:-1].any()


@pytest.mark.parametrize(("m", "colluding"), [(3, (0,)), (4, (0, 1)), (3, (2,))])
def test_label_holder_and_some_holders_cannot_tell_who_is_at_a_single_other(
    m: int, colluding: tuple[int, ...]
) -> None:
    # Everybody is at the colluding ones; each person at exactly one of the others, or at none.
    others = [j for j in range(m) if j not in colluding]
    members = {j: set(range(at * 20, at * 20 + 20)) for at, j in enumerate(others)}
    holders = [
        Holder.of(range(60)) if j in colluding else Holder.of(sorted(members[j])) for j in range(m)
    ]
    session = Session(people(*range(60)), holders)
    asked = [*session.label, CANARY]
    stored = {j: session.stored_shares(j, asked, session.unblinded(j))[:60] for j in others}

    for j in others:
        # What the colluding ones know of j's shares: the blocks of their pairs with it.
        known = np.zeros((60, m, TAG), dtype=np.uint8)
        for i in colluding:
            secret = session.pairs(i)[str(j)]
            raw = [
                hashlib.blake2b(b"\x00" + x, key=secret, person=b"opboost-pair").digest()[: 16 * m]
                for x in session.label
            ]
            known ^= np.frombuffer(b"".join(raw), dtype=np.uint8).reshape(60, m, TAG)
        targets = [t for t in range(m) if t != j]
        for place, target in enumerate(targets):
            told = (stored[j][:, place] == known[:, target]).all(axis=1)
            assert not told.any()
        # Nor do any two stored shares of one person agree with one another.
        for one, two in combinations(range(m - 1), 2):
            assert not (stored[j][:, one] == stored[j][:, two]).all(axis=1).any()


@pytest.mark.parametrize("m", [2, 3])
def test_label_holder_and_all_other_holders_open_only_whom_they_asked_about(m: int) -> None:
    # They know every zero sharing, all points but the last holder's own, and whom it may have.
    session = Session(people(*range(20)), [Holder.of(range(40)) for _ in range(m)])
    last, strangers = m - 1, people(*range(20, 40))
    sharing = session.own_sharing(last, strangers)
    secrets = [session.pairs(i)[str(last)] for i in range(m - 1)]
    key, parts = session.sealed(last)

    def opens(points: np.ndarray) -> int:
        found, _ = sealing.open_rows(
            session.scratch, [(strangers, points, sharing)], 20, key, "ranks", FORMAT.width,
            len(parts), parts.__getitem__,
        )  # fmt: skip
        return int(found.sum())

    def recognised(points: np.ndarray) -> int:
        """In how many people a stored share is what the others know that it must be."""
        known = zero_shares.sharings(dict(enumerate(secrets)), strangers)  # type: ignore[arg-type]
        stored = session.stored_shares(last, strangers, points)
        return int((stored == known[:, : m - 1]).all(axis=(1, 2)).sum())

    for points in (session.points(0, strangers), session.points(99, strangers)):
        assert (opens(points), recognised(points)) == (0, 0)
    # The points are all that is missing: who asks about them within the month opens everybody.
    assert (opens(session.points(last, strangers)), recognised(session.points(last, strangers))) \
        == (20, 20)  # fmt: skip


@pytest.mark.parametrize("m", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@settings(max_examples=50, deadline=None, derandomize=True)
@given(data=st.data())
def test_who_is_at_some_holders_only_changes_nothing_that_is_seen(
    m: int, data: st.DataObject
) -> None:
    """Of twelve people none is at all holders; with one holder, none is at it but others are."""
    some = st.sets(st.integers(0, m - 1), max_size=m - 1)
    where = data.draw(st.lists(some, min_size=12, max_size=12))
    unasked = data.draw(st.sets(st.integers(100, 130), min_size=20, max_size=20))
    session = Session(people(*range(20)), [_filled(j, where, unasked) for j in range(m)])

    found, rows = session.open()

    for j in range(m):
        # Everybody else is at all of them, and opens.
        assert found[j].tolist() == [False] * 12 + [True] * 9
        assert rows[j][12:].tobytes() == session.rows(j)[-9:].tobytes()
        assert not rows[j][:12].any()
        assert sum(map(len, session.sealed(j)[1])) == SIZE + 1
        seen = [len(session.query()[0])]
        if m > 1:
            (layout,) = session.laid_shares(j)[1]
            assert layout.content.shape == (zero_shares.slots_for(SIZE + 1), TAG * (m - 1))
            # What is stored of people says nothing of who is where: no two values agree.
            stored = session.stored_shares(j, [*session.label, CANARY], session.unblinded(j))
            seen += [len({bytes(value) for value in stored.reshape(-1, TAG)})]
        assert seen == [21, 21 * (m - 1)][: len(seen)]


#: People at each holder in the test above.
SIZE = 40


def _filled(j: int, where: list[set[int]], unasked: set[int]) -> Holder:
    """A holder of so many people, the last eight of the twenty that are asked about at its end."""
    mine = [person for person, holders in enumerate(where) if j in holders]
    others = sorted(unasked) + list(range(200, 200 + SIZE))
    return Holder.of([*mine, *others[: SIZE - 8 - len(mine)], *range(12, 20)])


@pytest.mark.parametrize("m", [2, 3])
def test_a_share_for_its_own_target_is_not_published(m: int) -> None:
    session = Session(people(1, 2), [Holder.of([1, 2]) for _ in range(m)])

    stored = session.stored_shares(1, session.everybody(1), session.own_points[1])
    own = session.own_sharing(1, session.everybody(1))

    assert session.laid_shares(1)[1][0].content.shape[1] == TAG * (m - 1)
    assert own is not None
    assert not (stored == own[:, None]).all(axis=2).any()
    # What is published is there for all others: it is theirs that open.
    assert all(of.all() for of in session.open()[0])


@pytest.mark.parametrize("m", [2, 3])
def test_tables_of_shares_say_nothing_to_whoever_lacks_the_masks(m: int) -> None:
    session = Session(people(*range(40)), [Holder.of(range(40)) for _ in range(m)])
    tables = [session.laid_shares(j)[1][0].content for j in range(m)]

    known = zero_shares.sharings(session.pairs(0), session.everybody(0))[:, 1:]
    seen = triples(tables[0])

    assert not seen & {bytes(share) for share in known.reshape(len(known), -1)}
    assert not any(seen & triples(table) for table in tables[1:])


@pytest.mark.parametrize("m", [1, 2, 3])
def test_two_nights_have_nothing_in_common(m: int) -> None:
    holders = [Holder.of(range(40), j) for j in range(m)]
    nights = [Session(people(*range(60)), holders, night=n) for n in (1, 2)]
    entries = [np.concatenate(night.sealed(0)[1]) for night in nights]
    tags = [{bytes(entry[:10]) for entry in of} for of in entries]

    assert not tags[0] & tags[1]
    # Under equal pads the XOR of a person's two entries, whose rows are the same, would be zero.
    crossed = entries[0][:, None, 10:] ^ entries[1][None, :, 10:]
    assert crossed.any(axis=2).all()
    if m > 1:
        slots = [triples(night.laid_shares(0)[1][0].content) for night in nights]
        assert not slots[0] & slots[1]
        # Nor do shares without their masks agree, over holders and nights.
        whom = nights[0].everybody(0)
        bare = [
            night.stored_shares(j, whom, night.points(j, whom)).reshape(-1, TAG)
            for night in nights
            for j in range(m)
        ]
        assert len({bytes(share) for of in bare for share in of}) == sum(map(len, bare))


def test_a_changed_table_has_another_nonce_and_a_retry_the_same_bytes() -> None:
    holders = [Holder.of(range(30))]
    one, again = (Session(people(*range(30)), holders, night=7) for _ in range(2))
    changed = Holder.of(range(30))
    changed.rows[4, 0] += 1
    other = Session(people(*range(30)), [changed], night=7)

    assert one.sealed(0)[0] == again.sealed(0)[0] != other.sealed(0)[0]
    assert [e.tobytes() for e in one.sealed(0)[1]] == [e.tobytes() for e in again.sealed(0)[1]]
    tags = [{bytes(e[:10]) for e in np.concatenate(s.sealed(0)[1])} for s in (one, other)]
    assert not tags[0] & tags[1]
    # The order of a table does not matter: it is the same content.
    turned = Holder(holders[0].messages[::-1], holders[0].rows[::-1])
    assert Session(people(*range(30)), [turned], night=7).sealed(0)[0] == one.sealed(0)[0]


@pytest.mark.parametrize("m", [1, 2, 3])
def test_what_a_holder_publishes_does_not_depend_on_the_query(m: int) -> None:
    holders = _holders(m)
    sessions = [Session(people(*asked), holders) for asked in (range(20), range(20, 40))]

    for j in range(m):
        raw = [[e.tobytes() for e in session.sealed(j)[1]] for session in sessions]
        assert raw[0] == raw[1]
        if m > 1:
            laid = [session.laid_shares(j)[1][0].content for session in sessions]
            assert (laid[0] == laid[1]).all()


def test_who_was_asked_about_opens_all_month_and_not_the_next() -> None:
    holders = [Holder.of(range(20))]
    first = Session(people(*range(20)), holders, night=1, month=1)
    points = [first.unblinded(0)]
    for night in (0, 2):
        later = Session(people(*range(20)), holders, night=night, month=1)
        assert later.open_with(points)[0][0].all()
    later = Session(people(*range(20)), holders, night=3, month=2)
    assert not later.open_with(points)[0][0].any()


def test_a_wrong_share_for_one_target_keeps_the_row_shut_there_alone() -> None:
    holders = [Holder.of(range(20), j) for j in range(3)]
    session = Session(people(*range(20)), holders, wrong_share={0: (5, 2)})

    found, _ = session.open()

    assert [bool(of[5]) for of in found] == [True, True, False]
    assert all(of[[i for i in range(21) if i != 5]].all() for of in found)


def test_points_are_kept_for_the_month_and_found_again(tmp_path: Path) -> None:
    for held in (1 << 20, 8):
        scratch = Scratch(tmp_path, held)
        cache = PointCache(tmp_path / f"{held}" / "2026-11-bank.points", bytes(32), scratch)
        known, unknown = people(*range(40)), people(*range(100, 120))
        points = RNG.integers(0, 256, (40, 32)).astype(np.uint8)
        assert not cache.find([known], 40)[0].any()
        cache.add([(known[:25], points[:25])], 25)
        cache.add([(known[20:30], points[20:30]), (known[30:], points[30:])], 20)

        there, found = cache.find([known[:7] + unknown, known[7:]], 60)

        assert there.tolist() == [True] * 7 + [False] * 20 + [True] * 33
        assert (found[there] == points).all()
        cache.drop()
        assert not cache.find([known], 40)[0].any()


def test_a_month_has_one_key_which_goes_two_days_after_it(tmp_path: Path) -> None:
    folder = tmp_path / "psi"
    november = month_keys.month_key(folder, "2026-11")
    assert month_keys.month_key(folder, "2026-11") == november
    assert month_keys.month_key(folder, "2026-12") != november
    assert (folder / "2026-11.key").stat().st_mode & 0o077 == 0

    assert month_keys.delete_expired(folder, datetime(2026, 12, 2, 23, tzinfo=UTC)) == []
    gone = month_keys.delete_expired(folder, datetime(2026, 12, 3, 1, tzinfo=UTC))

    assert gone == ["2026-11.key"]
    assert month_keys.month_key(folder, "2026-11") != november


def test_rows_of_any_declared_sizes_are_packed_and_unpacked() -> None:
    for sizes in [(1,), (2, 3), (255, 256, 65_535), (2**40, 1, 7) * 5]:
        form = RowFormat(sizes)
        columns = [RNG.integers(0, size, 50, endpoint=True) for size in sizes]
        packed = form.pack(columns)
        assert packed.shape == (50, form.width)
        for column, found in zip(columns, form.unpack(packed), strict=True):
            assert (column == found).all()


def test_wide_rows_take_several_blocks() -> None:
    rows = RNG.integers(0, 256, (5, 200)).astype(np.uint8)
    messages = people(*range(5))
    points = RNG.integers(0, 256, (5, 32)).astype(np.uint8)
    some = (messages, points, None)
    scratch = Scratch(Path(), 100)
    (table,) = sealing.seal_rows(scratch, [(some, rows)], 5, bytes(32), "ranks", 200)
    found, back = sealing.open_rows(scratch, [some], 5, bytes(32), "ranks", 200, 1, lambda _: table)
    assert found.all()
    assert (back == rows).all()


@pytest.mark.parametrize("shared", [True, False])
def test_bytes_of_people_are_hashes_of_each_alone(shared: bool) -> None:
    rng = np.random.default_rng(0)
    key, asked, width = bytes(range(32)), [b"sa", b"slonger", CANARY], 150
    points = rng.integers(0, 256, (3, 32), dtype=np.uint8)
    zeros = rng.integers(0, 256, (3, TAG), dtype=np.uint8) if shared else None
    found = sealing.keystream(key, "ranks", (asked, points, zeros), width)
    person = b"opboost-ranks-z" if shared else b"opboost-ranks"
    for i, message in enumerate(asked):
        rest = points[i].tobytes() + (bytes(TAG) if zeros is None else zeros[i].tobytes()) + message
        blocks = [
            hashlib.blake2b(bytes([c]) + rest, key=key, person=person).digest() for c in range(3)
        ]
        assert found[i].tobytes() == b"".join(blocks)[:width]


def test_the_hash_of_a_table_is_a_sum_of_hashes_of_its_rows() -> None:
    rows = np.arange(6, dtype=np.uint8).reshape(3, 2)
    people = [b"sa", b"sb", b"sc"]
    content = sealing.ContentHash(b"key")
    content.add(people[:2], rows[:2])
    content.add(people[2:], rows[2:])
    numbers = [
        int.from_bytes(hashlib.blake2b(row.tobytes() + message, key=b"key").digest(), "little")
        for row, message in zip(rows, people, strict=True)
    ]
    assert content.digest() == (sum(numbers) % 2**512).to_bytes(64, "little")
