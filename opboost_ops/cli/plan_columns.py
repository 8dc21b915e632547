"""`opboost plan` with a total: which columns to release, and how to divide a loss over them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opboost_ops.errors import ConfigError, ContractError

if TYPE_CHECKING:
    from opboost_ops.config.federation import Federation
    from opboost_ops.config.policy import FeatureRule
    from opboost_ops.privacy.division import Divider, Division, Evidence
    from opboost_ops.privacy.planner import Caps

#: Said with every proposal.
CHOSEN = (
    "The chosen columns are less protected than an even division would leave them, and the others "
    "are not released at all: it is a choice that their party makes."
)

#: Rows of a sample that are looked at, and the least that say anything.
_ROWS, _LEAST_ROWS = 10_000, 100


@dataclass(frozen=True)
class Asked:
    """What is asked for.

    Attributes:
        party: A feature holder.
        sample: Public rows with its columns and the label; None with importances.
        importances: By feature; empty with a sample.
        total: Caps on the sum over all its columns.
        reach: Share of what unprotected columns tell for which the least loss is looked for.
        out: Where the picture goes.
        as_json: Whether one JSON line is printed.
    """

    party: str
    sample: Path | None
    importances: tuple[str, ...]
    total: "Caps"
    reach: float | None
    out: Path
    as_json: bool


def divide(declared: "Federation", asked: Asked, rules: "Mapping[str, FeatureRule]") -> None:
    """Propose a division, draw it, and print it.

    Args:
        declared: The federation.
        asked: What for.
        rules: The party's own caps, where they are known.

    Raises:
        ConfigError: There is neither a sample nor importances, or both, or nothing to divide.
    """
    from opboost_ops.cli.plan_files import declaration
    from opboost_ops.cli.progress import counting
    from opboost_ops.pages.division_report import division_report
    from opboost_ops.privacy.division import Divider
    from opboost_ops.privacy.loss import end_losses

    if asked.reach is not None and not 0 < asked.reach <= 1:
        raise ConfigError(
            "--reach is a share of what unprotected columns tell: above 0, at most 1."
        )
    evidence = _evidence(declared, asked)
    domain = declared.domain.to_domain()
    with counting("channels") as progress:
        divider = Divider(evidence, domain, asked.total, progress)
    clear = divider.unprotected()
    units = divider.units
    if asked.reach is not None:
        units = _least(divider, asked.reach * clear)
    best = divider.best(units)
    if not best.kept > 0:
        raise ConfigError(
            "Nothing of this total tells anything through any channel.",
            "Raise it, or give a sample whose columns say something of the label.",
        )
    columns = []
    for name, share in sorted(best.shares.items(), key=lambda pair: -pair[1]):
        mechanism = divider.mechanism(share)
        if mechanism is None:
            continue
        losses = end_losses(mechanism.channel(domain))
        columns.append(
            {
                "name": name,
                "share": round(share / units, 6),
                "loss_1": losses[0],
                "loss_whole": losses[1],
                "mechanism": declaration(mechanism, asked.out),
                "over_policy": _over(rules.get(name), losses),
            }
        )
    picture = asked.out / f"division-{declared.name}-{asked.party}.html"
    picture.parent.mkdir(parents=True, exist_ok=True)
    title = f"Columns of {asked.party} in {declared.name}"
    picture.write_text(
        division_report(title, f"{_by(asked)} {CHOSEN}", divider, asked.total, clear),
        encoding="utf-8",
    )
    named = {column["name"] for column in columns}
    result = {
        "federation": declared.name,
        "party": asked.party,
        "by": "public sample" if asked.sample else "declared importances",
        "total": {
            "loss_1": _part(asked.total.step, units, divider),
            "loss_whole": _part(asked.total.whole, units, divider),
        },
        "kept": round(best.kept, 6),
        "kept_evenly": round(divider.even(units), 6),
        "kept_unprotected": round(clear, 6),
        "columns": columns,
        "left_out": [name for name in evidence.names if name not in named],
        "reach": asked.reach,
        "says": CHOSEN,
        "picture": str(picture),
    }
    if asked.as_json:
        print(json.dumps(result))
    else:
        _show(result, best)


def _part(total: float | None, units: int, divider: "Divider") -> float | None:
    return None if total is None else total * units / divider.units


def _least(divider: "Divider", wanted: float) -> int:
    """The least number of units that keeps so much."""
    low, high = 0, divider.units
    if divider.best(high).kept < wanted:
        raise ConfigError(
            f"The whole total keeps {divider.best(high).kept:.3f} of the label's variance, and "
            f"{wanted:.3f} is asked for.",
            "Raise the total, or lower --reach.",
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if divider.best(middle).kept >= wanted else (middle, high)
    return high


def _evidence(declared: "Federation", asked: Asked) -> "Evidence":
    from opboost_ops.cli.plan_files import pairs
    from opboost_ops.privacy.division import independent

    features = declared.parties[asked.party].features
    names = [name for name, feature in features.items() if feature.type != "nominal"]
    if not names:
        raise ConfigError(f"{asked.party} has nominal features alone: each has its own epsilon.")
    if (asked.sample is None) == (not asked.importances):
        raise ConfigError(
            "A division goes by a public sample or by declared importances, one of them.",
            "Give --sample with public rows of all columns and the label, or --importance for "
            "each feature; never the party's own table.",
        )
    if asked.importances:
        known = pairs(list(asked.importances), "--importance", names)
        return independent(known, declared.domain.to_domain().size)
    return _of_sample(declared, asked, names)


def _of_sample(declared: "Federation", asked: Asked, names: list[str]) -> "Evidence":
    import numpy as np

    from opboost_ops.cli.plan_files import public_numbers, public_rows
    from opboost_ops.privacy.division import sampled
    from opboost_ops.stages.assemble import encode_label

    assert asked.sample is not None
    frame = public_rows(asked.sample)
    label = declared.parties[declared.label_holder].label
    assert label is not None
    if label.column not in frame.columns:
        raise ContractError(
            f"{asked.sample.name} has no column {label.column}, which is the label.",
            "Add it, or declare --importance for each feature instead.",
        )
    frame = frame.filter(frame.get_column(label.column).is_not_null()).head(_ROWS)
    domain = declared.domain.to_domain()
    features = declared.parties[asked.party].features
    raw = {n: public_numbers(frame, n, features[n], asked.sample.name) for n in names}
    whole = np.logical_and.reduce([np.isfinite(values) for values in raw.values()])
    if whole.sum() < _LEAST_ROWS:
        raise ContractError(
            f"{asked.sample.name} has {int(whole.sum())} rows with the label and all columns.",
            f"A division needs {_LEAST_ROWS} of them, and better thousands.",
        )
    target, classes = encode_label(frame.get_column(label.column).filter(whole), label, None)
    codes = np.column_stack(
        [features[n].domain_map(domain).encode(raw[n][whole]) - domain.lower for n in names]
    )
    if not np.ptp(target) > 0:
        raise ContractError(f"The label of {asked.sample.name} is the same in all rows.")
    return sampled(names, codes, target, len(classes), domain.size)


def _over(rule: "FeatureRule | None", losses: tuple[float, float]) -> bool:
    if rule is None:
        return False
    caps = (rule.max_loss_1, rule.max_loss_whole)
    return any(cap is not None and loss > cap for cap, loss in zip(caps, losses, strict=True))


def _by(asked: Asked) -> str:
    if asked.sample is not None:
        return f"Proposed by the public sample {asked.sample.name}."
    return "Proposed by declared importances, of columns that say unrelated things."


def _show(result: Mapping[str, Any], best: "Division") -> None:
    import yaml
    from rich.console import Console
    from rich.table import Table

    console = Console()
    total = {"loss(1)": result["total"]["loss_1"], "loss(R-L)": result["total"]["loss_whole"]}
    caps = ", ".join(f"{name} {cap:.4g}" for name, cap in total.items() if cap is not None)
    table = Table(title=f"{result['party']}: in all at most {caps}")
    for head in ("column", "share", "loss(1)", "loss(R-L)", "policy"):
        table.add_column(head)
    for line in result["columns"]:
        losses = (f"{line[name]:.3f}" for name in ("loss_1", "loss_whole"))
        kept = "over its cap" if line["over_policy"] else "keeps its caps"
        table.add_row(line["name"], f"{line['share']:.0%}", *losses, kept)
    console.print(table)
    print(
        f"Of the label's variance these keep {best.kept:.3f}; divided evenly over all columns "
        f"{result['kept_evenly']:.3f}; without protection {result['kept_unprotected']:.3f}."
    )
    if result["left_out"]:
        print(f"Not released: {', '.join(result['left_out'])}.")
    print(CHOSEN)
    print("For federation.yaml, under the party's features:")
    block = {line["name"]: {"mechanism": line["mechanism"]} for line in result["columns"]}
    print(yaml.safe_dump(block, sort_keys=False))
    print(f"Picture: {result['picture']}")
