"""Attacks on the sealed release, at one to four holders, and that it is a join for who may open."""

import hashlib
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from opboost_ops.alignment import month_keys, sealing, zero_shares
from opboost_ops.alignment.point_cache import PointCache
from opboost_ops.alignment.row_format import RowFormat
from opboost_ops.alignment.tags import TAG
from opboost_ops.scratch.arrays import Scratch
from tests.unit.alignment.session import FORMAT, Holder, Session, people, triples

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
    asked = [*session.label, b"c"]
    points = [session.unblinded(j) for j in range(m)]
    stored = {}
    for j in others:
        key, (layout,) = session.laid_shares(j)
        bytes_of = sealing.derived(key, "slot", (asked, points[j], None), 16 * m)
        keys = np.ascontiguousarray(bytes_of[:, :16])
        said = zero_shares.decode(layout.content, layout.number, keys) ^ bytes_of[:, 16:]
        stored[j] = said[:60].reshape(60, m - 1, TAG)

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


def test_a_share_for_its_own_target_is_not_published() -> None:
    session = Session(people(1, 2), [Holder.of([1, 2]), Holder.of([1, 2]), Holder.of([1, 2])])

    key, (layout,) = session.laid_shares(1)

    assert layout.content.shape[1] == TAG * 2
    bytes_of = sealing.derived(key, "slot", (session.everybody(1), session.own_points[1], None), 48)
    said = zero_shares.decode(layout.content, layout.number, np.ascontiguousarray(bytes_of[:, :16]))
    unmasked = (said ^ bytes_of[:, 16:]).reshape(3, 2, TAG)
    own = session.own_sharing(1, session.everybody(1))
    assert own is not None
    assert not (unmasked == own[:, None]).all(axis=2).any()


def test_tables_of_shares_say_nothing_to_whoever_lacks_the_masks() -> None:
    holders = [Holder.of(range(40)), Holder.of(range(40))]
    session = Session(people(*range(40)), holders)
    (_, (one,)), (_, (two,)) = session.laid_shares(0), session.laid_shares(1)

    shares = zero_shares.sharings(session.pairs(0), session.everybody(0))[:, 1]
    seen = triples(one.content)

    assert not seen & {bytes(share) for share in shares}
    assert not seen & triples(two.content)


def test_two_nights_have_nothing_in_common() -> None:
    holders = _holders(2)
    nights = [Session(people(*range(60)), holders, night=n) for n in (1, 2)]
    entries = [np.concatenate(night.sealed(0)[1]) for night in nights]
    tags = [{bytes(entry[:10]) for entry in of} for of in entries]

    assert not tags[0] & tags[1]
    # Equal pads would leave the XOR of two rows, which is short of zeros for almost none.
    crossed = (entries[0][:, None] ^ entries[1][None]).reshape(-1, entries[0].shape[1])
    rows = {bytes(row) for row in (holders_rows(nights[0]))}
    assert not {bytes(x[10:]) for x in crossed if not x[:10].any()} & rows
    slots = [triples(night.laid_shares(0)[1][0].content) for night in nights]
    assert not slots[0] & slots[1]


def holders_rows(session: Session) -> np.ndarray:
    return session.rows(0)


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


@pytest.mark.parametrize("m", [1, 2])
def test_what_a_holder_publishes_does_not_depend_on_the_query(m: int) -> None:
    holders = _holders(m)
    sessions = [Session(people(*asked), holders) for asked in (range(20), range(20, 40))]

    for j in range(m):
        raw = [[e.tobytes() for e in session.sealed(j)[1]] for session in sessions]
        assert raw[0] == raw[1]


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
        for given, found in zip(columns, form.unpack(packed), strict=True):
            assert (given == found).all()


def test_wide_rows_take_several_blocks() -> None:
    rows = RNG.integers(0, 256, (5, 200)).astype(np.uint8)
    messages = people(*range(5))
    points = RNG.integers(0, 256, (5, 32)).astype(np.uint8)
    some = (messages, points, None)
    scratch = Scratch(Path(), 100)
    (table,) = sealing.sealed(scratch, [(some, rows)], 5, bytes(32), "ranks", 200)
    found, back = sealing.opened(scratch, [some], 5, bytes(32), "ranks", 200, 1, lambda _: table)
    assert found.all()
    assert (back == rows).all()
