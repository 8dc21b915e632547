"""Every file of a private version, and each number in it: charged, declared, or a public count."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opboost_ops import api
from opboost_ops.config.loading import load_federation, parse_federation
from opboost_ops.extras.export.export import export_model
from opboost_ops.learning.private.metrics import noisy_metric
from opboost_ops.learning.registry.card import Card
from opboost_ops.pipeline.stage import Home
from opboost_ops.reports.version_page import card_page
from tests.federation import FIRST_RUN, Workspace
from tests.integration.extras.export.test_onnx import run
from tests.integration.learning.registry.test_model_api import joined
from tests.integration.pipeline.steps.test_dpboost_runs import declare, ledger
from tests.integration.pipeline.steps.test_noisy_metrics import noisy

#: Entries of a version's JSON files by what they depend on. ``*`` is any name or place in a list.
#: A new entry belongs here, and what it may depend on is to be decided.
ENTRIES = {
    "evaluation.json": {
        "public count": {"rows"},
        "declared": {"mode"},
        "charged: metrics": {"metrics.federated_desensitised.accuracy"},
    },
    "columns.json": {
        "declared": {
            "names.*",
            "ranked.*",
            "categories.*.*",
            "classes.*",
            "task",
            "thresholds.*.*",
        },
    },
    "agreement.json": {
        "declared": {"digest", "protocol"},
    },
    "card.json": {
        "declared": {
            "version",
            "federation",
            "run",
            "task",
            "label",
            "classes.*",
            "domain.*",
            "training.*",
            "training.*.*",
            "private.*",
            "modes.*.*",
            "centralised",
            "parties.*.name",
            "parties.*.role",
            "parties.*.features",
            "features.*.party",
            "features.*.name",
            "features.*.type",
            "features.*.domain",
            "features.*.domain.*",
            "features.*.mechanism",
            "features.*.loss",
            "features.*.loss.*",
            "features.*.loss.*.*",
            "importance_rows",
            "disclosed.*",
            "limits.*",
            "experiment",
            "software.*",
        },
        "public count": {"training_rows", "held_out_rows"},
        "charged: metrics": {"metrics.federated_desensitised.accuracy"},
        "charged: model": {"parties.*.splits", "features.*.splits"},
    },
}

#: Lines of the model file, by what they depend on.
MODEL = {
    "declared": {
        "version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx",
        "objective", "feature_names", "feature_infos", "Tree", "num_leaves", "left_child",
        "right_child", "is_linear", "shrinkage", "pandas_categorical",
    },
    "charged: model": {
        "num_cat", "split_feature", "threshold", "decision_type", "leaf_value", "cat_boundaries",
        "cat_threshold",
    },
    "constant": {
        "split_gain", "leaf_weight", "leaf_count", "internal_value", "internal_weight",
        "internal_count",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def made(written_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    folder = tmp_path_factory.mktemp("private") / "federation"
    workspace = declare(written_once.copy(folder, FIRST_RUN), noisy)
    workspace.all()
    return workspace


def entries(value: Any, at: str = "") -> Iterator[str]:
    """Paths of everything that is no folder of others."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from entries(inner, f"{at}.{name}" if at else name)
    elif isinstance(value, list):
        for inner in value:
            yield from entries(inner, f"{at}.*")
    else:
        yield at


def fits(path: str, pattern: str) -> bool:
    # Names of columns have dots of their own.
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".+"), path) is not None


def test_each_number_is_charged_declared_or_a_public_count(made: Workspace) -> None:
    files = made.files("credit", "models", "credit_scoring", made.run)
    assert set(files) == {
        *ENTRIES, "card.html", "federation.json", "model.txt", "sha256.json",
    }  # fmt: skip
    for name, known in ENTRIES.items():
        for path in entries(json.loads(files[name])):
            assert any(fits(path, of) for of in set().union(*known.values())), f"{name}: {path}"

    # What is called declared is so: the federation file, and the columns that follow from it.
    federation = load_federation(made.file)
    assert parse_federation(json.loads(files["federation.json"]), "") == federation
    columns = json.loads(files["columns.json"])
    for full, known in columns["categories"].items():
        party, _, feature = full.partition(".")
        assert known == list(federation.parties[party].features[feature].categories or ())
    common = federation.domain.to_domain()
    for line in json.loads(files["card.json"])["features"]:
        declared = federation.parties[line["party"]].features.get(line["name"])
        own = None if declared is None else declared.domain_in(common)
        assert line["domain"] is None or line["domain"] == [own.lower, own.upper]

    # What is charged is what was drawn, and the ledger has it.
    drawn = json.loads((made.home("credit") / "drawn_metrics.jsonl").read_bytes())
    evaluation = json.loads(files["evaluation.json"])
    label = federation.parties["credit"].label
    assert label is not None
    (total,) = drawn["sums"]
    found = noisy_metric(label.task, total, evaluation["rows"], (0.0, 1.0))
    assert evaluation["metrics"] == {"federated_desensitised": found}
    charged = [(r.kind, r.epsilon) for r in ledger(made, "credit") if r.account == "model"]
    assert charged == [("model", 3.0), ("metrics", 0.5)]

    # The page shows the card, and the decision by the noisy metric; it knows nothing else.
    card = Card.model_validate_json(files["card.json"])
    gate = made.home_json("credit", "gate")
    known = {"metric", "tolerance", "new", "version", "value", "detectable", "promote", "why"}
    assert set(gate) == known
    assert gate["new"] == found["accuracy"]
    assert files["card.html"].decode() == card_page(card, evaluation, None, gate["why"])
    assert "<figcaption>" not in files["card.html"].decode()


def test_each_line_of_the_model_is_drawn_declared_or_constant(made: Workspace) -> None:
    text = made.files("credit", "models", "credit_scoring", made.run)["model.txt"].decode()
    body, _, end = text.partition("end of trees")
    lines = [line.partition("=")[::2] for line in body.splitlines() if "=" in line]
    assert {name for name, _ in lines} == set.union(*MODEL.values()) - {"pandas_categorical"} - (
        set() if "cat_threshold" in body else {"cat_boundaries", "cat_threshold"}
    )
    for name, values in lines:
        if name in ("split_gain", "internal_value"):
            assert set(values.split()) == {"0"}
        if name in ("leaf_weight", "leaf_count"):
            assert set(values.split()) == {"1"}
        if name in ("internal_weight", "internal_count"):
            # A complete tree of depth 3: eight leaves below its root.
            assert values.split() == ["8", "4", "4", "2", "2", "2", "2"]
    training = load_federation(made.file).training
    assert re.findall(r"\[(num_iterations|max_depth): (\d+)\]", end) == [
        ("num_iterations", str(training.trees)),
        ("max_depth", str(training.depth)),
    ]


def test_it_is_exported_with_its_mapping(made: Workspace) -> None:
    models, frame = api.models(made.file), joined(made)
    found = run(export_model(models.files(made.run), "onnx"), frame)
    expected = models.model(made.run).predict_proba(frame)[:, 1]
    np.testing.assert_allclose(found["score"], expected, rtol=0, atol=1e-6)


def test_a_threshold_by_cost_needs_no_rows(made: Workspace, tmp_path: Path) -> None:
    copy = made.copy(tmp_path / "federation", made.run)

    def change(data: Any) -> None:
        data.setdefault("scoring", {})["cost_ratio"] = 5

    copy.edit_yaml("federation.yaml", change)
    scored = copy.scoring()
    scored.all()
    table = Home(scored.home("credit")).table("scores")
    flagged = table.column("score").to_numpy() > 1 / 6
    assert (flagged == (table.column("class").to_numpy() == 1)).all()
