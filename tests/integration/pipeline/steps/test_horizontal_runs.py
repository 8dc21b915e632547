"""Whole runs of horizontal learning, in process: training, state, policy, scoring at home."""

import json
import shutil
import threading
from pathlib import Path

import lightgbm
import numpy as np
import polars as pl
import pyarrow.feather as feather
import pytest
import yaml

from opboost_ops.config.loading import load_federation, load_site, site_of
from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.party_state import open_state
from opboost_ops.exchange.rounds.protocol import Alone
from opboost_ops.extras.datasets.generated import NAME, write_lenders
from opboost_ops.extras.datasets.workspace import agree_for_all
from opboost_ops.extras.export.export import export_model, model_columns
from opboost_ops.learning.federboost import federboost
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.pipeline.catalogue import STAGES
from opboost_ops.pipeline.home import Home
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.phases import ROUNDS, phases
from opboost_ops.pipeline.redaction import whole
from opboost_ops.pipeline.runner.opening import open_run
from opboost_ops.pipeline.runner.runner import run_stage
from opboost_ops.pipeline.steps.boost import model_text, rows_of, settings_of
from tests.integration.extras.export.test_onnx import run as onnx_scores

TRAIN, SCORE, LATER = (f"{number:016d}" for number in (1, 2, 3))


class Lenders:
    """A folder of lenders, and how to run them."""

    def __init__(self, folder, patch, hours=0.4, **options):
        """With parties that wait for one another for 1/48 of some hours."""
        training = {"trees": 3, "depth": 2, **options.pop("training", {})}
        self.file = write_lenders(folder, rows=900, seed=0, training=training, **options)
        declared = yaml.safe_load(self.file.read_text()) | {"schedule": {"timeout_hours": hours}}
        self.file.write_text(yaml.safe_dump(declared, sort_keys=False))
        self.folder = folder
        self.federation = load_federation(self.file)
        self.names = list(self.federation.parties)
        for name in self.names:
            patch.setenv(f"OPBOOST_SITE_{name.upper()}", str(folder / name / "site.yaml"))

    def declare(self, change):
        """Change what the active party declares for all; all agree to it."""
        self.edit(lambda data: change(data["parties"][self.federation.label_holder]))

    def edit(self, change):
        """Change the federation's file; all agree to it."""
        data = yaml.safe_load(self.file.read_text())
        change(data)
        self.file.write_text(yaml.safe_dump(data, sort_keys=False))
        agree_for_all(self.file)
        self.federation = load_federation(self.file)

    def allow(self, name, **entries):
        """Set entries of a party's policy."""
        path = self.folder / name / "policy.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **entries}))

    def run(self, run=TRAIN, purpose="train", until=None):
        """All stages of all parties; those with rounds at the same time. Summaries and errors."""
        open_run(self.file, run, {}, purpose)
        asked = Run(NAME, run, self.federation.label_holder)
        said, errors = {}, {}
        for phase in phases(self.federation, purpose):
            for stage in phase.stages:
                if stage == until:
                    return said, errors
                names = phase.parties(self.federation)
                if stage != ROUNDS:
                    said |= {(name, stage): self._stage(name, stage, asked) for name in names}
                    continue
                done, errors = self.together(names, run)
                said |= done
                if errors:
                    return said, errors
        return said, errors

    def all(self, *given):
        """A whole run that ends well; its summaries."""
        said, errors = self.run(*given)
        assert not errors
        return said

    def together(self, names=None, run=TRAIN):
        """The stage with rounds, of some parties at the same time. Summaries and errors."""
        said, errors = {}, {}
        asked = Run(NAME, run, self.federation.label_holder)
        threads = [
            threading.Thread(target=self._one, args=(name, asked, said, errors))
            for name in names or self.names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return said, errors

    def _one(self, name, asked, said, errors):
        try:
            said[name, ROUNDS] = self._stage(name, ROUNDS, asked)
        except OpBoostError as error:
            errors[name] = error

    def _stage(self, name, stage, asked):
        """The summary as the party's own people see it."""
        return whole(Home(self.home(name, asked.run)), stage, run_stage(name, stage, asked))

    def home(self, name, run=TRAIN):
        return self.site(name).home / NAME / run

    def site(self, name):
        return load_site(self.folder / name / "site.yaml")

    def registry(self, name):
        return Registry(self.site(name).models, NAME)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        lenders = Lenders(tmp_path_factory.mktemp("lenders") / "all", patch)
        # Some incomes are missing, and stay so; `test_many_classes_by_a_whole_run` fills them.
        lenders.declare(lambda data: data["features"]["income"].update(missing="keep"))
        said = lenders.all()
        yield lenders, said


def test_every_party_registers_the_model_of_all_rows_together(trained):
    lenders, said = trained
    models = set()
    for name in lenders.names:
        registry = lenders.registry(name)
        assert registry.champion() == TRAIN
        models.add(registry.files(TRAIN)["model.txt"])
    tables = [feather.read_table(lenders.home(name) / "rows.arrow") for name in lenders.names]
    parts = [rows_of(table, lenders.federation) for table in tables]
    columns = [np.concatenate(each) for each in zip(*(c for c, _ in parts), strict=True)]
    label = np.concatenate([label for _, label in parts])
    assert (columns[1] == lenders.federation.domain.upper + 1).any(), "missing incomes"
    alone = federboost.learn(columns, label, settings_of(lenders.federation), Alone())
    assert models == {model_text(alone, lenders.federation).encode()}
    conversations = {said[name, ROUNDS]["conversation"] for name in lenders.names}
    assert len(conversations) == 1
    assert said[lenders.names[0], ROUNDS]["rows"] == label.size < 900


def test_no_identifier_leaves_and_nobody_can_add_up_from_the_store(trained):
    lenders, said = trained
    ids = [
        i.encode()
        for name in lenders.names
        for i in pl.read_parquet(lenders.folder / name / "tables" / "train.parquet")["id"]
    ]
    files = [p for p in (lenders.folder / "exchange").rglob("*") if p.is_file()]
    seen = b"\n".join([*(p.read_bytes() for p in files), json.dumps(list(said.values())).encode()])
    assert len(files) > 100 and not [i for i in ids if i in seen]
    kinds = {p.relative_to(lenders.folder / "exchange").parts[2:4] for p in files}
    assert ("masked", lenders.names[0]) not in kinds and ("masked", lenders.names[1]) in kinds
    vectors = [p.name for p in files if "/masked/" in str(p) and p.name.startswith("vector")]
    assert vectors and set(vectors) == {"vector.bin.enc"}


@pytest.mark.parametrize("stage", ["encode_rows", ROUNDS, "evaluate_own"])
def test_a_stage_that_fails_shows_no_value(trained, monkeypatch, caplog, stage):
    lenders, _ = trained

    def fails(context):
        table = lenders.home(context.party) / "rows.arrow"
        raise ValueError(f"cannot use {feather.read_table(table)['income'].to_pylist()[:3]}")

    monkeypatch.setitem(STAGES, stage, fails)
    name = lenders.names[1]
    caplog.set_level("DEBUG")
    with pytest.raises(OpBoostError) as raised:
        run_stage(name, stage, Run(NAME, TRAIN, lenders.names[0]))
    kept = (lenders.home(name) / "errors" / f"{stage}.txt").read_text()
    assert "cannot use [" in kept and raised.value.__cause__ is None
    assert "failed unexpectedly (ValueError)" in str(raised.value)
    assert "cannot use" not in str(raised.value) + caplog.text


def test_the_ledger_says_what_sums_tell_before_they_leave(trained):
    lenders, _ = trained
    active, passive = lenders.names[:2]
    for name in (active, passive):
        site, _ = site_of(name)
        with open_state(site) as state:
            lines = {line.kind: line for line in state.ledger.entries()}
            entries = [entry for _, entry, _ in state.audit.entries()]
        assert all(line.account == "exact" for line in lines.values())
        assert {"boost_model"} <= set(lines)
        summed = {"boost_facts", "boost_lookup", "boost_histograms", "boost_number"} & set(lines)
        assert summed == (set() if name == active else set(summed)) and len(summed) in (0, 4)
        heads = [e.artifact for e in entries if e.place.endswith(f"/decision/{active}/all")]
        assert heads[-1] == json.loads((lenders.home(name) / "boosted.json").read_text())["head"]
    assert lines["boost_histograms"].receiver == active
    assert "reveals their labels" in lines["boost_histograms"].discloses
    assert "16 rounds" in lines["boost_lookup"].discloses
    assert lines["boost_facts"].discloses.endswith("; and rows without income")
    edges = json.loads((lenders.home(active) / "boosted.json").read_text())["edges"]
    # A category's bit has a bucket for each of its two values.
    assert edges[-1] == [0] and len(edges[0]) > 10


def test_new_rows_are_scored_at_home_by_stock_lightgbm(trained):
    lenders, _ = trained
    said = lenders.all(SCORE, "score")
    for name in lenders.names:
        site = lenders.site(name)
        booster = lightgbm.Booster(model_file=str(site.models / NAME / TRAIN / "model.txt"))
        rows = pl.read_parquet(site.tables[NAME].score)
        kinds = [column for column in booster.feature_name() if "=" in column]
        raw = rows.with_columns(
            *((pl.col("employment") == kind.partition("=")[2]).alias(kind) for kind in kinds),
        ).select(booster.feature_name())
        raw = raw.cast(pl.Float64).fill_null(float("nan"))
        expected = booster.predict(raw.to_numpy())
        (file,) = (site.scores / NAME).rglob("*.parquet")
        written = pl.read_parquet(file)
        assert written["id"].to_list() == rows["id"].to_list()
        np.testing.assert_allclose(written["score"].to_numpy(), expected, rtol=0, atol=1e-12)
        assert said[name, "write_scores"]["rows"] == rows.height
        card = (site.models / NAME / TRAIN / "card.html").read_text()
        assert "of all parties together" in card and "every party" in card
        files = lenders.registry(name).files(TRAIN)
        found = onnx_scores(export_model(files, "onnx"), rows)["score"]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        columns = model_columns(files).columns
        (income,) = [column for column in columns if column.name == "income"]
        assert income.values.endswith("NaN where missing.")


def test_a_table_that_changed_in_mid_run_sends_nothing_more(tmp_path, monkeypatch):
    lenders = Lenders(tmp_path / "all", monkeypatch, hours=0.016)
    lenders.run(until=ROUNDS)
    victim = lenders.names[1]
    # Two of three: keys cannot be complete, and the waiting party says for whom.
    _, errors = lenders.together(lenders.names[:2])
    assert all(f"waits for {lenders.names[2]}" in str(error) for error in errors.values())
    lenders.together(lenders.names[2:])
    lenders.together([victim])
    sent = {path: path.read_bytes() for path in (lenders.home(victim) / "rounds").iterdir()}
    assert len(sent) == 1, "its first vector is out"
    table = feather.read_table(lenders.home(victim) / "rows.arrow")
    feather.write_feather(
        table.slice(1), lenders.home(victim) / "rows.arrow", compression="uncompressed"
    )
    _, errors = lenders.together([victim])
    assert "computed a different vector" in str(errors[victim])
    assert {path: path.read_bytes() for path in sent} == sent


def test_a_party_that_no_policy_names_learns_no_sum(tmp_path, monkeypatch):
    lenders = Lenders(tmp_path / "all", monkeypatch, hours=0.008)
    lenders.run(until=ROUNDS)
    name, stranger = lenders.names[1], lenders.names[2]
    path = lenders.folder / name / "policy.yaml"
    policy = yaml.safe_load(path.read_text())
    del policy["receivers"][stranger]
    path.write_text(yaml.safe_dump(policy))
    _, errors = lenders.together([name])
    assert f"does not name {stranger}" in str(errors[name])
    assert not list((lenders.folder / "exchange" / NAME / TRAIN).glob(f"round_key/{name}"))
    shutil.rmtree(Path(lenders.folder))


def test_many_classes_by_a_whole_run(tmp_path, monkeypatch):
    lenders = Lenders(tmp_path / "all", monkeypatch)
    label = {"column": "grade", "task": "multiclass", "classes": [0, 1, 2]}
    lenders.declare(lambda data: data.update(label=label))
    for name in lenders.names:
        table = lenders.folder / name / "tables" / "train.parquet"
        rows = pl.read_parquet(table)
        grade = (rows["default"] + (rows["late_payments"] > 1).cast(pl.Int64)).alias("grade")
        rows.drop("default").with_columns(grade).write_parquet(table)
    said = lenders.all()
    assert said[lenders.names[2], "evaluate_own"]["metrics"]["federated_local"]["auc"] > 0.75
    text = (lenders.home(lenders.names[2]) / "model.txt").read_text()
    assert text.count("Tree=") == 3 * 3
