"""Whole runs with private alignment: the same people, the same model, and who learns what."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.feather as feather
import pytest

from opboost_ops.alignment import curve, oprf
from opboost_ops.alignment import parts as alignment_parts
from opboost_ops.config.loading import load_site
from opboost_ops.errors import ContractError, OpBoostError, PolicyError
from opboost_ops.exchange import part_sizes
from opboost_ops.exchange.books import open_books
from opboost_ops.exchange.rejection import Rejected
from tests.federation import SECOND_RUN, Workspace
from tests.unit.stages.private_federation import on_disk, private
from tests.unit.stages.test_whole_runs import NAME, dataset


@pytest.mark.parametrize("parties", [1, 2, 3])
def test_the_model_is_the_same_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parties: int
) -> None:
    found: dict[str, list[bytes]] = {}
    for way in ("keyed", "private", "parts"):
        with monkeypatch.context() as patch:
            if way == "parts":
                patch.setattr(alignment_parts, "PART", 100)
                patch.setattr(part_sizes, "LOOKS", 100)
            made = dataset("binary", parties=parties)
            # Some are not everywhere, and differently at every party.
            for k, (name, table) in enumerate(made.tables.items()):
                made.tables[name] = table.filter(pl.int_range(pl.len()) % 11 != k)  # type: ignore[index]
            alignment = "keyed" if way == "keyed" else "private"
            workspace = Workspace.write(tmp_path / way, made, alignment=alignment)
            if way == "parts":
                on_disk(workspace)
            workspace.known_to(patch)
            workspace.all()
            sent = sorted((workspace.folder / "exchange").rglob("psi_query/b0/entries*"))
            assert len(sent) == {"keyed": 0, "private": 1, "parts": 8}[way]
            told = sorted((workspace.folder / "exchange").rglob("alignment/b0/table*"))
            assert (len(told) > 1) == (way == "parts")
            (model,) = (workspace.folder / "a" / "models").rglob("model.txt")
            found[way] = [
                model.read_bytes(),
                (workspace.home("a") / "alignment.arrow").read_bytes(),
                (workspace.home("b0") / "positions.arrow").read_bytes(),
            ]
    assert found["keyed"] == found["private"] == found["parts"]


def test_only_the_label_holder_needs_an_alignment_key_and_not_even_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = private(tmp_path, monkeypatch)
    assert not (workspace.folder / "b0" / "keys" / "alignment.key").exists()
    (workspace.folder / "a" / "keys" / "alignment.key").unlink()
    workspace.all()
    first = (workspace.home("a") / "alignment.arrow").read_bytes()
    again = Workspace(workspace.folder, SECOND_RUN)
    again.until("preprocess")
    # Of its noise secret: the same people are held out in every run.
    assert (again.home("a") / "alignment.arrow").read_bytes() == first


@pytest.mark.parametrize(
    ("parties", "size"),
    [(1, 1 << 20), (2, 1 << 20), pytest.param(1, 100, marks=pytest.mark.slow), (2, 100)],
)
def test_a_retry_writes_the_same_bytes_and_another_run_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parties: int, size: int
) -> None:
    monkeypatch.setattr(alignment_parts, "PART", size)
    workspace = private(tmp_path, monkeypatch, parties)
    if size == 100:
        on_disk(workspace)
    workspace.until("preprocess")
    sent = workspace.files("exchange")
    for party, stage in (("a", "psi_query"), ("b0", "digest_ids"), ("b0", "psi_answer"),
                         ("a", "align")):  # fmt: skip
        workspace.step(party, stage)
    assert workspace.files("exchange") == sent
    other = Workspace(workspace.folder, SECOND_RUN)
    other.until("preprocess")

    def entries(run: Workspace, kind: str) -> set[bytes]:
        run.step("a", "align")
        folder = run.home("a") if kind == "unblind" else run.home("b0")
        blocks = [path.read_bytes() for path in sorted((folder / "psi").glob(f"{kind}*"))]
        assert blocks
        return {raw[i : i + 32] for raw in blocks for i in range(0, len(raw), 32)}

    for kind in ("digests", "answer", "unblind"):
        assert not entries(workspace, kind) & entries(other, kind)


def test_the_ledgers_say_exactly_who_learns_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = private(tmp_path, monkeypatch, 2)
    workspace.until("preprocess")
    Workspace(workspace.folder, SECOND_RUN).until("preprocess")

    def lines(party: str) -> dict[tuple[str, str], list[tuple[int, str]]]:
        found: dict[tuple[str, str], list[tuple[int, str]]] = {}
        with open_books(load_site(workspace.folder / party / "site.yaml")) as books:
            for release in books.ledger.releases():
                assert release.account == "exact"
                place = (release.kind, release.receiver)
                found.setdefault(place, []).append((release.rows, release.discloses))
        return found

    holder = lines("b0")
    assert {place for place in holder if place[1] == "a"} == {
        ("digests", "a"),
        ("psi_answer", "a"),
    }
    (rows, first), (_, second) = holder["psi_answer", "a"]
    assert rows == 500
    assert "whether all parties have them" in first
    assert "about 500 people" in first
    assert "about 1,000 people" in second
    owner = lines("a")
    assert {kind for kind, to in owner if to in ("b0", "b1")} == {"psi_query", "alignment"}
    assert all("which of its rows" in text for _, text in owner["alignment", "b1"])


def test_the_policy_caps_how_many_are_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = private(tmp_path, monkeypatch)

    def rules(**rules: object) -> None:
        workspace.edit_yaml("b0/policy.yaml", lambda data: data.update(alignment=rules))

    rules(max_asked=499)
    workspace.until("psi_answer")
    with pytest.raises(PolicyError, match="max_asked is 499, asked are 500"):
        workspace.step("b0", "psi_answer")
    assert "psi_answer/b0" not in workspace.published()
    rules(max_asked=500, max_asked_ever=999)
    workspace.step("b0", "psi_answer")
    # Its own retry is not asked twice.
    workspace.step("b0", "psi_answer")
    later = Workspace(workspace.folder, SECOND_RUN)
    later.until("psi_answer")
    with pytest.raises(PolicyError, match="max_asked_ever is 999, asked are 500 after 500 before"):
        later.step("b0", "psi_answer")
    # As if the other run had answered after this one had asked.
    monkeypatch.setattr("opboost_ops.stages.psi_answer._counted", lambda *_: "")
    with pytest.raises(PolicyError, match="max_asked_ever is 999, asked are 500 after 500 before"):
        later.step("b0", "psi_answer")
    assert "psi_answer/b0" not in later.published()


@pytest.mark.parametrize("way", ["keyed", "private"])
def test_a_way_that_a_policy_does_not_allow_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    workspace = Workspace.write(tmp_path / "f", dataset("binary"), alignment=way)
    workspace.known_to(monkeypatch)
    other = {"keyed": "private", "private": "keyed"}[way]
    workspace.edit_yaml("b0/policy.yaml", lambda data: data.update(alignment={"allow": [other]}))
    _, error = workspace.first_failure()
    assert isinstance(error, PolicyError)
    assert not [place for place in workspace.published() if place.endswith("b0")
                and place.startswith("digests")]  # fmt: skip
    reason = (workspace.home("b0") / "errors" / "refused.txt").read_text()
    assert f"alignment.allow: {way} is not among them" in reason


@pytest.mark.parametrize("way", ["keyed", "private"])
@pytest.mark.parametrize("party", ["a", "b0"])
def test_a_run_about_too_few_people_stops_before_a_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, party: str, way: str
) -> None:
    workspace = Workspace.write(tmp_path / "f", dataset("binary"), alignment=way)
    workspace.known_to(monkeypatch)
    rules = {"least_common": {"train": 501}}
    workspace.edit_yaml(f"{party}/policy.yaml", lambda data: data.update(alignment=rules))
    step, error = workspace.first_failure()
    assert step == {"a": "a.align", "b0": "b0.preprocess"}[party]
    assert isinstance(error, ContractError)
    assert "wants 501 common people" in str(error)
    assert "ranks/b0" not in workspace.published()
    with open_books(load_site(workspace.folder / party / "site.yaml")) as books:
        told = [release.discloses for release in books.ledger.releases()]
    assert "that fewer than 501 people are common to all parties" in told


@pytest.mark.parametrize("parties", [1, 2])
def test_nobody_in_common_is_told_from_keys_that_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parties: int
) -> None:
    workspace = private(tmp_path, monkeypatch, parties)
    workspace.edit_table("b0", lambda t: t.with_columns(id="x" + pl.col("id")))
    step, error = workspace.first_failure()
    assert step == "a.align"
    assert "No ID is common to all parties. Keys and versions agree." in str(error)
    assert "alignment key" not in str(error)


def test_keys_or_versions_that_differ_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = private(tmp_path, monkeypatch)
    workspace.until("align")
    real = oprf.domain_tag
    monkeypatch.setattr(oprf, "domain_tag", lambda name: real(name) + b"2")
    other = Workspace(workspace.folder, SECOND_RUN)
    other.until("digest_ids", "b0")
    monkeypatch.setattr(oprf, "domain_tag", real)
    for party, stage in (("b0", "digest_ids"), ("b0", "psi_answer")):
        other.step(party, stage)
    with pytest.raises(ContractError, match="keys or versions of the parties differ"):
        other.step("a", "align")


@pytest.mark.parametrize("party", ["a", "b0"])
def test_ids_that_could_be_written_otherwise_stop_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, party: str
) -> None:
    workspace = private(tmp_path, monkeypatch)
    odd = pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("cafe\u0301") + pl.col("id"))
    workspace.edit_table(party, lambda t: t.with_columns(id=odd.otherwise(pl.col("id"))))
    step, error = workspace.first_failure()
    assert step in ("a.psi_query", "b0.digest_ids")
    assert step.startswith(party)
    assert "3 are not in Unicode's form NFC" in str(error)
    assert "cafe" not in str(error)


def test_integer_ids_with_0_and_the_label_0_survive_to_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = dataset("binary", parties=2)
    for name, table in made.tables.items():
        made.tables[name] = table.with_columns(  # type: ignore[index]
            id=pl.col("id").str.slice(1).cast(pl.Int64)
        )
    workspace = Workspace.write(tmp_path / "f", made, alignment="private")
    workspace.edit_yaml("federation.yaml", lambda data: data["id"].update(type="integer"))
    workspace.agree()
    workspace.known_to(monkeypatch)
    workspace.until("materialise")
    rows = feather.read_table(workspace.home("a") / "alignment.arrow").column("position")
    ids = pl.read_parquet(workspace.table_path("a")).get_column("id").to_numpy()
    assert 0 in ids[rows.to_numpy()]
    assert len(rows) == 500
    labels = feather.read_table(workspace.home("a") / "frame.arrow").column("label")
    assert 0 in labels.to_numpy()


def test_a_second_query_in_one_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = private(tmp_path, monkeypatch)
    workspace.until("align")
    points = np.frombuffer(
        b"".join(sorted(curve.hash_to_curve([b"%d" % i for i in range(501)], b"other"))),
        dtype=np.uint8,
    )
    workspace.forge("psi_query", "b0", "a", entries=points.reshape(-1, 32))
    with pytest.raises(Rejected) as caught:
        workspace.step("b0", "psi_answer")
    assert caught.value.reason == "superseded"


def test_a_party_without_an_encryption_key_has_no_part_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = private(tmp_path, monkeypatch, 2)
    workspace.edit_yaml("federation.yaml", lambda d: d["parties"]["b1"].pop("encryption_key"))
    with pytest.raises(OpBoostError, match="required for alignment: private"):
        workspace.open()


def test_a_scoring_run_finds_its_people_the_same_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = private(tmp_path, monkeypatch, 2)
    workspace.all()
    scoring = workspace.scoring()
    for party in ("a", "b0", "b1"):
        table = pl.read_parquet(workspace.table_path(party))
        fresh = table.with_columns(id="n" + pl.col("id"))
        (fresh.drop("y") if party == "a" else fresh).write_parquet(scoring.table_path(party))
        workspace.edit_yaml(
            f"{party}/site.yaml",
            lambda data: data["tables"][NAME].update(score="tables/score.parquet"),
        )
    scoring.all()
    assert {"psi_query/b0", "psi_answer/b1", "values/b0"} <= set(scoring.published())
    assert feather.read_table(scoring.home("a") / "scores.arrow").num_rows == 500


@pytest.mark.parametrize(("parties", "said"), [(1, "are in that table"), (2, "all parties have")])
def test_the_card_says_how_people_were_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parties: int, said: str
) -> None:
    from opboost_ops.models.alignment_words import alignment_words

    workspace = private(tmp_path, monkeypatch, parties)
    words = alignment_words(workspace.declared)
    assert said in words
    assert "alignment key" not in words
    keyed = workspace.declared.model_copy(update={"alignment": "keyed"})
    assert "alignment key" in alignment_words(keyed)
