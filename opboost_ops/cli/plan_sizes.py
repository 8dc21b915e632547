"""`opboost plan --values`: how many values a domain should have, at one loss in raw units."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opboost_ops.errors import ConfigError

if TYPE_CHECKING:
    from opboost_ops.config.federation import Federation
    from opboost_ops.privacy.planner import Caps

#: Said with every comparison.
BOTH = (
    "On every size values as far apart as the title says cost the same. What differs is loss(1), "
    "of a smaller step, and loss(R - L), across the whole range: look at both."
)


@dataclass(frozen=True)
class Asked:
    """What is asked for.

    Attributes:
        party: A feature holder.
        sizes: |D|.
        near: NAME=NUMBER in the feature's unit; a step of the declared domain where not said.
        caps: On the loss between near values, and across the domain.
        sample: Public rows; features are taken for even when absent.
        as_json: Whether one JSON line is printed.
    """

    party: str
    sizes: tuple[int, ...]
    near: tuple[str, ...]
    caps: "Caps"
    sample: Path | None
    as_json: bool


def compare_sizes(declared: "Federation", asked: Asked) -> None:
    """Compare sizes for every numeric feature that lies linearly on the domain, and print it.

    Args:
        declared: The federation.
        asked: What for.

    Raises:
        ConfigError: A size is none, or no feature can be compared.
    """
    from opboost_ops.cli.plan_files import pairs, public_numbers, public_rows
    from opboost_ops.domain import MOST_VALUES
    from opboost_ops.privacy import domain_sizes

    if any(not 2 <= size <= MOST_VALUES for size in asked.sizes):
        raise ConfigError(f"--values must be of 2 to {MOST_VALUES}.")
    features = {
        name: feature
        for name, feature in declared.parties[asked.party].features.items()
        if feature.type == "numeric" and feature.scale == "linear" and feature.bounds is not None
    }
    if not features:
        raise ConfigError(
            f"{asked.party} has no numeric feature that lies linearly on the domain.",
            "By edges or log1p a step is no fixed part of the raw range, and there is nothing to "
            "compare.",
        )
    near = pairs(list(asked.near), "--near", list(features))
    frame = None if asked.sample is None else public_rows(asked.sample)
    steps = declared.domain.to_domain().size - 1
    lines: dict[str, list[dict[str, Any]]] = {}
    for name, feature in features.items():
        assert feature.bounds is not None
        values = None
        if frame is not None and asked.sample is not None:
            import numpy as np

            values = public_numbers(frame, name, feature, asked.sample.name)
            values = values[np.isfinite(values)]
        apart = near.get(name, (feature.bounds[1] - feature.bounds[0]) / steps)
        found = domain_sizes.compare(feature.bounds, apart, asked.caps, asked.sizes, values)
        lines[name] = [
            {
                "values": line.values, "near": apart, "step": line.step, "steps_near": line.steps,
                "mechanism": line.mechanism.label(), "loss_1": line.loss_1,
                "loss_near": line.loss_near, "loss_whole": line.loss_whole,
                "kept": round(line.kept, 6), "error": line.error,
            }
            for line in found
        ]  # fmt: skip
    if asked.as_json:
        told = "public sample" if asked.sample else "even values"
        print(json.dumps({"party": asked.party, "by": told, "features": lines, "says": BOTH}))
        return
    _show(lines)
    print(BOTH)


def _show(lines: dict[str, list[dict[str, Any]]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for name, found in lines.items():
        near = f"{found[0]['near']:.4g}" if found else "near"
        table = Table(title=f"{name}: values {near} apart cost the same")
        heads = ("|D|", "a step is", "loss(1)", f"loss at {near}", "loss(R-L)", "typical error")
        for head in heads:
            table.add_column(head)
        for line in found:
            losses = (f"{line[key]:.3f}" for key in ("loss_1", "loss_near", "loss_whole"))
            table.add_row(
                str(line["values"]), f"{line['step']:.4g}", *losses, f"{line['error']:.4g}"
            )
        console.print(table)
