"""Keys of older releases that no file has any more, and what to write instead."""

from collections.abc import Mapping
from typing import Any

from opboost_ops.errors import Fault

#: What a plan of 0.3.0 spells out, by path: values that mean what applies now, or all values where
#: none changes what another party does.
_SPELLED_OUT: Mapping[str, tuple[Any, ...]] = {
    "alignment.members": ("all",),
    "parties.*.features.*.mechanism.source": ("declared",),
    "parties.*.features.*.mechanism.variant": ("optimised",),
    "parties.*.pilot": (None,),
    "parties.*.shards": (False,),
    "schedule.catch_up": (),
    "training.lambda_l2": (None, 1.0),
    "training.least_node": (None, 20),
    "training.private.patience_minutes": (None,),
    "training.private.regularisation": (0.1,),
    "training.private.remain": (None,),
    "training.private.trees_per_ensemble": (50,),
    "training.seed": (),
    "training.tuning.metric": (None,),
    "training.tuning.minutes": (None,),
    "training.wait_minutes": (),
}

#: What a federation file of an older release may still say, because it is what applies now.
_SAME: Mapping[str, tuple[Any, ...]] = {
    "schedule.catch_up": (False,),
    "training.least_node": (20,),
    "training.seed": (0,),
    "training.wait_minutes": (15,),
}

_PATIENCE = "remove it: a party waits for 1/48 of schedule.timeout_hours, 15 minutes of 12 hours"

#: By file and path; ``*`` is any name. The words complete "was removed".
REMOVED: Mapping[str, Mapping[str, str]] = {
    "Federation": {
        "training.redraw": "declare denoise: joint, which replaces it",
        "training.gate": "remove it: the interval rule, or of a private model the noisy metrics, "
        "decide",
        "training.method": "remove it: XGBoost has a bin for each rank, as hist had",
        "training.early_stopping.share": "remove it: it is a tenth of the training rows",
        "training.lambda_l2": "remove it: it is 1 in horizontal learning; a booster's own "
        "penalties are under training.parameters",
        "training.least_node": "remove it: it is 20 in horizontal learning; LightGBM has "
        "min_data_in_leaf under training.parameters",
        "training.seed": "remove it: the booster's random draws are the same in each run",
        "schedule.catch_up": "remove it: a missed run is not made up for; trigger it by hand",
        "training.private.columns": "remove it: splits are drawn at random among all columns",
        "training.tuning.folds": "remove it: there are three",
        "training.tuning.minutes": "declare trials alone",
        "training.tuning.metric": "remove it: auc, r2 or the objective's own loss decides",
        "training.private.trees_per_ensemble": "remove it: it is 50",
        "training.private.regularisation": "remove it: it is 0.1",
        "training.private.remain": "remove it: all parties stay, and a session goes on when the "
        "`boost` tasks of all are cleared together",
        "training.private.patience_minutes": _PATIENCE,
        "training.wait_minutes": _PATIENCE,
        "parties.*.pilot": "remove it: `opboost plan --sample` chooses columns by public rows",
        "parties.*.shards": "remove it: one task reads the files of a table",
        "parties.*.features.*.mechanism.sampler": "remove it: both samplers were one law",
        "parties.*.features.*.mechanism.source": "remove it: the source of a feature's edges is "
        "declared in its scale",
        "parties.*.features.*.mechanism.variant": "remove it: the optimised variant has less "
        "variance at the same epsilon",
    },
    "Policy": {
        "checks.max_attack_gain": "remove it: `opboost leakage --gate` attacks a release at "
        "home, before it is made",
    },
}

#: The same of values that a key no longer takes.
REMOVED_VALUES: Mapping[str, Mapping[str, str]] = {
    "training.denoise": {
        "redraw": "declare denoise: joint, which replaces it",
        "stack": "declare denoise: auto, or leave it out",
    },
    "parties.*.features.*.scale.source": {
        "private_table": "draw edges by `opboost edges SITE --private EPSILON`",
    },
}


def without_spelled_out(data: Any) -> Any:
    """A plan's federation without removed keys that stand where 0.3.0 put them by itself.

    Args:
        data: As a label holder of this release or of 0.3.0 has signed it; it stays as it is.
    """
    for path, values in _SPELLED_OUT.items():
        data = _without(data, path, values, "", [])
    return data


def split_removed(model: str, data: Any) -> tuple[Any, list[Fault]]:
    """A file's content without removed keys, and a fault for each that would change something.

    Args:
        model: Which file it is, by the name of its model.
        data: As read; it stays as it is.
    """
    if model == "Federation":
        for path, same in _SAME.items():
            data = _without(data, path, same, "", [])
    faults: list[Fault] = []
    for path, remedy in REMOVED.get(model, {}).items():
        data = _without(data, path, (), remedy, faults)
    if model == "Federation":
        for path, values in REMOVED_VALUES.items():
            for value, remedy in values.items():
                data = _without(data, path, (value,), remedy, faults)
    return data, faults


def _without(
    data: Any, path: str, only: tuple[Any, ...], remedy: str, faults: list[Fault], at: str = ""
) -> Any:
    """What is left without an entry; where ``only`` names a value, if it has that one."""
    if not isinstance(data, Mapping):
        return data
    key, _, rest = path.partition(".")
    found = dict(data)
    for name in [*data] if key == "*" else {key} & data.keys():
        place = f"{at}{name}"
        if rest:
            found[name] = _without(found[name], rest, only, remedy, faults, f"{place}.")
        elif not only or found[name] in only:
            del found[name]
            what = f"{only[0]} was removed" if only else "was removed"
            faults.append(Fault(place, what, remedy))
    return found
