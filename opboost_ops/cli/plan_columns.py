"""`opboost plan` with a total: which columns to release, and how to divide a loss over them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opboost_ops.errors import ConfigError

if TYPE_CHECKING:
    from opboost_ops.config.federation import Federation
    from opboost_ops.config.policy import FeatureRule
    from opboost_ops.privacy.division import Divider, Division
    from opboost_ops.privacy.planner import Caps

#: Said with every proposal.
CHOSEN = (
    "The chosen columns are less protected than an even division would leave them, and the others "
    "are not released at all: it is a choice that their party makes."
)


@dataclass(frozen=True)
class Asked:
    """What is asked for.

    Attributes:
        file: ``federation.yaml``.
        party: A feature holder.
        sample: Public rows with its columns and the label, if it goes by them.
        importances: By feature, if it goes by them.
        pilot: Id of a pilot run, if it goes by one.
        total: Caps on the sum over all its columns; a pilot has said its own.
        reach: Share of what unprotected columns tell for which the least loss is looked for.
        out: Where picture and channels go; when absent the working folder, and of a pilot the label
            holder's home.
        as_json: Whether one JSON line is printed.
    """

    file: Path
    party: str
    sample: Path | None
    importances: tuple[str, ...]
    pilot: str | None
    total: "Caps | None"
    reach: float | None
    out: Path | None
    as_json: bool


def divide(declared: "Federation", asked: Asked, rules: "Mapping[str, FeatureRule]") -> None:
    """Propose a division, draw it, and print it.

    Args:
        declared: The federation.
        asked: What for.
        rules: The party's own caps, where they are known.

    Raises:
        ConfigError: It is not said by which one of them to go, or there is nothing to divide.
    """
    from opboost_ops.cli import plan_evidence
    from opboost_ops.cli.plan_files import declaration
    from opboost_ops.cli.progress import counting
    from opboost_ops.pages.division_report import division_report
    from opboost_ops.privacy.division import Divider
    from opboost_ops.privacy.loss import end_losses

    if asked.reach is not None and not 0 < asked.reach <= 1:
        raise ConfigError(
            "--reach is a share of what unprotected columns tell: above 0, at most 1."
        )
    given = plan_evidence.given(declared, asked)
    evidence, total, out, declared = given.evidence, given.total, given.out, given.federation
    domain = declared.domain.to_domain()
    with counting("channels") as progress:
        divider = Divider(evidence, domain, total, progress)
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
                "mechanism": declaration(mechanism, out),
                "over_policy": _over(rules.get(name), losses),
            }
        )
    picture = out / f"division-{declared.name}-{asked.party}.html"
    picture.parent.mkdir(parents=True, exist_ok=True)
    title = f"Columns of {asked.party} in {declared.name}"
    picture.write_text(
        division_report(title, f"{given.lead} {CHOSEN}", divider, total, clear), encoding="utf-8"
    )
    if asked.pilot is not None:
        picture.chmod(0o600)
    named = {column["name"] for column in columns}
    result = {
        "federation": declared.name,
        "party": asked.party,
        "by": given.by,
        "total": {
            "loss_1": _part(total.step, units, divider),
            "loss_whole": _part(total.whole, units, divider),
        },
        "kept": round(best.kept, 6),
        "kept_evenly": round(divider.even(units), 6),
        "kept_unprotected": round(clear, 6),
        "columns": columns,
        "left_out": [name for name in evidence.names if name not in named],
        "reach": asked.reach,
        "says": CHOSEN,
        **given.pilot,
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


def _over(rule: "FeatureRule | None", losses: tuple[float, float]) -> bool:
    if rule is None:
        return False
    caps = (rule.max_loss_1, rule.max_loss_whole)
    return any(cap is not None and loss > cap for cap, loss in zip(caps, losses, strict=True))


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
    if "pilot" in result:
        pilot, columns = result["pilot"], result["columns"]
        sums = (
            float(pilot[e]) + sum(line[e] for line in columns) for e in ("loss_1", "loss_whole")
        )
        step, whole = (f"{loss:.4g}" for loss in sums)
        print(
            f"With the pilot a person pays loss(1) {step} and loss(R-L) {whole}, if each value is "
            "released once."
        )
        print(result["depends_on"])
    print("For federation.yaml, under the party's features:")
    block = {line["name"]: {"mechanism": line["mechanism"]} for line in result["columns"]}
    print(yaml.safe_dump(block, sort_keys=False))
    mechanisms = [column["mechanism"] for column in result["columns"]]
    tables = [str(mechanism["table"]) for mechanism in mechanisms if "table" in mechanism]
    if tables:
        folder = Path(result["picture"]).parent
        print(f"Put {', '.join(tables)} of {folder} beside federation.yaml.")
    print(f"Picture: {result['picture']}")
