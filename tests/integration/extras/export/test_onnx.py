"""The ONNX form: onnxruntime scores raw rows as the registered version does."""

import json
import math
import sys
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator, default_rng

from opboost_ops import api
from opboost_ops.api.model import Model
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.extras.export.export import export_model
from opboost_ops.learning.boosters.trainer import Frame, Parameters, predict, train
from opboost_ops.learning.registry.importance import RawColumn, raw_columns
from opboost_ops.learning.registry.registry import federation_in
from opboost_ops.pipeline.evaluation.held_out import scoring_of
from opboost_ops.pipeline.evaluation.scores import score_columns
from tests.federation import Workspace
from tests.integration.learning.registry.test_model_api import joined

WORDS = ("red", "green", "blue", "a b")


def run(content: bytes, frame: pl.DataFrame) -> dict[str, np.ndarray]:
    """The outputs by name; a missing text is empty, a missing number NaN."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    feed: dict[str, np.ndarray] = {}
    for put in session.get_inputs():
        raw = frame.get_column(put.name)
        if put.type == "tensor(string)":
            feed[put.name] = raw.cast(pl.String).fill_null("").to_numpy().astype(object)
        else:
            feed[put.name] = raw.cast(pl.Float64).fill_null(math.nan).to_numpy()
    names = [put.name for put in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def declared(rng: Generator, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """A version's files with a feature of every kind, bounds and rules being random."""
    told, facts = (json.loads(files[name]) for name in ("federation.json", "columns.json"))
    lower = int(rng.integers(-5, 5))
    told["domain"] = {"lower": lower, "upper": lower + int(rng.integers(4, 40))}
    low = float(rng.normal() * 10)
    high = low + float(rng.exponential() * 100) + 1
    rules = {"mapping": {"crimson": "red"}, "rest": "blue"} if rng.random() < 0.5 else {}
    words = {"categories": WORDS, **rules}
    bit = 1.0
    own: dict[str, Any] = {
        "plain": {"missing": "keep" if rng.random() < 0.5 else "forbid"},
        "when": {"unit": "seconds", "missing": {"fill": 1.7e9}},
        "order": {"type": "ordinal", **words, "missing": "keep"},
        "free": {"type": "nominal", "missing": "keep"},
        "filled": {"type": "nominal", "missing": {"fill": "green"}},
        "named": {"type": "nominal", **words, "missing": "keep"},
    }
    edges = sorted({float(edge) for edge in rng.uniform(low, high, 3)})
    others: dict[str, Any] = {
        "linear": {"bounds": [low, high]},
        "log": {"bounds": [low, high], "scale": "log1p", "missing": {"fill": low, "bit": bit}},
        "cells": {"bounds": [low, high], "scale": {"edges": edges}, "missing": {"fill": high}},
        "grade": {"type": "ordinal", **words},
        "kind": {"type": "nominal", **words},
        "shade": {"type": "nominal", "categories": WORDS, "missing": {"fill": "red", "bit": bit}},
    }
    for number, (name, feature) in enumerate((*own.items(), *others.items())):
        feature["uuid"] = str(uuid.UUID(int=number))
        if name in others:
            unary = feature.get("type") == "nominal"
            feature["mechanism"] = {"name": "unary" if unary else "global_map", "epsilon": 1.0}
    told["parties"]["credit"]["features"] = own
    told["parties"]["bank"]["features"] = others
    del told["parties"]["shop"]
    told["scoring"]["cost_ratio"] = 4.0 if rng.random() < 0.5 else None
    facts["task"] = str(rng.choice(["binary", "multiclass", "regression"]))
    classes = {"binary": ["no", "yes"], "multiclass": [3, 1, 2], "regression": []}
    facts["classes"] = classes[facts["task"]]
    facts["categories"] = {
        f"credit.{name}": ["blue", "green", "red"] for name in ("free", "filled", "named")
    }
    bits = [f"bank.{name}={word}" for name in ("kind", "shade") for word in WORDS]
    rest = [*others, "log=missing", "shade=missing"]
    plain = [f"bank.{name}" for name in rest if name not in ("kind", "shade")]
    facts["names"] = [f"credit.{name}" for name in own] + plain
    facts["names"] += [name.replace(" ", "%20") for name in bits]
    new = {"federation.json": told, "columns.json": facts}
    return {**files, **{name: json.dumps(of).encode() for name, of in new.items()}}


def cells(rng: Generator, column: RawColumn, rows: int, known: Mapping[str, Any]) -> list[Any]:
    """Raw cells that are not refused: of a number also all ends of its domain's integers."""
    feature = column.declared
    if feature.type == "numeric":
        low, high = feature.bounds or (-3.0, 3.0)
        width = high - low
        ends = known.get(column.source, [low, high, 0.0])
        near = [np.nextafter(e, e + step) for e in ends for step in (-1, 0, 1)]
        found = [*rng.choice(near, rows // 2), *rng.uniform(low - width, high + width, rows)]
        if feature.unit:
            found = [1.7e9 + round(value * 100) for value in found]
    else:
        texts = ["red", "green", "blue"] if not feature.categories else list(WORDS)
        texts += ["new", "newer"] if column.made == "code" and not feature.categories else []
        texts += [*feature.mapping, *(["other"] if feature.rest else [])]
        found = list(rng.choice(texts, rows + rows // 2))
    if feature.missing != "forbid":
        found[:: 7 + len(column.name)] = [None] * len(found[:: 7 + len(column.name)])
    return [found[i] for i in rng.permutation(rows)]


def trained(rng: Generator, files: Mapping[str, bytes]) -> tuple[dict[str, bytes], pl.DataFrame]:
    """A version whose trees split on every column, and raw rows."""
    made, rows = declared(rng, files), 400
    federation, facts = federation_in(made), json.loads(made["columns.json"])
    columns = {column.source: column for column in raw_columns(federation, facts)}
    ends = {
        name: list(column.mapping.boundaries())
        for name, column in columns.items()
        if column.mapping and column.declared.type == "numeric"
    }
    sources = {name: cells(rng, column, rows, ends) for name, column in columns.items()}
    frame = pl.DataFrame({name: pl.Series(of, strict=False) for name, of in sources.items()})
    matrix = Model({**made, "model.txt": b"tree"}, "v").matrix(frame)
    label = rng.permutation(rows) % max(len(facts["classes"]), 2) * 1.0
    coded = tuple(name for name in facts["names"] if name in facts["categories"])
    own = {"min_data_in_leaf": 1, "feature_fraction": 0.4, "cat_smooth": 0, "cat_l2": 0}
    names = ["", "l1", "huber", "quantile", "poisson", "tweedie"]
    goal = str(rng.choice(names)) if facts["task"] == "regression" else ""
    size = (len(facts["classes"]), 25, 0.3, 5, 0, 1)
    how = Parameters(facts["task"], *size, objective=goal, own=own)
    text = train(Frame(tuple(facts["names"]), matrix, coded, ()), label, how)
    # As DPBoost writes it.
    text = text.replace("binary sigmoid:1", f"binary sigmoid:{rng.integers(1, 3)}")
    return {**made, "model.txt": text.encode()}, frame


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_random_models_score_random_raw_rows_as_the_registry(
    trained_once: Workspace, seed: int
) -> None:
    rng = default_rng(seed)
    known = trained_once.files("credit", "models", "credit_scoring", trained_once.run)
    files, frame = trained(rng, known)
    content, model = export_model(files, "onnx"), Model(files, "v")
    found = run(content, frame)
    if not model.classes:
        np.testing.assert_allclose(found["score"], model.predict(frame), rtol=0, atol=1e-6)
        return
    expected = model.predict_proba(frame)
    for place, name in enumerate(model.classes):
        given = found[f"probability_{name}"]
        np.testing.assert_allclose(given, expected[:, place], rtol=0, atol=1e-6)
    ratio = federation_in(files).scoring.cost_ratio
    bar = 0.5 if ratio is None else 1 / (1 + ratio)
    if len(model.classes) == 2:
        clear, chosen = np.abs(expected[:, 1] - bar) > 1e-9, (expected[:, 1] > bar) * 1
    else:
        ordered = np.sort(expected, axis=1)
        clear, chosen = ordered[:, -1] - ordered[:, -2] > 1e-9, expected.argmax(axis=1)
    assert found["class"][clear].tolist() == np.array(model.classes)[chosen][clear].tolist()
    assert content == export_model(files, "onnx")


def test_a_row_that_would_be_refused_has_no_score(trained_once: Workspace) -> None:
    """As `Model` refuses it, or the label holder's own checks of new rows do."""
    known = trained_once.files("credit", "models", "credit_scoring", trained_once.run)
    files, frame = trained(default_rng(5), known)
    content, model = export_model(files, "onnx"), Model(files, "v")
    faults = {
        "bank.linear": [None, math.inf],
        "bank.log": [-math.inf],
        "bank.grade": [None, "unknown"],
        "bank.shade": ["unknown"],
        "credit.order": ["unknown"],
    }
    federation = federation_in(files)
    if "rest" in federation.parties["bank"].features["grade"].model_dump(exclude_none=True):
        faults["bank.grade"] = [None]
        faults.pop("credit.order")
    good = frame.filter(pl.all_horizontal(pl.exclude("none").is_not_null())).head(1)
    assert np.isfinite(run(content, good)["score"]).all()
    for name, values in faults.items():
        for value in values:
            row = good.with_columns(pl.Series(name, [value], good.schema[name]))
            with pytest.raises(ContractError):
                model.matrix(row)
            found = run(content, row)
            assert np.isnan(found["score"]).all(), (name, value)
            assert found["class"].tolist() == [""]
    # Beside a row that is refused, others have the scores that they have alone.
    both = pl.concat([good, good.with_columns(pl.lit(math.inf).alias("bank.linear"))])
    scores = run(content, both)["score"]
    assert np.isnan(scores[1]) and scores[0] == run(content, good)["score"][0]


def test_with_overlap_left_a_party_may_lack_a_person(trained_once: Workspace) -> None:
    known = trained_once.files("credit", "models", "credit_scoring", trained_once.run)
    files, frame = trained(default_rng(1), known)
    matrix = Model(files, "v").matrix(frame)
    theirs = [name for name in frame.columns if name.startswith("bank.")]
    lacking = frame.with_columns(pl.lit(None, frame.schema[name]).alias(name) for name in theirs)
    assert np.isnan(run(export_model(files, "onnx"), lacking)["score"]).all()
    told, facts = (json.loads(files[name]) for name in ("federation.json", "columns.json"))
    told["alignment"] = {"overlap": "left"}
    left = {**files, "federation.json": json.dumps(told).encode()}
    matrix[:, [name.startswith("bank.") for name in facts["names"]]] = math.nan
    np.testing.assert_array_equal(Model(left, "v").matrix(lacking), matrix)
    # Of somebody whom the party has, a value is needed as in a table.
    gap = frame.with_columns(pl.lit(None, pl.Float64).alias("bank.linear"))
    assert np.isnan(run(export_model(left, "onnx"), gap)["score"]).all()
    with pytest.raises(ContractError, match="missing or infinite"):
        Model(left, "v").matrix(gap)
    found = run(export_model(left, "onnx"), lacking)
    given = [found[f"probability_{name}"] for name in facts["classes"]] or [found["score"]]
    expected = predict(files["model.txt"].decode(), matrix)
    if facts["task"] == "binary":
        expected = np.column_stack([1 - expected, expected])
    expected = expected.reshape(len(matrix), -1)
    np.testing.assert_allclose(np.column_stack(given), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("calibration", [None, "platt", "isotonic"])
def test_the_class_is_that_of_a_file_of_scores_in_mode_local(
    trained_once: Workspace, calibration: Any
) -> None:
    models = api.models(trained_once.folder)
    files, frame = dict(models.files()), joined(trained_once)
    scores = models.model().predict_proba(frame)[:, 1]
    truth = (default_rng(2).random(len(scores)) < scores).astype(np.float64)
    told = json.loads(files["federation.json"])
    told["scoring"] = {"mode": "local", "cost_ratio": 2.0, "calibration": calibration}
    files["federation.json"] = json.dumps(told).encode()
    scoring = federation_in(files).scoring
    fitted = scoring_of(scoring, "binary", truth, {"local": scores})
    files["scoring.json"] = json.dumps(fitted).encode()
    facts = json.loads(files["columns.json"])
    expected = score_columns(facts, fitted["local"], scoring, scores)["class"].to_pylist()
    assert 0 < expected.count(facts["classes"][1]) < len(expected)
    assert expected != models.model().predict(frame).tolist()
    assert run(export_model(files, "onnx"), frame)["class"].tolist() == expected


def test_without_the_extra_it_is_one_error(
    trained_once: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    files = api.models(trained_once.folder).files()
    with pytest.raises(ConfigError) as refused:
        export_model(files, "onnx")
    assert "opboost-ops[onnx]" in refused.value.remedy
