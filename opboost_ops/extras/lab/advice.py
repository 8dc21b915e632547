"""`opboost plan --write`: cells and mechanisms that gain most, and a proposal in the file."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from opboost_ops.config.feature import Edges
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import load_federation
from opboost_ops.config.yaml_text import read_yaml
from opboost_ops.domain import quantile_edges
from opboost_ops.extras.datasets.workspace import dump
from opboost_ops.extras.lab.evidence import of_sample
from opboost_ops.extras.lab.files import public_numbers
from opboost_ops.extras.lab.scales import SAMPLED, inside, scales_of
from opboost_ops.mechanisms import Mechanism
from opboost_ops.privacy.division import Evidence, explained, kept
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


def best_by_gain(
    declared: Federation,
    rescaled: Federation,
    party: str,
    sample: Path,
    candidates: Mapping[str, Sequence[Mechanism]],
) -> dict[str, tuple[Mechanism, bool]]:
    """The mechanism and cells of each column that say most of the label in a public sample.

    Columns are chosen one by one; where they say no more together than as they are declared, that
    stays.

    Args:
        declared: The federation.
        rescaled: The same on other cells.
        party: The feature holder.
        sample: Public rows with the label.
        candidates: By column.

    Returns:
        By column its mechanism, and whether its cells are those of ``rescaled``; empty where the
        declaration stays.

    Raises:
        ContractError: The sample lacks the label or a column.
    """
    names, common = list(candidates), declared.domain.to_domain()
    now, other = (of_sample(where, party, sample, names)[0] for where in (declared, rescaled))
    before, after, proposal, moved = [], [], {}, []
    for j, name in enumerate(names):
        feature = declared.parties[party].features[name]
        assert feature.mechanism is not None
        domain = feature.domain_in(common)
        laws = [each.channel(domain).probabilities() for each in candidates[name]]
        shares = np.concatenate([explained(of, name, laws) for of in (now, other)])
        cells, place = divmod(int(shares.argmax()), len(laws))
        proposal[name] = candidates[name][place], bool(cells)
        before.append(feature.mechanism.channel(domain).probabilities())
        after.append(laws[place])
        if cells:
            moved.append(j)
    return proposal if kept(_with(now, other, moved), after) > kept(now, before) else {}


def _with(evidence: Evidence, other: Evidence, columns: Sequence[int]) -> Evidence:
    """Evidence with some columns of another one of the same rows."""
    marginals, means = evidence.marginals.copy(), evidence.means.copy()
    marginals[columns], means[:, columns] = other.marginals[columns], other.means[:, columns]
    assert evidence.codes is not None and other.codes is not None
    codes = evidence.codes.copy()
    codes[:, columns] = other.codes[:, columns]
    return replace(evidence, marginals=marginals, means=means, codes=codes)


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
