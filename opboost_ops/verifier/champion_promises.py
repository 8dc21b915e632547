"""Promises that a label holder can check: its models follow from the rows that it opened."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
from pyarrow import parquet

from opboost_ops.verifier.outcomes import Check, NotCheckableError
from opboost_ops.verifier.party_promises import OwnRecords, flatten
from opboost_ops.verifier.places import sha256
from opboost_ops.verifier.plans import Plan
from opboost_ops.verifier.sealed_rows import derive_key, hash_people

#: Lines of a model that depend on the machine that trained it.
_MACHINE = re.compile(r"tree_sizes=|\[(num_threads|data|valid|output_model|input_model):")

#: LightGBM's text format: a tree, the keys of its splits, and the bits of a split's decision type.
_TREE_TEXT = re.compile(r"(?m)^Tree=\d+\n(?:.+\n)*")
_SPLIT_KEYS = ("decision_type", "split_feature", "threshold")
_CATEGORICAL, _LEFT, _MISSING, _NAN = 1, 2, 12, 8


class Version:
    """A version of the model in the label holder's registry, with the plan of its run."""

    def __init__(self, own: OwnRecords, plan: Plan) -> None:
        self.own, self.plan = own, plan
        self.folder = (own.party.path("models", "models") or Path()) / plan.run
        self.model = next(iter(self.folder.glob("model.json")), self.folder / "model.txt")

    @property
    def task(self) -> str:
        """The task: binary, multiclass or regression."""
        return str(self.plan.parties[self.plan.label_holder]["label"]["task"])

    def json(self, name: str) -> Any:
        """A JSON file of the version."""
        return json.loads((self.folder / f"{name}.json").read_bytes())

    def table(self, name: str) -> pa.Table:
        """A table in the party's private folder of the run."""
        return feather.read_table(self.own.home_file(self.plan, f"{name}.arrow"))

    @property
    def is_champion(self) -> bool:
        """True if the version is in use."""
        path = self.folder.parent / "champion.json"
        return path.is_file() and bool(json.loads(path.read_bytes())["version"] == self.folder.name)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The history of the registry, oldest event first."""
        path = self.folder.parent / "history.jsonl"
        lines = path.read_text().splitlines() if path.is_file() else []
        return [json.loads(line) for line in lines]

    @property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """The least and greatest input of each other party's column, by its name in the model."""
        return {
            f"{holder}.{column.name}": (column.inputs[0], column.inputs[-1])
            for holder in self.plan.feature_holders
            for column in self.plan.columns(holder)
        }

    @property
    def split_values(self) -> dict[str, dict[int, float]]:
        """The split values that other parties sent, by column and rank."""
        values: dict[str, dict[int, float]] = {}
        for holder in self.plan.feature_holders:
            answer = self.plan.artifacts[f"split_values/{holder}"]
            for name, splits in json.loads(self.own.open_file(answer, self.plan))["splits"].items():
                values[f"{holder}.{name}"] = {int(rank): value for rank, value in splits.items()}
        return values

    def require(self, *, repeatable: bool = False) -> None:
        """Raise NotCheckableError if such models cannot be read here, or not trained again."""
        training, trainer = self.plan.training, self.plan.training["trainer"]
        if trainer not in ("lightgbm", "xgboost", "federboost"):
            raise NotCheckableError(f"models of the trainer {trainer}")
        if training.get("denoise") not in (None, "none"):
            raise NotCheckableError("models with denoising")
        if repeatable and trainer == "federboost":
            raise NotCheckableError("models of horizontal learning, made of sums of all parties")
        if repeatable and trainer == "xgboost":
            raise NotCheckableError("models of XGBoost, whose sums depend on the number of threads")
        for key in ("tuning", "early_stopping") if repeatable else ():
            if training.get(key) is not None:
                raise NotCheckableError(f"models with training.{key}")


def check_versions(version: Version) -> Iterator[Check]:
    """Each version has the files that were registered, and its plan's agreement and declaration."""
    digests = {path.name: sha256(path.read_bytes()) for path in version.folder.iterdir()}
    listed, plan = version.json("sha256"), version.plan
    del digests["sha256.json"]
    for name in sorted(digests.keys() | listed.keys()):
        yield digests.get(name) == listed.get(name), f"{name} is not the registered file"
    agreement = {"digest": plan.document["agreement"], "protocol": plan.document["protocol"]}
    yield version.json("agreement") == agreement, "its agreement is not the plan's"
    # The version's file also contains entries at their default.
    declared = dict(flatten(version.json("federation")))
    is_planned = all(declared.get(path) == entry for path, entry in flatten(plan.federation))
    yield is_planned, "its declaration is not the plan's"


def check_champion(version: Version) -> Iterator[Check]:
    """The champion is the version that was put into use last."""
    used = [event["version"] for event in version.events if event["event"] != "kept"]
    is_last = used[-1:] == [version.folder.name]
    yield version.is_champion == is_last, "the history names another champion"
    folders = {path.name for path in version.folder.parent.iterdir() if path.is_dir()}
    yield set(used[-1:]) <= folders, "the champion is missing"
    if folders - {plan.artifact.run for plan in version.own.plans}:
        yield None, "versions of runs that were removed from the store"


def check_gate(version: Version) -> Iterator[Check]:
    """Each gate's decision follows from the recorded metrics by its rule."""
    plan, evaluation = version.plan, version.json("evaluation")
    gate, events = json.loads(version.own.home_file(plan, "gate.json").read_bytes()), version.events
    name, new, value, promoted = (gate[key] for key in ("metric", "new", "value", "promote"))
    earlier = list(takewhile(lambda event: event["version"] != version.folder.name, events))
    first = [event["event"] for event in events[len(earlier) :][:1]]
    yield (first == ["promoted"]) == promoted, "the history differs from the gate's decision"
    metrics = evaluation["metrics"][f"federated_{evaluation['mode']}"]
    yield new == metrics.get(name), "the gate's metric is not that of the evaluation"
    is_main = name == ("r2" if version.task == "regression" else "auc")
    is_private = plan.training.get("private") not in (None, "none")
    yield is_main or is_private, "the gate used a metric that is not the task's"
    tolerance = plan.training["tolerance"]
    yield gate["tolerance"] == tolerance, "the gate's tolerance is not the plan's"
    if "repeats" in gate:
        # A model equal to the champion's is never promoted.
        former = version.folder.parent / gate["repeats"] / version.model.name
        is_same = former.is_file() and former.read_bytes() == version.model.read_bytes()
        yield is_same and promoted is False, "its model is no repetition, or was promoted"
        return
    if "overtaken" in gate:
        # The champion that the gate compared it with was replaced before it was registered.
        in_use = {e["version"] for e in events if e["event"] != "kept"}
        is_overtaken = bool(in_use - {version.folder.name})
        yield is_overtaken and promoted is False, "no other version overtook it, or it was promoted"
        return
    is_alone = gate["version"] is None
    is_right = promoted is False or is_alone == ({e["event"] for e in earlier} <= {"kept"})
    yield is_right, "the gate compared it with the wrong model"
    gain = gate.get("gain")
    if gain is None:
        # There is no model to compare it with, or it is private, which has another rule.
        is_better = is_alone if value is None else new >= value - tolerance
        if name == "mse" and value is not None:
            is_better = new <= value or tolerance > 0
        yield promoted is False or (is_private and is_better), "a worse model was promoted"
        return
    is_gain = abs(new - value - gain["value"]) < 1e-9 and gain["low"] <= gain["value"]
    yield is_gain and gain["value"] <= gain["high"], "the gain is not the difference of the metrics"
    against = "alone" if is_alone else "reference"
    yield gate["against"] == against, "the gate compared it with the wrong model"
    other = "label_holder_alone" if is_alone else "reference"
    # A reference that cannot predict these rows has no gain in the evaluation.
    recorded = evaluation["gains"].get(other, {} if is_alone else {name: gain})[name]
    is_recorded = recorded == gain and (not is_alone or evaluation["metrics"][other][name] == value)
    yield is_recorded, "the gain is not that of the evaluation"
    passes = gain["high"] >= 0 if is_alone else gain["value"] >= -tolerance
    yield promoted == passes, "the rule gives the opposite decision"


def check_thresholds(version: Version) -> Iterator[Check]:
    """Each threshold on another party's column is a split value that the party sent."""
    version.require()
    values, ranges = version.split_values, version.ranges
    for name, threshold in _numeric_splits(version.model):
        if name in ranges:
            is_split_value = threshold in values.get(name, {}).values()
            yield is_split_value, f"a threshold on {name} is not a split value"


def _numeric_splits(model: Path) -> Iterator[tuple[str, float]]:
    """Column and threshold of each numeric split of a model."""
    if model.suffix == ".json":
        learner = json.loads(model.read_bytes())["learner"]
        for tree in learner["gradient_booster"]["model"]["trees"]:
            keys = ("left_children", "split_type", "split_indices", "split_conditions")
            for left, kind, feature, threshold in zip(*(tree[key] for key in keys), strict=True):
                if left >= 0 and not kind & _CATEGORICAL:
                    yield learner["feature_names"][feature], threshold
        return
    text = model.read_text()
    names = _line(text, "feature_names")
    for tree in map(_tree, _TREE_TEXT.findall(text)):
        for kind, feature, threshold in zip(*(tree[key] for key in _SPLIT_KEYS), strict=True):
            if not int(kind) & _CATEGORICAL:
                yield names[int(feature)], float(threshold)


def check_model(version: Version) -> Iterator[Check]:
    """Training again on the run's frame gives exactly the registered model."""
    version.require(repeatable=True)
    frame, library = version.table("frame"), version.json("card")["software"]["LightGBM"]
    import lightgbm

    if library != lightgbm.__version__:
        raise NotCheckableError(f"LightGBM {library}")
    text = _train_again(version, frame)
    is_same = text == version.own.home_file(version.plan, "partial_model.txt").read_text()
    yield is_same, "training again gives another model on ranks"
    materialised = _replace_ranks(text, version.split_values, version.ranges)
    yield materialised == version.model.read_text(), "its split values give another model"


def _train_again(version: Version, frame: pa.Table) -> str:
    """LightGBM's text of the model on ranks, in the label holder's form."""
    import lightgbm

    training, facts = version.plan.training, version.json("columns")
    names, ranked = facts["names"], version.ranges
    matrix = _matrix(frame, names)
    own = dict(training.get("parameters", {}))
    directions = own.pop("monotone_constraints", {})
    highest = np.fmax.reduce(matrix, axis=0, initial=0.0)
    own_bins = int(own.get("max_bin", 255))
    bins = [
        max(int(high) + 2, 3) if name in ranked else own_bins
        for name, high in zip(names, highest, strict=True)
    ]
    objective = training.get("objective") or version.task
    settings: dict[str, Any] = {
        "bin_construct_sample_cnt": frame.num_rows,
        **own,
        "objective": {"l2": "regression", "l1": "regression_l1"}.get(objective, objective),
        "learning_rate": training["learning_rate"],
        "max_depth": training["depth"],
        "num_leaves": own.get("num_leaves", 2 ** training["depth"]),
        "max_bin_by_feature": bins,
        "max_bin": own.get("max_bin", max(bins)),
    }
    settings |= {"min_data_in_bin": 1, "feature_pre_filter": False, "seed": 0, "verbosity": -1}
    settings |= {"deterministic": True, "force_col_wise": True}
    if version.task == "multiclass":
        settings["num_class"] = len(facts["classes"])
    if any(directions.values()):
        settings["monotone_constraints"] = [directions.get(name, 0) for name in names]
    data = lightgbm.Dataset(
        matrix,
        label=np.array(frame.column("label").to_numpy()),
        weight=frame.column("weight").to_numpy() if "weight" in frame.column_names else None,
        params=settings,
        feature_name=list(names),
        categorical_feature=[names.index(name) for name in names if name in facts["categories"]],
    )
    booster = lightgbm.train(
        settings, data, num_boost_round=training["trees"], keep_training_booster=True
    )
    lines = [line for line in booster.model_to_string().split("\n") if not _MACHINE.match(line)]
    return _edit_trees("\n".join(lines), _set_missing_direction)


def _set_missing_direction(tree: dict[str, list[str]]) -> None:
    """Let missing values, if no training row had any, follow the larger child."""
    for node, kind in enumerate(map(int, tree["decision_type"])):
        if not kind & (_CATEGORICAL | _MISSING):
            children = (int(tree[side][node]) for side in ("left_child", "right_child"))
            left, right = (
                int(tree["internal_count"][child] if child >= 0 else tree["leaf_count"][~child])
                for child in children
            )
            direction = _LEFT if left >= right else 0
            tree["decision_type"][node] = str(kind & ~_LEFT | _NAN | direction)


def _replace_ranks(
    text: str, values: Mapping[str, Mapping[int, float]], ranges: Mapping[str, tuple[int, int]]
) -> str:
    """Replace ranks in a model by split values."""
    names, infos = _line(text, "feature_names"), _line(text, "feature_infos")
    for name, (lower, upper) in ranges.items():
        infos[names.index(name)] = f"[{lower:.17g}:{upper:.17g}]"

    def materialise(tree: dict[str, list[str]]) -> None:
        splits = zip(*(tree[key] for key in _SPLIT_KEYS), strict=True)
        for node, (kind, feature, threshold) in enumerate(splits):
            name = names[int(feature)]
            if name in ranges and not int(kind) & _CATEGORICAL:
                rank = int(np.floor(float(threshold)))
                tree["threshold"][node] = repr(float(values[name][rank]))

    with_infos = re.sub(r"(?m)^feature_infos=.*$", "feature_infos=" + " ".join(infos), text)
    return _edit_trees(with_infos, materialise)


def _edit_trees(text: str, edit: Callable[[dict[str, list[str]]], None]) -> str:
    """Apply a function to each tree of a model's text."""

    def edit_text(match: re.Match[str]) -> str:
        tree = _tree(match[0])
        edit(tree)
        return "".join(f"{key}={' '.join(values)}\n" for key, values in tree.items())

    return _TREE_TEXT.sub(edit_text, text)


def _tree(text: str) -> dict[str, list[str]]:
    return {key: value.split() for key, _, value in (x.partition("=") for x in text.splitlines())}


def _line(text: str, key: str) -> list[str]:
    (line,) = re.findall(rf"(?m)^{key}=(.*)$", text)
    return str(line).split()


def check_card(version: Version) -> Iterator[Check]:
    """Each version's card states its evaluation, in the plan's mode, on all held-out rows."""
    evaluation, card, plan = version.json("evaluation"), version.json("card"), version.plan
    stated = (card["run"], card["metrics"], card["held_out_rows"])
    is_same = stated == (plan.artifact.run, evaluation["metrics"], evaluation["rows"])
    yield is_same, "its card differs from its evaluation"
    mode = "local" if plan.is_horizontal else plan.scoring_mode
    yield evaluation["mode"] == mode, "its scoring mode is not the plan's"
    held_out = version.table("holdout_frame").num_rows
    yield evaluation["rows"] == held_out, "its held-out rows are not those of the run"
    if not plan.is_horizontal:
        used = version.table("frame").num_rows + held_out
        is_whole = used == version.table("alignment").num_rows
        yield is_whole, "it does not use all rows that were opened"


def check_metrics(version: Version) -> Iterator[Check]:
    """The recorded metrics are those of the registered model on the held-out rows."""
    rows, evaluation = version.table("holdout_frame"), version.json("evaluation")
    version.require()
    mode = "local" if version.plan.is_horizontal else "desensitised"
    is_noisy = "private.metrics_epsilon" in dict(flatten(version.plan.training))
    if evaluation["mode"] != mode or version.task != "binary" or is_noisy:
        raise NotCheckableError("metrics with noise, of other modes, multiclass and regression")
    label = rows.column("label").to_numpy()
    scores = _scores(version.model, _matrix(rows, version.json("columns")["names"]))
    accuracy = float(np.mean((scores > 0.5) == (label == 1)))
    computed = {"accuracy": accuracy, "auc": _auc(scores, label)}
    for name, value in evaluation["metrics"][f"federated_{mode}"].items():
        is_same = abs(computed[name] - value) < 1e-9 if name in computed else None
        yield is_same, f"the model's {name}"
    if len(evaluation["metrics"]) > 1:
        yield None, "metrics of the label holder alone, and of other modes"


def _scores(model: Path, matrix: np.ndarray) -> np.ndarray:
    if model.suffix == ".json":
        import xgboost

        booster = xgboost.Booster(model_file=model)
        matrix = matrix.astype(np.float32)
        return np.asarray(booster.inplace_predict(matrix, validate_features=False))
    import lightgbm

    return np.asarray(lightgbm.Booster(model_str=model.read_text()).predict(matrix))


def check_forgotten(version: Version) -> Iterator[Check]:
    """The champion's frame has no row of a forgotten person."""
    own, plan = version.own, version.plan
    identity, federation = plan.federation["id"], plan.artifact.federation
    path = own.party.site.get("tables", {}).get(federation, {}).get("train")
    is_derived = identity.get("columns") or identity.get("normalise")
    if not isinstance(path, str) or plan.is_horizontal or is_derived:
        raise NotCheckableError("a Parquet table with IDs in a single, unchanged column")
    label, policy = plan.parties[own.party.name]["label"], own.party.policy
    id_column = policy.get("id_column") or identity["column"]
    label_column = policy.get("columns", {}).get(label["column"], label["column"])
    table = parquet.read_table(own.party.folder / path, columns=[id_column, label_column])
    ids = tuple(table.column(id_column).to_pylist())
    own_key = own.party.path("alignment_key", "keys/alignment.key")
    secret = own_key.read_bytes() if own_key and own_key.is_file() else own.secret
    digests = hash_people(derive_key(secret, f"alignment:{federation}"), ids)
    hashes = hash_people(derive_key(own.secret, "people"), ids)
    used = version.table("digests").column("digest").to_pylist()
    remaining = [row for row, person in enumerate(hashes) if person not in own.state.forgotten]
    forgotten = set(digests) - {digests[row] for row in remaining}
    yield forgotten.isdisjoint(used), "its table includes forgotten people"
    if sorted(digests[row] for row in remaining) != used:
        raise NotCheckableError("the table of the champion's run, without forgotten people")
    raw, classes = table.column(label_column).to_pylist(), label.get("classes")
    positions = version.table("alignment").column("position").to_pylist()
    labels = [raw[remaining[position]] for position in positions]
    coded = [classes.index(value) for value in labels if value in classes] if classes else labels
    parts = [version.table(part).column("label") for part in ("frame", "holdout_frame")]
    in_frames = [value for part in parts for value in part.to_pylist()]
    yield in_frames == coded, "its labels are not those of the remaining people"


def _matrix(table: pa.Table, names: Sequence[str]) -> np.ndarray:
    return np.column_stack([table.column(name).to_numpy().astype(np.float64) for name in names])


def _auc(scores: np.ndarray, label: np.ndarray) -> float:
    """The share of correctly ordered pairs of a positive and a negative row; a tie counts half."""
    order, counts = np.unique(scores, return_inverse=True, return_counts=True)[1:]
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[order]
    positive = int((label == 1).sum())
    negative = len(label) - positive
    total = float(ranks[label == 1].sum()) - positive * (positive + 1) / 2
    return total / (positive * negative) if positive and negative else float("nan")
