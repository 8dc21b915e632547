"""Whole runs in which exponents stay for a month: what stays, what is counted, who decides."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from opboost_ops.alignment import epochs
from opboost_ops.config.loading import load_site, parse_federation
from opboost_ops.errors import ConfigError, ContractError, PolicyError
from opboost_ops.exchange.books import agreements_of as agreements
from opboost_ops.exchange.books import open_books
from opboost_ops.exchange.plan import parse_plan
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.models.alignment_words import alignment_words
from opboost_ops.run.changes import changes
from tests.federation import SECOND_RUN, Workspace
from tests.unit.stages.private_federation import private, published

THIRD_RUN = "0" * 15 + "3"

NOVEMBER = datetime(2026, 11, 15, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """Everybody's; the last entry is the time."""
    told = [NOVEMBER]
    monkeypatch.setattr(epochs, "now", lambda: told[-1])
    return told


def monthly(folder: Path, patch: pytest.MonkeyPatch, parties: int = 1) -> Workspace:
    workspace = private(folder, patch, parties)
    terms = {"mode": "private", "epoch": "month"}
    workspace.edit_yaml("federation.yaml", lambda data: data.update(alignment=terms))
    workspace.agree()
    return workspace


def later(workspace: Workspace, run: str) -> Workspace:
    return Workspace(workspace.folder, run)


def rows_of(points: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in points}


@pytest.mark.parametrize("parties", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_points_stay_for_a_month_and_tags_for_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: list[datetime], parties: int
) -> None:
    workspace = monthly(tmp_path, monkeypatch, parties)
    workspace.until("preprocess")
    again = later(workspace, SECOND_RUN)
    again.until("preprocess")
    for kind in ("psi_query", "psi_answer"):
        assert rows_of(published(workspace, kind)) == rows_of(published(again, kind))
    # To whoever lacks the points, two layouts have nothing to do with each other.
    assert not rows_of(published(workspace, "digests")) & rows_of(published(again, "digests"))
    first = (workspace.home("a") / "alignment.arrow").read_bytes()
    assert (again.home("a") / "alignment.arrow").read_bytes() == first
    clock.append(datetime(2026, 12, 15, tzinfo=UTC))
    december = later(workspace, THIRD_RUN)
    december.until("align")
    for kind in ("psi_query", "psi_answer"):
        assert not rows_of(published(workspace, kind)) & rows_of(published(december, kind))


@pytest.mark.slow
def test_the_model_is_that_of_runs_without_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for folder, make in (("month", monthly), ("run", private)):
        workspace = make(tmp_path / folder, monkeypatch, 2)
        workspace.all()
        (model,) = (workspace.folder / "a" / "models").rglob("model.txt")
        found.append(model.read_bytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("parties", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_retry_writes_the_same_bytes_also_next_month(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: list[datetime], parties: int
) -> None:
    workspace = monthly(tmp_path, monkeypatch, parties)
    workspace.until("preprocess")
    sent = workspace.files("exchange")
    clock.append(datetime(2026, 12, 25, tzinfo=UTC))
    workspace.open()
    for party, stage in (("a", "psi_query"), ("b0", "digest_ids"), ("b0", "psi_answer"),
                         ("a", "align")):  # fmt: skip
        workspace.step(party, stage)
    assert workspace.files("exchange") == sent


def asked(workspace: Workspace) -> list[str]:
    with open_books(load_site(workspace.folder / "b0" / "site.yaml")) as books:
        return [r.discloses for r in books.ledger.releases() if r.kind == "psi_answer"]


def newcomers(workspace: Workspace, count: int) -> None:
    """Some of the label holder's people are others from now on."""
    name = pl.when(pl.int_range(pl.len()) < count).then(pl.lit("new-")).otherwise(pl.lit(""))
    workspace.edit_table("a", lambda t: t.with_columns(id=name + pl.col("id")))


def test_new_people_are_counted_and_capped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: list[datetime]
) -> None:
    workspace = monthly(tmp_path, monkeypatch)
    rules = {"max_new_asked": 520, "max_asked_ever": 1010}
    workspace.edit_yaml("b0/policy.yaml", lambda data: data.update(alignment=rules))
    workspace.until("align")
    for run, came in ((SECOND_RUN, 0), (THIRD_RUN, 20)):
        newcomers(workspace, came)
        again = later(workspace, run)
        again.until("align")
        # Its own retry counts nothing.
        again.step("b0", "psi_answer")
    told = asked(workspace)
    assert ["about 500 different people in 2026-11" in line for line in told] == [True, True, False]
    assert "about 520 different people in 2026-11" in told[2]
    assert "can look each of them up in every run of that epoch" in told[2]

    newcomers(workspace, 1)
    fourth = later(workspace, "f" * 16)
    fourth.until("psi_answer")
    with pytest.raises(PolicyError, match="max_new_asked is 520, and in 2026-11 more") as caught:
        fourth.step("b0", "psi_answer")
    # How many came since is nobody's who only sees the run.
    assert "521" not in str(caught.value)
    assert "psi_answer/b0" not in fourth.published()

    # A new month: all are asked about anew, and in all it is too much.
    clock.append(datetime(2026, 12, 15, tzinfo=UTC))
    december = later(workspace, "e" * 16)
    december.until("psi_answer")
    with pytest.raises(PolicyError, match="max_asked_ever is 1,010, and more"):
        december.step("b0", "psi_answer")
    rules["max_asked_ever"] = 1020
    workspace.edit_yaml("b0/policy.yaml", lambda data: data.update(alignment=rules))
    december.step("b0", "psi_answer")
    assert "about 500 different people in 2026-12" in asked(workspace)[-1]
    assert "about 1,020 in all" in asked(workspace)[-1]


@pytest.mark.parametrize(
    ("moment", "begins"),
    [("2026-10-31T01:00", True), ("2026-12-01T23:00", True), ("2026-10-30T20:00", False),
     ("2026-12-02T01:00", False), ("2027-11-15T00:00", False)],
)  # fmt: skip
def test_a_run_begins_in_its_month_by_clocks_that_may_differ_by_a_day(
    moment: str, begins: bool
) -> None:
    assert epochs.may_begin("2026-11", datetime.fromisoformat(f"{moment}+00:00")) is begins
    east = datetime.fromisoformat(f"{moment}+00:00").astimezone(timezone(timedelta(hours=14)))
    assert epochs.may_begin("2026-11", east) is begins


def test_every_party_compares_the_month_with_its_own_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: list[datetime]
) -> None:
    workspace = monthly(tmp_path, monkeypatch)
    workspace.until("digest_ids", "b0")
    clock.append(datetime(2026, 12, 2, 1, tzinfo=UTC))
    with pytest.raises(ContractError, match="epoch 2026-11, which by the clock of b0 is over"):
        workspace.step("b0", "digest_ids")
    assert "digests/b0" not in workspace.published()
    clock.append(NOVEMBER)
    workspace.step("b0", "digest_ids")
    # What has begun may end.
    clock.append(datetime(2027, 5, 1, tzinfo=UTC))
    workspace.step("b0", "psi_answer")
    assert "psi_answer/b0" in workspace.published()


def test_a_run_lays_out_one_table_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two with the same exponent, who is in both could be seen by whoever has the points."""
    workspace = monthly(tmp_path, monkeypatch, 2)
    workspace.until("psi_answer")
    # The home is lost, the store lost what had come, and the table is another one.
    for path in workspace.home("b0").iterdir():
        if path.name not in ("table.json", "psi_epoch.json", "acceptance.json", "admitted.json"):
            path.unlink() if path.is_file() else None
    folder = workspace.folder / "exchange" / "credit_scoring" / workspace.run / "digests" / "b0"
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink()
    folder.rmdir()
    workspace.edit_table("b0", lambda t: t.head(400))
    workspace.step("b0", "check_table")
    with pytest.raises(ContractError, match="laid out another table in this run"):
        workspace.step("b0", "digest_ids")
    assert "digests/b0" not in workspace.published()


def plan_with(workspace: Workspace, **changes: object) -> dict[str, object]:
    workspace.open()
    files = workspace.store.get(f"credit_scoring/{workspace.run}/plan/a")
    assert files is not None
    document: dict[str, object] = json.loads(files["document.json"])
    return {**document, **changes}


def test_a_plan_names_its_epoch_if_and_only_if_it_needs_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = monthly(tmp_path / "month", monkeypatch)
    assert parse_plan(plan_with(workspace), "plan").epoch == "2026-11"
    for wrong in (None, "2026-13", "11", 7, "2026-11\n"):
        with pytest.raises(Rejected, match="epoch"):
            parse_plan(plan_with(workspace, epoch=wrong), "plan")
    other = private(tmp_path / "run", monkeypatch)
    assert parse_plan(plan_with(other), "plan").epoch is None
    with pytest.raises(Rejected, match="epoch"):
        parse_plan(plan_with(other, epoch="2026-11"), "plan")


def test_agreement_and_card_say_what_an_epoch_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = private(tmp_path, monkeypatch)
    book = agreements(load_site(workspace.folder / "b0" / "site.yaml"))
    terms = {"mode": "private", "epoch": "month"}
    workspace.edit_yaml("federation.yaml", lambda data: data.update(alignment=terms))
    (change,) = changes(book, workspace.declared)
    assert change.field == "federation.alignment"
    assert "counts once" in change.means
    words = alignment_words(workspace.declared)
    assert "Exponents stay for a month" in words
    assert "Exponents" not in alignment_words(private(tmp_path / "w", monkeypatch).declared)


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"mode": "private"}, ["alignment: is a mapping that names neither epoch nor decoys"]),
        ({"epoch": "month"}, ["alignment.mode: is required"]),
        ({"mode": "keyed", "epoch": "week"}, ["alignment.mode: ", "alignment.epoch: "]),
        ({"mode": "private", "epoch": "month", "salt": "all"}, ["alignment.salt: is not a"]),
        ("privat", ["alignment: Input should be 'private' or 'keyed' (did you mean private?)"]),
    ],
)
def test_what_is_no_way_of_alignment_is_told_once(
    tmp_path: Path, terms: object, said: list[str]
) -> None:
    workspace = Workspace.write(tmp_path / "w")
    data = yaml.safe_load(workspace.file.read_text()) | {"alignment": terms}
    with pytest.raises(ConfigError) as caught:
        parse_federation(data, "federation.yaml")
    assert len(caught.value.faults) == len(said)
    assert all(part in str(caught.value) for part in said)
