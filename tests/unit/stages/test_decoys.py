"""Whole runs with decoys: the same model, nobody told, everybody charged."""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.feather as feather
import pytest

from opboost_ops.config.loading import load_site
from opboost_ops.errors import ContractError, PolicyError
from opboost_ops.exchange.books import open_books
from opboost_ops.pages.exchange import run_blocks, run_entries
from opboost_ops.privacy.people import people
from opboost_ops.run import timings
from opboost_ops.run.local import run_federation
from opboost_ops.stages.stage import Home
from opboost_ops.stages.untold import WORDS
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.noninterference.observation import differences, observe
from tests.unit.stages.decoy_federation import allow, model, scores, workspace


def known(made: Workspace, patch: pytest.MonkeyPatch) -> Workspace:
    made.known_to(patch)
    return made


def strangers(made: Workspace, count: int) -> None:
    """Some of the label holder's people are others, whom nobody has."""
    name = pl.when(pl.int_range(pl.len()) < count).then(pl.lit("z")).otherwise(pl.lit(""))
    made.edit_table("a", lambda t: t.with_columns(id=name + pl.col("id")))


def common(made: Workspace) -> int:
    ids = [pl.read_parquet(made.table_path(party)).get_column("id") for party in ("a", "b0")]
    return len(set(ids[0]) & set(ids[1]))


def table(made: Workspace, name: str) -> pl.DataFrame:
    """A table in the label holder's home."""
    found = pl.from_arrow(feather.read_table(made.home("a") / f"{name}.arrow"))
    assert isinstance(found, pl.DataFrame)
    return found


#: What a feature holder sees that is the label holder's points, or their products.
POINTS = ("psi_query", "psi_answer")


def test_the_feature_holder_sees_nothing_that_depends_on_who_is_common(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the exchange, all that tasks tell and log, and its own home: but for points."""
    found, homes, counts = [], [], []
    first = workspace(tmp_path / "first")
    for others in (0, 90):
        made = known(first.copy(tmp_path / f"{others}", FIRST_RUN), monkeypatch)
        strangers(made, others)
        counts.append(common(made))
        found.append(observe(made, lambda watch: watch.all()))
        homes.append(made.files("b0"))
        assert not [place for place in found[-1] if place.startswith("error")]
    assert counts[0] > counts[1] + 50
    differing = differences(*found)
    assert differing
    assert not [place for place in differing if not any(kind in place for kind in POINTS)]
    # What it keeps itself: but for the points, what names them, and how long things took.
    beside = ("psi/answer", "acceptance.json", "timings/", "quality/", "ledger")
    kept = [
        {n: content for n, content in home.items() if not any(part in n for part in beside)}
        for home in homes
    ]
    assert len(kept[0]) > 20
    assert kept[0] == kept[1]


@pytest.mark.parametrize(
    "training",
    [
        {"trees": 4, "depth": 3},
        pytest.param({"trainer": "xgboost", "trees": 4}, marks=pytest.mark.slow),
        pytest.param({"trees": 4, "holdout": {"column": "held"}}, marks=pytest.mark.slow),
    ],
)
def test_the_model_is_the_same_to_the_byte_and_everybody_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, training: dict[str, Any]
) -> None:
    found = []
    for decoys in (False, True):
        made = workspace(tmp_path / str(decoys), decoys, training=training)
        if "holdout" in training:
            made.edit_table("a", lambda t: t.with_columns(held=pl.col("x") > 0.7))
        for party in ("a", "b0") if decoys else ():
            # What is picked of everybody's values waits on the disk.
            made.edit_yaml(f"{party}/site.yaml", lambda site: site.update(block_rows=40))
        known(made, monkeypatch).all()
        found.append(made)
    plain, decoyed = found
    assert model(plain) == model(decoyed)
    for name in ("alignment.json", "alignment.arrow", "predictions.arrow", "evaluation.json"):
        assert (plain.home("a") / name).read_bytes() == (decoyed.home("a") / name).read_bytes()
    for name in ("frame", "holdout_frame"):
        frames = [table(made, name) for made in found]
        assert frames[0].equals(frames[1])
    kinds = {place.partition("/")[0] for place in decoyed.published()}
    assert kinds == {"plan", "psi_query", "digests", "psi_answer", "values"}
    require_everybody_charged(plain, decoyed)


def require_everybody_charged(plain: Workspace, decoyed: Workspace) -> None:
    """In the ledger are values of all, and nothing tells how many are common."""
    charged = []
    for made in (plain, decoyed):
        with open_books(load_site(made.folder / "b0" / "site.yaml")) as books:
            lines = list(books.ledger.releases())
            charged.append({column.people for column in people(lines, books.cells).columns})
    everybody = pl.read_parquet(decoyed.table_path("b0")).height
    assert charged == [{common(plain)}, {everybody}]
    values = [line for line in lines if line.kind == "values"]
    assert {line.rows for line in values} == {everybody}
    assert {line.account for line in values} == {"local_dp"}
    (laid,) = (line.discloses for line in lines if line.kind == "digests")
    assert "all people in the table, each of whom is charged" in laid
    assert common(decoyed) not in {line.rows for line in lines}
    assert not any(str(common(decoyed)) in line.discloses for line in lines)


def test_nobody_is_released_without_the_policys_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = known(workspace(tmp_path / "f"), monkeypatch)
    made.edit_yaml("b0/policy.yaml", lambda policy: policy.pop("alignment"))
    step, error = made.first_failure()
    assert step == "b0.check_table"
    assert isinstance(error, PolicyError)
    assert "alignment.decoys" in made.reason("b0")
    assert not [place for place in made.published() if place.endswith("b0")
                and not place.startswith("psi_query")]  # fmt: skip

    def capped(policy: Any) -> None:
        policy["alignment"] = {"decoys": True}
        policy["features"]["w"]["max_splits"] = 3

    made.edit_yaml("b0/policy.yaml", capped)
    later = Workspace(made.folder, SECOND_RUN)
    assert later.first_failure()[0] == "b0.check_table"
    assert "features.w.max_splits" in later.reason("b0")


def test_values_leave_only_after_the_query_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = known(workspace(tmp_path / "f"), monkeypatch)
    asked = pl.read_parquet(made.table_path("a")).height
    allow(made, max_asked=asked - 1)
    made.until("psi_answer")
    with pytest.raises(PolicyError, match="max_asked"):
        made.step("b0", "psi_answer")
    with pytest.raises(ContractError, match="has not answered the label holder's query"):
        made.step("b0", "preprocess")


@pytest.mark.slow
@pytest.mark.parametrize("party", ["a", "b0"])
def test_too_few_people_of_the_release_or_in_common(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, party: str
) -> None:
    made = known(workspace(tmp_path / "f"), monkeypatch)
    everybody = pl.read_parquet(made.table_path("b0")).height
    least = {"train": {"a": common(made), "b0": everybody}[party] + 1}
    made.edit_yaml(
        f"{party}/policy.yaml",
        lambda policy: policy.update(alignment={"decoys": True, "least_common": least}),
    )
    step, error = made.first_failure()
    assert step == {"a": "a.align", "b0": "b0.preprocess"}[party]
    assert "values/b0" not in made.published()
    said = {"a": "common people", "b0": "people in what it releases"}[party]
    assert f"wants {least['train']:,} {said}" in str(error)
    assert str(common(made)) not in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("sharded", [False, True])
def test_a_stage_that_is_killed_or_tried_again_writes_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sharded: bool
) -> None:
    """Every stage of training and scoring: at its first file, and when all but its end is done."""
    twin = workspace(tmp_path / "twin")
    if sharded:
        shard(twin)
    made = twin.copy(tmp_path / "made", FIRST_RUN)

    class Killed(BaseException):
        """As a signal is: nothing catches it."""

    def killed(*_: object, **__: object) -> None:
        raise Killed

    for purpose in (made, made.scoring()):
        known(made, monkeypatch)
        purpose.open()
        for step in purpose.steps():
            for owner, name in ((Home, "_whole"), (timings, "note")):
                with monkeypatch.context() as patch:
                    patch.setattr(owner, name, killed)
                    with pytest.raises(Killed):
                        purpose.step(step.party, step.stage)
            purpose.step(step.party, step.stage)
        same = Workspace(twin.folder, purpose.run, purpose.purpose)
        same.known_to(monkeypatch)
        same.all()
        assert same.files("exchange") == made.files("exchange")
    assert model(made) == model(twin)
    assert scores(made).equals(scores(twin))


def shard(made: Workspace) -> None:
    """Cut the feature holder's tables into files, of which one has nobody in common."""
    made.edit_yaml("federation.yaml", lambda data: data["parties"]["b0"].update(shards=True))
    for path in (made.table_path("b0"), made.scoring().table_path("b0")):
        whole = pl.read_parquet(path)
        path.unlink()
        path.mkdir()
        for number, part in enumerate((whole[:2], whole[2:170], whole[170:])):
            part.write_parquet(path / f"part-{number}.parquet")


@pytest.mark.slow
def test_an_order_of_the_table_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = workspace(tmp_path / "f")
    twin = made.copy(tmp_path / "twin", FIRST_RUN)
    for party in ("a", "b0"):
        twin.edit_table(party, lambda t: t.sample(fraction=1, shuffle=True, seed=3))
    for each in (made, twin):
        known(each, monkeypatch).until("accept")
    assert twin.files("exchange") == made.files("exchange")
    assert "values/b0" in made.published()


@pytest.mark.slow
@pytest.mark.parametrize("task", ["binary", "regression"])
def test_new_rows_get_the_same_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    found = []
    for decoys in (False, True):
        made = known(workspace(tmp_path / str(decoys), decoys, task), monkeypatch)
        if decoys:
            shard(made)
        made.all()
        scoring = made.scoring()
        said = scoring.all()
        found.append(scores(made))
        assert found[-1].height > 300
        # The same people once more, in an order of tags of that run: there is nothing to add.
        again = Workspace(made.folder, "0" * 15 + "b", "score")
        more = again.all()
        if decoys:
            assert set(said["a.write_scores"]) == {"published"}
            assert "rows" not in said["a.score"]
            kept = again.home_json("a", "summaries/write_scores")
            assert (kept["rows"], kept["new"]) == (found[-1].height, False)
        else:
            assert more["a.write_scores"]["new"] is False
    assert found[0].equals(found[1])


@pytest.mark.slow
def test_a_private_model_counts_the_domains_own_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = {
        "trainer": "dpboost", "trees": 4, "depth": 2,
        "private": {"epsilon": 3.0, "trees_per_ensemble": 2, "metrics_epsilon": 2.0},
    }  # fmt: skip
    frames = []
    for decoys in (False, True):
        made = workspace(tmp_path / str(decoys), decoys)

        def bounded(data: Any) -> None:
            data["training"] = training
            own = data["parties"]["a"]["features"]
            own["x"]["bounds"] = [0, 1]
            own["kind"].update(categories=["one", "two", "three"], missing={"fill": "one"})

        made.edit_yaml("federation.yaml", bounded)
        known(made, monkeypatch).all()
        frames.append(table(made, "frame"))
        values = made.home_json("a", "split_values")
        assert any(name.startswith("b0.") for name in values)
    assert frames[0].equals(frames[1])


@pytest.mark.slow
def test_what_one_house_runs_is_told_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = known(workspace(tmp_path / "f"), monkeypatch)
    finished = run_federation(made.file, {}, parties="threads")
    made.known_to(monkeypatch)
    told = finished.summaries["a"]
    assert told["align"] == {**made_rows(made, finished.run), "published": []}
    assert "federated_desensitised" in told["evaluate"]["metrics"]
    assert told["register"]["why"] != WORDS
    for party in ("a", "b0"):
        of = (party, made.declared.name, finished.run)
        page = str(run_blocks(*of, run_entries(*of)))
        assert "neither which of the own people are common nor how many" in page
        # As a word: digests have three digits in a row by chance.
        assert not re.search(rf"\b{common(made)}\b", page)
    shown = made.folder / "a" / "models" / made.declared.name / finished.run / "card.json"
    disclosed = json.loads(shown.read_bytes())["disclosed"]
    assert any("all people of b0, common or not" in line for line in disclosed)
    assert not any("held out (exact" in line or "ranks" in line for line in disclosed)


def made_rows(made: Workspace, run: str) -> Any:
    home = Workspace(made.folder, run).home("a")
    return json.loads((home / "alignment.json").read_bytes())
