"""Promises of the label holder: its models follow from the rows that it opened."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
from pyarrow import parquet

from opboost_ops.verifier import sealed_rows
from opboost_ops.verifier.outcomes import Check, Outcome
from opboost_ops.verifier.party_promises import OwnSide
from opboost_ops.verifier.places import Run
from opboost_ops.verifier.plans import Plan

#: Lines of a model that tell of the machine that made it.
_LOCAL = re.compile(r"tree_sizes=|\[(num_threads|data|valid|output_model|input_model):")

#: Bits of a split's kind in LightGBM's text.
_CATEGORICAL, _LEFT, _MISSING, _NAN = 1, 2, 12, 8

_OBJECTIVES = {"binary": "binary", "multiclass": "multiclass", "regression": "regression"}


def check_champion(outcome: Outcome, own: OwnSide) -> None:
    """Check every version of the label holder whose run is still at home."""
    versions, model, thresholds, metrics, gate = [
        outcome.promise(check) for check in (_versions, _model, _thresholds, _metrics, _gate)
    ]
    models, home = own.party.path("models", "models"), own.party.path("home", "home")
    for run, plan in own.runs:
        if plan.purpose != "train" or models is None or home is None:
            continue
        version, home_folder = models / run.federation / run.run, home / run.federation / run.run
        if not (version / "sha256.json").is_file():
            continue
        versions.run(_versions(version), run.name)
        removed = not (home_folder / "gate.json").is_file()
        missing = "the home folders of runs that were removed" if removed else _not_checkable(plan)
        gate.run([(None, missing)] if removed else _gate(run, version, home_folder), run.name)
        unread = [(None, missing)]
        if not plan.is_horizontal:
            thresholds.run(unread if missing else _thresholds(own, run, plan, version), run.name)
        metrics.run(unread if missing else _metrics(version, home_folder), run.name)
        if own.state.forgotten and _is_champion(version):
            outcome.promise(_forgotten).run(_forgotten(own, run, plan, home_folder), run.name)
        if missing := missing or _not_trained_again(plan):
            model.run([(None, missing)])
        else:
            model.run(_model(own, run, plan, version, home_folder), run.name)


def _versions(version: Path) -> Iterator[Check]:
    """Each version's files are those that were registered."""
    for name, digest in _json(version / "sha256.json").items():
        content = (version / name).read_bytes()
        yield sealed_rows.sha256(content) == digest, f"another {name} than was registered"


def _not_checkable(plan: Plan) -> str:
    """Why a run's model is not read; empty if it is."""
    training = plan.federation.get("training", {})
    if training.get("trainer", "lightgbm") not in ("lightgbm", "xgboost", "federboost"):
        return f"models of the trainer {training['trainer']}"
    return "models with denoising" if training.get("denoise") not in (None, "none") else ""


def _not_trained_again(plan: Plan) -> str:
    """Why a run's model is not trained again; empty if it is."""
    training = plan.federation.get("training", {})
    if plan.is_horizontal:
        return "models of horizontal learning, which follow from sums over all parties"
    if training.get("trainer") == "xgboost":
        return "models of XGBoost, whose sums depend on the number of threads"
    searched = [key for key in ("tuning", "early_stopping") if training.get(key) is not None]
    return f"models with training.{searched[0]}" if searched else ""


def _gate(run: Run, version: Path, home_folder: Path) -> Iterator[Check]:
    """Each promotion follows from the recorded metrics by its rule."""
    gate, evaluation = _json(home_folder / "gate.json"), _json(version / "evaluation.json")
    lines = (version.parent / "history.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    promoted = any(e["version"] == run.run and e["event"] == "promoted" for e in events)
    yield promoted == gate["promote"], "not promoted as its gate decided"
    name, new = gate["metric"], gate["new"]
    metrics = evaluation["metrics"][f"federated_{evaluation['mode']}"]
    yield new == metrics.get(name), "the gate saw another metric"
    if "repeats" in gate:
        # The champion's own model replaces nothing, whatever its metrics.
        (model,) = (path for path in version.glob("model.*") if path.suffix in (".txt", ".json"))
        before = version.parent / gate["repeats"] / model.name
        same = before.is_file() and before.read_bytes() == model.read_bytes()
        yield same and gate["promote"] is False, "the repeated model is another one, or promoted"
        return
    if "overtaken" in gate:
        # What the rule compared it with was out of use when the run registered it.
        used = (e["version"] for e in events if e["event"] != "kept")
        yield any(name != run.run for name in used), "overtaken by no other version"
        yield gate["promote"] is False, "overtaken, and promoted"
        return
    gain = gate.get("gain")
    if gain is None:
        # Of private models, and where nothing can be compared.
        value = gate["value"]
        better = value is None or (new <= value if name == "mse" else new >= value)
        yield gate["promote"] is False or better or gate["tolerance"] > 0, "worse, and promoted"
        return
    exact = abs(new - gate["value"] - gain["value"]) < 1e-9
    yield exact and gain["low"] <= gain["value"] <= gain["high"], "not the metrics' difference"
    if gate["against"] == "alone":
        recorded = evaluation["gains"]["label_holder_alone"][name]
        yield gain == recorded, "another gain than the evaluation's"
        holds = gain["high"] >= 0
    else:
        holds = gain["value"] >= -gate["tolerance"]
    yield gate["promote"] == holds, "the rule decides otherwise"


def _split_values(own: OwnSide, run: Run, plan: Plan) -> dict[str, dict[int, float]]:
    """By full column name and rank, the split values that feature holders answered."""
    place = own.party.path("encryption_key", "keys/encryption.key")
    values: dict[str, dict[int, float]] = {}
    for holder in plan.feature_holders:
        artifact = run.artifacts[f"split_values/{holder}"]
        raw = artifact.content("document.json")
        if artifact.manifest["encrypted_to"] is not None and place is not None:
            key = sealed_rows.read_private_key(place)
            raw = sealed_rows.opened(raw, key, artifact.digest, "document.json")
        for name, splits in json.loads(raw)["splits"].items():
            values[f"{holder}.{name}"] = {int(rank): value for rank, value in splits.items()}
    return values


def _thresholds(own: OwnSide, run: Run, plan: Plan, version: Path) -> Iterator[Check]:
    """Each threshold on another party's column is a split value it answered."""
    values = _split_values(own, run, plan)
    ranked = set(_json(version / "columns.json")["ranked"])
    for name, threshold in _numeric_splits(version):
        if name in ranked:
            is_answered = threshold in values.get(name, {}).values()
            yield is_answered, f"a threshold on {name} was not answered"


def _numeric_splits(version: Path) -> Iterator[tuple[str, float]]:
    """Column and threshold of each split of a model that is not on categories."""
    if (version / "model.json").is_file():
        learner = _json(version / "model.json")["learner"]
        for tree in learner["gradient_booster"]["model"]["trees"]:
            keys = ("left_children", "split_type", "split_indices", "split_conditions")
            for left, kind, feature, threshold in zip(*(tree[key] for key in keys), strict=True):
                if left >= 0 and not kind & _CATEGORICAL:
                    yield learner["feature_names"][feature], threshold
        return
    lines = (version / "model.txt").read_text().split("\n")
    names = _names(lines)
    for tree in _trees(lines, ("split_feature", "threshold", "decision_type")):
        for feature, threshold, kind in zip(*(line.split() for _, line in tree), strict=True):
            if not int(kind) & _CATEGORICAL:
                yield names[int(feature)], float(threshold)


def _model(own: OwnSide, run: Run, plan: Plan, version: Path, home_folder: Path) -> Iterator[Check]:
    """Trained again on the kept frame, the recorded library gives the registered model, exactly."""
    import lightgbm

    made_by = _json(version / "card.json")["software"].get("LightGBM")
    if made_by != lightgbm.__version__:
        yield None, f"LightGBM {made_by}"
        return
    facts = _json(version / "columns.json")
    text = _trained(plan, feather.read_table(home_folder / "frame.arrow"), facts)
    same = text == (home_folder / "partial_model.txt").read_text()
    yield same, "another model on ranks follows from the frame"
    ranges = {
        f"{holder}.{column.name}": (column.inputs[0], column.inputs[-1])
        for holder in plan.feature_holders
        for column in plan.columns(holder)
    }
    materialised = _with_values(text.split("\n"), _split_values(own, run, plan), ranges)
    yield materialised == (version / "model.txt").read_text(), "another model was registered"


def _trained(plan: Plan, frame: pa.Table, facts: Mapping[str, Any]) -> str:
    """LightGBM's text of the model on ranks, as the label holder keeps it."""
    import lightgbm

    training, names, rows = plan.federation["training"], facts["names"], frame.num_rows
    matrix = _matrix(frame, names)
    own = {k: v for k, v in training.get("parameters", {}).items() if k != "monotone_constraints"}
    directions = training.get("parameters", {}).get("monotone_constraints", {})
    highest = np.fmax.reduce(matrix, axis=0, initial=0.0)
    own_bins = int(own.get("max_bin", 255))
    bins = [
        max(int(high) + 2, 3) if name in facts["ranked"] else own_bins
        for name, high in zip(names, highest, strict=True)
    ]
    objective = training.get("objective") or _OBJECTIVES[facts["task"]]
    settings: dict[str, Any] = {
        "bin_construct_sample_cnt": rows,
        **own,
        "objective": {"l2": "regression", "l1": "regression_l1"}.get(objective, objective),
        "learning_rate": training["learning_rate"],
        "max_depth": training["depth"],
        "num_leaves": own.get("num_leaves", 2 ** training["depth"]),
        "max_bin_by_feature": bins,
        "max_bin": own.get("max_bin", max(bins)),
        "min_data_in_bin": 1,
        "feature_pre_filter": False,
        "deterministic": True,
        "force_col_wise": True,
        "seed": 0,
        "verbosity": -1,
    }
    if facts["task"] == "multiclass":
        settings["num_class"] = len(facts["classes"])
    if any(directions.values()):
        settings["monotone_constraints"] = [directions.get(name, 0) for name in names]
    weight = frame.column("weight").to_numpy() if "weight" in frame.column_names else None
    data = lightgbm.Dataset(
        matrix,
        label=np.array(frame.column("label").to_numpy()),
        weight=weight,
        params=settings,
        feature_name=list(names),
        categorical_feature=[names.index(name) for name in names if name in facts["categories"]],
    )
    booster = lightgbm.train(
        settings, data, num_boost_round=training["trees"], keep_training_booster=True
    )
    lines = [line for line in booster.model_to_string().split("\n") if not _LOCAL.match(line)]
    return "\n".join(_with_missing(lines))


def _with_missing(lines: list[str]) -> list[str]:
    """Send missing values that no training row had where most training rows go."""
    keys = ("decision_type", "left_child", "right_child", "leaf_count", "internal_count")
    for tree in _trees(lines, keys):
        kinds, left, right, leaves, inner = (line.split() for _, line in tree)
        for node, kind in enumerate(map(int, kinds)):
            if not kind & (_CATEGORICAL | _MISSING):
                counts = [
                    int(inner[child] if child >= 0 else leaves[~child])
                    for child in (int(left[node]), int(right[node]))
                ]
                direction = _LEFT if counts[0] >= counts[1] else 0
                kinds[node] = str(kind & ~_LEFT | _NAN | direction)
        lines[tree[0][0]] = "decision_type=" + " ".join(kinds)
    return lines


def _with_values(
    lines: list[str],
    values: Mapping[str, Mapping[int, float]],
    ranges: Mapping[str, tuple[int, int]],
) -> str:
    """The model with split values in the place of ranks."""
    names = _names(lines)
    for tree in _trees(lines, ("split_feature", "threshold", "decision_type")):
        features, thresholds, kinds = (line.split() for _, line in tree)
        for node, (feature, kind) in enumerate(zip(features, kinds, strict=True)):
            name = names[int(feature)]
            if name in ranges and not int(kind) & _CATEGORICAL:
                rank = int(np.floor(float(thresholds[node])))
                thresholds[node] = repr(float(values[name][rank]))
        lines[tree[1][0]] = "threshold=" + " ".join(thresholds)
    at = next(i for i, line in enumerate(lines) if line.startswith("feature_infos="))
    infos = lines[at].removeprefix("feature_infos=").split(" ")
    for name, (lower, upper) in ranges.items():
        infos[names.index(name)] = f"[{lower:.17g}:{upper:.17g}]"
    lines[at] = "feature_infos=" + " ".join(infos)
    return "\n".join(lines)


def _metrics(version: Path, home_folder: Path) -> Iterator[Check]:
    """The recorded metrics are those of the registered model on held-out rows."""
    evaluation, facts = _json(version / "evaluation.json"), _json(version / "columns.json")
    mode = evaluation["mode"]
    if mode not in ("desensitised", "local") or facts["task"] != "binary":
        yield None, "metrics of routed scoring, of several classes and of numbers"
        return
    rows = feather.read_table(home_folder / "holdout_frame.arrow")
    label = rows.column("label").to_numpy()
    scores = _scores(version, _matrix(rows, facts["names"]))
    yield evaluation["rows"] == len(label), "other held-out rows"
    computed = {
        "accuracy": float(np.mean((scores > 0.5) == (label == 1))),
        "auc": _auc(scores, label),
    }
    for name, value in evaluation["metrics"][f"federated_{mode}"].items():
        if name in computed:
            yield abs(computed[name] - value) < 1e-9, f"another {name}"


def _scores(version: Path, matrix: np.ndarray) -> np.ndarray:
    if (version / "model.json").is_file():
        import xgboost

        model = xgboost.Booster(model_file=version / "model.json")
        return np.asarray(model.inplace_predict(matrix.astype(np.float32), validate_features=False))
    import lightgbm

    booster = lightgbm.Booster(model_str=(version / "model.txt").read_text())
    return np.asarray(booster.predict(matrix))


def _is_champion(version: Path) -> bool:
    path = version.parent / "champion.json"
    return path.is_file() and bool(_json(path)["version"] == version.name)


def _forgotten(own: OwnSide, run: Run, plan: Plan, home_folder: Path) -> Iterator[Check]:
    """Nobody on the list of the forgotten is in the frame of the champion."""
    party, identity, name = own.party, plan.federation["id"], run.federation
    secret, path = party.path("secret", "keys/noise.secret"), party.table(name)
    is_made = identity.get("columns") or identity.get("normalise")
    if path is None or secret is None or plan.is_horizontal or is_made:
        yield None, "a Parquet table with IDs as they are, and keys in files"
        return
    label = plan.parties[party.name]["label"]
    columns = [
        party.raw_column(each, identity["column"]) for each in (identity["column"], label["column"])
    ]
    table = parquet.read_table(path, columns=columns)
    ids = table.column(columns[0]).to_pylist()
    people = sealed_rows.keyed_by(secret.read_bytes(), "people")
    gone = [
        person in own.state.forgotten for person in sealed_rows.person_hashes(people, tuple(ids))
    ]
    own_key = party.path("alignment_key", "keys/alignment.key")
    alignment = (own_key if own_key and own_key.is_file() else secret).read_bytes()
    digests = sealed_rows.person_hashes(
        sealed_rows.keyed_by(alignment, f"alignment:{name}"), tuple(ids)
    )
    used = feather.read_table(home_folder / "digests.arrow").column("digest").to_pylist()
    forgotten = {digest for digest, is_gone in zip(digests, gone, strict=True) if is_gone}
    yield forgotten.isdisjoint(used), "its table has people who were forgotten"
    remaining = [row for row, is_gone in enumerate(gone) if not is_gone]
    if sorted(digests[row] for row in remaining) != used:
        yield None, "the table as the champion's run had it, without people forgotten since"
        return
    positions = feather.read_table(home_folder / "alignment.arrow").column("position").to_pylist()
    raw = table.column(columns[1]).to_pylist()
    labels = [raw[remaining[position]] for position in positions]
    classes = label.get("classes")
    stated = [
        value
        for part in ("frame", "holdout_frame")
        for value in feather.read_table(home_folder / f"{part}.arrow").column("label").to_pylist()
    ]
    coded = [classes.index(value) for value in labels if value in classes] if classes else labels
    yield stated == coded, "its rows are not those of its people"


def _matrix(table: pa.Table, names: Sequence[str]) -> np.ndarray:
    return np.column_stack([table.column(name).to_numpy().astype(np.float64) for name in names])


def _auc(scores: np.ndarray, label: np.ndarray) -> float:
    """The share of pairs of a positive and a negative row in the right order; ties count half."""
    order, counts = np.unique(scores, return_inverse=True, return_counts=True)[1:]
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[order]
    positive = int((label == 1).sum())
    negative = len(label) - positive
    total = float(ranks[label == 1].sum()) - positive * (positive + 1) / 2
    return total / (positive * negative) if positive and negative else float("nan")


def _trees(lines: Sequence[str], keys: Sequence[str]) -> list[list[tuple[int, str]]]:
    """By tree, the places of its lines with some keys, and their values."""
    places = [
        (at, line.partition("=")[2])
        for at, line in enumerate(lines)
        if line.partition("=")[0] in keys
    ]
    return [places[at : at + len(keys)] for at in range(0, len(places), len(keys))]


def _names(lines: Sequence[str]) -> list[str]:
    line = next(line for line in lines if line.startswith("feature_names="))
    return line.removeprefix("feature_names=").split()


def _json(path: Path) -> Any:
    return json.loads(path.read_bytes())
