"""What `opboost run` prints of a run of horizontal learning."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from opboost_ops.run.local import Finished


def show(finished: Finished, models: Path, as_json: bool) -> None:
    """Print metrics by party, traffic, seconds, and where the active party's model is.

    Args:
        finished: The run.
        models: The active party's folder of models.
        as_json: One JSON line instead of tables.
    """
    result = told(finished, models)
    if as_json:
        print(json.dumps(result, sort_keys=True))
        return
    console = Console()
    table = Table(title=f"{result['federation']}, run {result['run']}: each party's held-out rows")
    names = sorted({n for found in result["metrics"].values() for n in found["federated_local"]})
    several = any("label_holder_alone" in found for found in result["metrics"].values())
    trained = ("own rows", "all rows") if several else ("all rows",)
    for head in ("party", *(f"{name}, {of}" for name in names for of in trained)):
        table.add_column(head)
    for party, found in result["metrics"].items():
        # A private run has no model of the own rows alone.
        rows = [found[of] for of in ("label_holder_alone", "federated_local") if of in found]
        table.add_row(party, *(f"{f[name]:.4f}" for name in names for f in rows))
    console.print(table)
    console.print(
        f"{result['rows']:,} training rows of {len(result['metrics'])} parties. Each sent "
        f"{result['messages']:,} messages; all of them together {result['bytes']:,} bytes, and "
        f"{result['sums']:,} sums became known. Training took {result['training']:.2f} s."
    )
    if "private" in result:
        private = result["private"]
        console.print(
            f"Each party's rows were charged (epsilon {private['epsilon']:.4f}, delta "
            f"{private['delta']:g}) for a row added or removed."
        )
    if "gone" in result:
        console.print(f"Dropped out: {', '.join(result['gone'])}; their rows stay charged.")
    console.print(f"Model: {result['model']}", soft_wrap=True)


def told(finished: Finished, models: Path) -> dict[str, Any]:
    """The same as a JSON value.

    Args:
        finished: The run.
        models: The active party's folder of models.
    """
    federation = finished.federation
    said = {p: stages for p, stages in finished.summaries.items() if p not in finished.gone}
    boosted = {party: stages["boost"] for party, stages in said.items()}
    spent = {party: finished.spent[party]["boost"] for party in said}
    active = boosted[federation.label_holder]
    quality = finished.seconds("quality_seconds")
    private = {"private": active["private"]} if "private" in active else {}
    gone = {"gone": finished.gone} if finished.gone else {}
    return {
        **private,
        **gone,
        "federation": federation.name,
        "run": finished.run,
        "metrics": {party: stages["evaluate_own"]["metrics"] for party, stages in said.items()},
        "rows": active["rows"],
        "messages": max(summary["messages"] for summary in boosted.values()),
        "bytes": sum(summary["bytes"] for summary in boosted.values()),
        "sums": active["sums"],
        # Waiting for one another is part of it here.
        "training": round(max(s["seconds"] + s["waited"] for s in spent.values()), 6),
        "cpu": {party: found["cpu"] for party, found in spent.items()},
        "seconds": finished.seconds(),
        "quality_seconds": round(sum(quality.values()), 6),
        "model": str(models / federation.name / finished.run / "model.txt"),
    }
