"""`opboost plan --write`: the best cells and mechanisms, written into the federation file."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np

from opboost_ops.config.documents import read_yaml
from opboost_ops.config.feature import Edges, Feature
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import load_federation
from opboost_ops.domain import Domain, DomainMap, quantile_edges
from opboost_ops.extras.datasets.workspace import dump
from opboost_ops.extras.lab.evidence import of_sample, public_numbers
from opboost_ops.mechanisms import Geometric, Mechanism
from opboost_ops.mechanisms.geometric import LEAST_EPSILON
from opboost_ops.privacy.division import Evidence, explained, explained_together
from opboost_ops.privacy.edge_charges import edges_loss
from opboost_ops.privacy.loss import loss_curve
from opboost_ops.tables.local import read_rows

#: Name of cells with equal shares of the public rows.
SAMPLED = "edges of this sample"


def order_kept(
    values: np.ndarray,
    mapping: DomainMap,
    mechanism: Mechanism,
    domain: Domain,
    target: np.ndarray | None = None,
) -> tuple[float, float]:
    """Return the share of the target's variance that the best guess explains, and its RMS error.

    Args:
        values: Raw values inside the bounds, shape (n,).
        mapping: Their mapping to the domain.
        mechanism: The mechanism that releases them.
        domain: Their domain.
        target: Numbers to guess, shape (n,). Default: the raw values.
    """
    target = values if target is None else target
    codes = mapping.encode(values) - domain.lower
    rows = np.bincount(codes, minlength=domain.size) / len(values)
    sums = np.bincount(codes, target - target.mean(), minlength=domain.size) / len(values)
    channel = mechanism.channel(domain).probabilities()
    outputs = rows @ channel
    used = outputs > 0
    explained = float(((sums @ channel)[used] ** 2 / outputs[used]).sum())
    variance = float(target.var())
    return (explained / variance if variance else 1.0), math.sqrt(max(variance - explained, 0.0))


@dataclass(frozen=True)
class ScaleLine:
    """A column on one kind of cells.

    Attributes:
        cells: Kind of the cells.
        edges: Loss of their edges, which is included in all losses.
        loss_1: Loss of one step of the domain.
        near: Width of equal cells, in the feature's unit.
        loss_near: Maximum loss of two values at this distance.
        loss_whole: Maximum loss of any two values.
        narrowest: Width of the narrowest cell, in the feature's unit.
        kept: Share of the variance of public rows' ranks that the best guess from a released value
            explains; None without a sample.
    """

    cells: str
    edges: float
    loss_1: float
    near: float
    loss_near: float
    loss_whole: float
    narrowest: float
    kept: float | None


def scales_of(
    federation: Federation, party: str, samples: Mapping[str, np.ndarray] | None = None
) -> dict[str, list[ScaleLine]]:
    """Return `compare_scales` for a feature holder's columns with a choice of cells.

    Args:
        federation: The declared federation.
        party: The feature holder.
        samples: Public raw values by feature, to compare all numbers with more than two values. If
            None, only numbers with edges are compared.
    """
    return {
        name: compare_scales(federation, party, name, (samples or {}).get(name))
        for name, feature in federation.parties[party].features.items()
        if feature.type == "numeric"
        and feature.bounds is not None
        and feature.mechanism is not None
        and (
            isinstance(feature.scale, Edges)
            if samples is None
            else len(np.unique(samples.get(name, ()))) > 2
        )
    }


def compare_scales(
    federation: Federation, party: str, name: str, sample: np.ndarray | None = None
) -> list[ScaleLine]:
    """Compare the kinds of cells that a column may have, at its declared loss of one step.

    The declared cells are combined with the declared mechanism, all others with the clamped
    geometric one; with a sample all are combined with the geometric one, so that only the cells
    differ. Losses include those of the edges.

    Args:
        federation: The declared federation.
        party: The feature holder.
        name: A numeric feature with bounds and a mechanism.
        sample: Public raw values, shape (n,).
    """
    feature = federation.parties[party].features[name]
    domain = feature.domain_in(federation.domain.to_domain())
    assert feature.bounds is not None and feature.mechanism is not None
    cost = 0.0
    if (private := feature.private_edges) is not None:
        cost = float(edges_loss(private, domain).loss[0])
    total = float(loss_curve(feature.mechanism, domain).loss[0]) + cost
    maps = {
        "linear": DomainMap(domain, feature.bounds),
        "log1p": DomainMap(domain, feature.bounds, "log1p"),
    }
    if isinstance(feature.scale, Edges):
        maps["declared edges" if private is None else "private edges"] = feature.domain_map(domain)
    declared = feature.scale if isinstance(feature.scale, str) else [*maps][-1]
    if sample is not None:
        declared = ""
        sample = inside(sample, feature)
        if len(sample) and sample.min() < sample.max():
            edges_of = quantile_edges(sample, domain.size)
            maps[SAMPLED] = DomainMap(domain, feature.bounds, "edges", edges_of)
    ranks = None if sample is None else _ranks(sample)
    lower, upper = feature.bounds
    near = (upper - lower) / (domain.size - 1)
    lines: list[ScaleLine] = []
    for cells, mapping in maps.items():
        edges = cost if cells == "private edges" else 0.0
        epsilon = float(f"{total - edges:.6g}")
        if not LEAST_EPSILON <= epsilon < float("inf"):
            continue
        mechanism = feature.mechanism if cells == declared else Geometric(epsilon=epsilon)
        losses = [float(loss) + edges for loss in loss_curve(mechanism, domain).loss]
        ends = mapping.boundaries()
        steps = _most_steps(np.asarray(ends), near)
        loss_near = losses[steps - 1] if steps else edges
        narrowest = min(b - a for a, b in pairwise((lower, *ends, upper)) if b > a)
        share = None if sample is None else order_kept(sample, mapping, mechanism, domain, ranks)[0]
        lines.append(
            ScaleLine(cells, edges, losses[0], near, loss_near, losses[-1], narrowest, share)
        )
    return lines


def _most_steps(ends: np.ndarray, near: float) -> int:
    """Return the maximum steps of the domain between two values at a given distance.

    Args:
        ends: Upper ends of the cells, increasing, shape (n,); an end belongs to the cell below it.
        near: Distance in the feature's unit.
    """
    # The worst pair begins just above an end; the factor allows for rounding.
    reached = np.searchsorted(ends, ends + near * (1 - 1e-9), side="left")
    return int((reached - np.arange(len(ends))).max(initial=0))


def inside(values: np.ndarray, feature: Feature) -> np.ndarray:
    """Return the finite values, clipped to a feature's bounds.

    Args:
        values: Raw values, shape (n,).
        feature: A feature with bounds.
    """
    assert feature.bounds is not None
    return np.asarray(np.clip(values[np.isfinite(values)], *feature.bounds))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks of values; equal values have the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse.reshape(-1)])


def with_best_scales(
    federation: Federation, party: str, sample: Path
) -> tuple[Federation, dict[str, Any]]:
    """Return a federation with the cells that preserve most of the order of a sample.

    Declared private edges are compared including their loss.

    Args:
        federation: The declared federation.
        party: The feature holder.
        sample: File of public rows.

    Returns:
        The federation, and the ``scale`` of each feature that has changed.
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
    """Return the mechanism and cells of each column that explain most of the label in a sample.

    Columns are chosen one by one. If together they explain no more than the declaration, the
    declaration is kept.

    Args:
        declared: The declared federation.
        rescaled: The same federation with other cells.
        party: The feature holder.
        sample: File of public rows with the label.
        candidates: Candidate mechanisms by column.

    Returns:
        The mechanism of each column, and whether it uses the cells of ``rescaled``; empty if the
        declaration is kept.

    Raises:
        ContractError: The sample has no label, or lacks a column.
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
    return (
        proposal
        if explained_together(_with(now, other, moved), after) > explained_together(now, before)
        else {}
    )


def _with(evidence: Evidence, other: Evidence, columns: Sequence[int]) -> Evidence:
    """Replace some columns of evidence by those of other evidence on the same rows."""
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
    folder: Path,
    left_out: Collection[str] = (),
) -> None:
    """Write mechanisms and scales of a party's features into the federation file.

    Tables of designed channels are copied beside it.

    Args:
        file: ``federation.yaml``; its comments are lost.
        party: The feature holder.
        mechanisms: ``mechanism`` entries by feature.
        scales: ``scale`` entries by feature.
        folder: Folder of the channels' tables.
        left_out: Features that are no longer released.

    Raises:
        ConfigError: The file would have faults; it was not changed.
    """
    data = read_yaml(file)
    features = data["parties"][party]["features"]
    for name in left_out:
        del features[name]
    for key, entries in (("mechanism", mechanisms), ("scale", scales)):
        for name, entry in entries.items():
            if name in features:
                features[name][key] = entry
    if folder.resolve() != file.parent.resolve():
        for name in {entry["table"] for entry in mechanisms.values() if "table" in entry}:
            if (folder / name).is_file():
                copyfile(folder / name, file.parent / name)
    load_federation(file, data)
    dump(file, data)
