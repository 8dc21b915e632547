"""Keys of older releases that no file has any more, and what to write instead."""

from collections.abc import Iterator, Mapping
from typing import Any

from opboost_ops.errors import Fault

#: By file and path; ``*`` is any name. The words complete "was removed".
REMOVED: Mapping[str, Mapping[str, str]] = {
    "Federation": {
        "training.redraw": "declare denoise: joint, which replaces it",
        "training.gate": "take it out: the interval rule, or of a private model the noisy metrics, "
        "decide",
        "training.method": "take it out: XGBoost has a bin for each rank, as hist had",
        "training.early_stopping.share": "take it out: it is a tenth of the training rows",
        "training.private.columns": "take it out: splits are drawn at random among all columns",
        "training.tuning.folds": "take it out: there are three",
        "training.tuning.minutes": "declare trials alone",
        "training.tuning.metric": "take it out: auc, r2 or the objective's own loss decides",
        "training.private.trees_per_ensemble": "take it out: it is 50",
        "training.private.regularisation": "take it out: it is 0.1",
        "training.private.remain": "take it out: all parties stay, and a session goes on when the "
        "tasks of a missing one are cleared",
        "training.private.patience_minutes": "declare training.wait_minutes",
        "parties.*.pilot": "take it out: `opboost plan --sample` chooses columns by public rows",
        "parties.*.shards": "take it out: one task reads the files of a table",
        "parties.*.features.*.mechanism.sampler": "take it out: both samplers were one law",
    },
    "Policy": {
        "checks.max_attack_gain": "take it out: `opboost leakage --gate` attacks a release at "
        "home, before it is made",
    },
}

#: The same of values that a key no longer takes.
REMOVED_VALUES: Mapping[str, Mapping[str, str]] = {
    "training.denoise": {
        "redraw": "declare denoise: joint, which replaces it",
        "stack": "declare denoise: auto, or leave it out",
    },
}


def split_removed(model: str, data: Any) -> tuple[Any, list[Fault]]:
    """A file's content without removed keys, and a fault for each of them.

    Args:
        model: Which file it is, by the name of its model.
        data: As read; it stays as it is.
    """
    faults: list[Fault] = []
    for path, remedy in REMOVED.get(model, {}).items():
        data = _without(data, path.split("."), "", None, remedy, faults)
    if model == "Federation":
        for path, values in REMOVED_VALUES.items():
            for value, remedy in values.items():
                data = _without(data, path.split("."), "", value, remedy, faults)
    return data, faults


def _without(
    data: Any, path: list[str], at: str, value: str | None, remedy: str, faults: list[Fault]
) -> Any:
    if not isinstance(data, Mapping):
        return data
    key, *rest = path
    found = dict(data)
    for name in _names(found, key):
        place = f"{at}.{name}" if at else str(name)
        if rest:
            found[name] = _without(found[name], rest, place, value, remedy, faults)
        elif value is None or found[name] == value:
            del found[name]
            what = "was removed" if value is None else f"{value} was removed"
            faults.append(Fault(place, what, remedy))
    return found


def _names(data: Mapping[Any, Any], key: str) -> Iterator[Any]:
    yield from (list(data) if key == "*" else [key] if key in data else [])
