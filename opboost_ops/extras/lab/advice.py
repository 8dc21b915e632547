"""`opboost plan --write`: the cells that keep most order, and a proposal in the federation file."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from opboost_ops.config.feature import Edges
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import load_federation
from opboost_ops.config.yaml_text import read_yaml
from opboost_ops.domain import quantile_edges
from opboost_ops.extras.datasets.workspace import dump
from opboost_ops.extras.lab.files import public_numbers
from opboost_ops.extras.lab.scales import SAMPLED, inside, scales_of
from opboost_ops.tables.local import read_rows


def with_best_scales(
    federation: Federation, party: str, sample: Path
) -> tuple[Federation, dict[str, Any]]:
    """A federation with each number of a party on the cells that keep most order of a sample.

    Private edges that are declared compete with what they cost.

    Args:
        federation: As declared.
        party: The feature holder.
        sample: Public rows.

    Returns:
        The federation, and ``scale`` by feature where it is another one.
    """
    frame = read_rows(sample)
    features = dict(federation.parties[party].features)
    values = {
        name: public_numbers(frame, name, feature, sample.name)
        for name, feature in features.items()
        if feature.type == "numeric" and name in frame.columns
    }
    scales: dict[str, Any] = {}
    for name, lines in scales_of(federation, party, values).items():
        best = max(lines, key=lambda line: line.kept or 0.0, default=None)
        if best is None:
            continue
        scale: Any = best.cells
        if best.cells == SAMPLED:
            edges = quantile_edges(
                inside(values[name], features[name]),
                features[name].domain_in(federation.domain.to_domain()).size,
            )
            scale = {"edges": list(edges)}
        elif best.cells not in ("linear", "log1p"):
            continue
        if scale != features[name].scale:
            scales[name] = scale
            parsed = Edges.model_validate(scale) if isinstance(scale, dict) else scale
            features[name] = features[name].model_copy(update={"scale": parsed})
    holder = federation.parties[party].model_copy(update={"features": features})
    parties = {**federation.parties, party: holder}
    return federation.model_copy(update={"parties": parties}), scales


def write_proposal(
    file: Path,
    party: str,
    mechanisms: Mapping[str, Any],
    scales: Mapping[str, Any],
    left_out: Collection[str] = (),
) -> None:
    """Write mechanisms and scales of a party's features into the federation file.

    Args:
        file: ``federation.yaml``; its comments are lost.
        party: The feature holder.
        mechanisms: By feature.
        scales: By feature.
        left_out: Features that are no longer released.

    Raises:
        ConfigError: The file would have faults; nothing was written.
    """
    data = read_yaml(file)
    features = data["parties"][party]["features"]
    for name in left_out:
        del features[name]
    for key, entries in (("mechanism", mechanisms), ("scale", scales)):
        for name, entry in entries.items():
            if name in features:
                features[name][key] = entry
    load_federation(file, data)
    dump(file, data)
