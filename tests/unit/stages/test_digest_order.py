"""No order of a private table leaves with its ID digests, and all that comes after fits."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opboost_ops.alignment import short_digests
from opboost_ops.config.loading import load_site
from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.manifest import parse_manifest
from opboost_ops.exchange.points import digest_entries
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.mechanisms import noise
from opboost_ops.scratch.arrays import Scratch
from opboost_ops.stages.align import least
from opboost_ops.stages.positions import binary, rising
from tests.federation import Workspace, small_credit

ROWS = 1000


@pytest.fixture
def sorted_by_income(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The bank's table lies in the order of its customers' income, unknown ones first."""
    made = Workspace.write(tmp_path / "credit", small_credit(3, ROWS))
    made.known_to(monkeypatch)
    made.plain()
    made.edit_table("bank", lambda table: table.sort("income", nulls_last=False))
    return made


def received(workspace: Workspace, kind: str, party: str) -> Artifact:
    files = workspace.store.get(f"credit_scoring/{workspace.run}/{kind}/{party}")
    assert files is not None
    return Artifact(parse_manifest(files["manifest.json"], kind), files)


def digests_of(workspace: Workspace, party: str) -> list[bytes]:
    """What a party has published of its IDs."""
    return [
        row.tobytes()
        for part in digest_entries(received(workspace, "digests", party))
        for row in part
    ]


def places_of(workspace: Workspace, party: str) -> np.ndarray:
    """Where each row of a party's table is in the list of digests that it has published."""
    workspace.until("align")
    published = digests_of(workspace, party)
    site = load_site(workspace.folder / party / "site.yaml")
    key = noise.receiver_secret(noise.read_secret(site.alignment_key), "alignment:credit_scoring")
    ids = pl.read_parquet(workspace.table_path(party)).get_column("id").to_arrow()
    rank = {digest: place for place, digest in enumerate(published)}
    found = noise.person_keys(key, ids, "string")
    return np.array([rank[bytes(digest[:10])] for digest in found])


def test_the_place_of_a_digest_tells_nothing_of_its_row(sorted_by_income: Workspace) -> None:
    """Finding 1: Spearman 0.9999996 with the income, and every missing income was identified."""
    table = pl.read_parquet(sorted_by_income.table_path("bank"))
    place = places_of(sorted_by_income, "bank")
    income = table.get_column("income").to_numpy()
    known = ~np.isnan(income)
    both = pl.DataFrame({"place": place[known], "income": income[known]})
    correlation = both.select(pl.corr("place", "income", method="spearman")).item()
    # Five standard errors of independent orders.
    assert abs(correlation) < 5 / np.sqrt(known.sum())
    missing = np.sort(place[~known])
    assert len(missing) >= 10
    # Those without an income lay at the head; uniform places have their mean in the middle.
    error = ROWS / np.sqrt(12 * len(missing))
    assert abs(missing.mean() - ROWS / 2) < 5 * error


def test_published_digests_are_the_same_for_any_order_of_the_table(
    sorted_by_income: Workspace,
) -> None:
    again = sorted_by_income.copy(sorted_by_income.folder.parent / "again", "0" * 15 + "9")
    sorted_by_income.until("align")
    published = received(sorted_by_income, "digests", "bank").files
    order = digests_of(sorted_by_income, "bank")
    assert order == sorted(order)
    # 80 bits a row, and a bit a row back with one more for each common one.
    assert len(published["entries.bin"]) == 10 * len(order)
    sorted_by_income.step("credit", "align")
    rows = sum(sorted_by_income.home_json("credit", "alignment").values())
    answer = received(sorted_by_income, "alignment", "bank").files["entries.bin"]
    assert len(answer) == -(-len(order) // 8) + -(-rows // 8)
    with pytest.MonkeyPatch.context() as patch:
        again.known_to(patch)
        again.edit_table("bank", lambda table: table.sample(fraction=1, shuffle=True, seed=4))
        again.until("align")
    assert received(again, "digests", "bank").files["entries.bin"] == published["entries.bin"]


def test_positions_are_translated_once_and_every_row_meets_itself(
    sorted_by_income: Workspace,
) -> None:
    """The common order goes by the digests, as ever, and each party finds its own people in it."""
    sorted_by_income.until("rank", "bank")
    ids = {}
    for party, name in {"credit": "alignment", "bank": "positions", "shop": "positions"}.items():
        home = sorted_by_income.home(party)
        rows = feather.read_table(home / f"{name}.arrow").column("position").to_numpy()
        table = pl.read_parquet(sorted_by_income.table_path(party))
        ids[party] = table.get_column("id").gather(rows).to_list()
    assert ids["bank"] == ids["credit"] == ids["shop"]
    assert len(set(ids["bank"])) == len(ids["bank"]) > 100
    facts = sorted_by_income.home_json("credit", "alignment")
    site = load_site(sorted_by_income.folder / "credit" / "site.yaml")
    key = noise.receiver_secret(noise.read_secret(site.alignment_key), "alignment:credit_scoring")
    digests = [bytes(d) for d in noise.person_keys(key, pa.array(ids["credit"]), "string")]
    train, held = digests[: facts["train"]], digests[facts["train"] :]
    assert train == sorted(train)
    assert held == sorted(held)
    # The held-out ones are those with the least last eight bytes.
    assert max(d[8:] for d in held) < min(d[8:] for d in train)


@pytest.mark.parametrize("fault", ["swapped", "twice"])
def test_digests_in_another_order_are_not_aligned(sorted_by_income: Workspace, fault: str) -> None:
    sorted_by_income.until("align")
    (listed,) = digest_entries(received(sorted_by_income, "digests", "bank"))
    order = {"swapped": [1, 0, *range(2, len(listed))], "twice": [0, 0, *range(2, len(listed))]}
    sorted_by_income.forge("digests", "bank", "bank", entries=listed[order[fault]])
    with pytest.raises(Rejected, match="not in rising order, or one comes twice"):
        sorted_by_income.step("credit", "align")
    assert not [place for place in sorted_by_income.published() if place.startswith("alignment")]


@pytest.mark.parametrize("party", ["bank", "credit"])
@pytest.mark.parametrize(("agree", "said"), [(10, "agree in the 80 bits"), (16, "there twice")])
def test_two_ids_whose_short_digests_agree_stop_at_home(
    sorted_by_income: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    party: str,
    agree: int,
    said: str,
) -> None:
    real = noise.person_keys

    def colliding(secret: bytes, ids: pa.Array, id_type: str) -> np.ndarray:
        found = real(secret, ids, id_type).copy()
        found[1, :agree] = found[0, :agree]
        return found

    sorted_by_income.until("align")
    with monkeypatch.context() as patch:
        patch.setattr(noise, "person_keys", colliding)
        if party == "bank":
            with pytest.raises(ContractError, match=said) as caught:
                sorted_by_income.step("bank", "digest_ids")
        else:
            sorted_by_income.step("credit", "digest_ids")
    if party == "credit":
        with pytest.raises(ContractError, match=said) as caught:
            sorted_by_income.step("credit", "align")
    assert party in caught.value.problem
    assert ("another alignment key" in caught.value.remedy) == (agree == 10)


@pytest.mark.parametrize(
    "change",
    [
        lambda marks: marks[:-1],
        lambda marks: marks ^ np.eye(1, len(marks), dtype=np.uint8).reshape(-1, 1),
        lambda marks: marks ^ np.eye(1, len(marks), len(marks) - 1, dtype=np.uint8).T,
        lambda marks: marks ^ np.eye(1, len(marks), len(marks) - 1, dtype=np.uint8).T * 128,
    ],
    ids=["too short", "a row more or less", "a bit behind the last", "another held-out row"],
)
def test_marks_that_do_not_add_up_are_refused(
    sorted_by_income: Workspace, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    sorted_by_income.until("preprocess", "bank")
    artifact = received(sorted_by_income, "alignment", "bank")
    raw = np.frombuffer(artifact.files["entries.bin"], dtype=np.uint8).reshape(-1, 1)
    changed = change(raw)
    assert not np.array_equal(changed, raw)
    sorted_by_income.forge("alignment", "bank", "credit", entries=changed,
                           document=artifact.document)  # fmt: skip
    with pytest.raises((ContractError, Rejected), match=r"names a row twice|another length"):
        sorted_by_income.step("bank", "preprocess")


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 30), st.randoms())
def test_short_digests_are_found_by_all_of_their_bytes(
    own: int, others: int, common: int, random: Random
) -> None:
    """Also where the first 64 bits of many agree."""

    def some(count: int) -> set[bytes]:
        return {bytes(random.choices((0, 255), k=2)) + bytes(6) + random.randbytes(2)
                for _ in range(count)}  # fmt: skip

    shared = some(common)
    mine, theirs = sorted(some(own) | shared), sorted(some(others) | shared)
    rows = [np.frombuffer(b"".join(x), dtype=np.uint8).reshape(-1, 10) for x in (mine, theirs)]
    assert all(map(short_digests.rising, rows))
    places = short_digests.places(rows[1], rows[0])
    assert [theirs.index(d) if d in theirs else -1 for d in mine] == places.tolist()
    # The same where theirs come in parts, and ours are whole digests.
    whole = np.pad(rows[0], ((0, 0), (0, 6)))
    parts = [rows[1][at : at + 7] for at in range(0, len(theirs), 7)]
    pieces = np.full(len(mine), -1)
    for begin, found in short_digests.places_in(parts, whole):
        pieces[begin : begin + len(found)] = found
    assert pieces.tolist() == places.tolist()


@given(st.lists(st.integers(0, 9) | st.integers(0, 2**64 - 1), max_size=40), st.data())
def test_the_least_are_those_of_a_stable_sort(values: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(values)))
    tails = np.array(values, dtype=np.uint64)
    wanted = np.zeros(len(values), dtype=bool)
    wanted[np.argsort(tails, kind="stable")[:count]] = True
    blocks = [tails[at : at + 7] for at in range(0, max(len(tails), 1), 7)]
    with tempfile.TemporaryDirectory() as folder:
        for rows in (5, 100):
            found = least(lambda: iter(blocks), count, Scratch(Path(folder), rows))
            assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("byte", [0, 7, 8, 15])
def test_digests_rise_as_their_bytes_do(byte: int) -> None:
    generator = np.random.default_rng(byte)
    digests = np.zeros((300, 16), dtype=np.uint8)
    digests[:, byte] = generator.permutation(300) % 256
    digests[:, 3] = np.arange(300) // 256 * 255
    order = rising(digests)
    assert sorted(order) == list(range(300))
    listed = binary(digests[order]).to_pylist()
    assert listed == sorted(listed)
