"""How many values a domain should have, at one loss in raw units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opboost_ops.config.loading import load_federation
from opboost_ops.domain import MOST_VALUES
from opboost_ops.errors import ConfigError
from opboost_ops.planning.files import public_numbers, require_weights, rows_of
from opboost_ops.planning.ranking import feature_holder
from opboost_ops.privacy import domain_sizes
from opboost_ops.privacy.planner import Caps
from opboost_ops.run.party_sites import federation_file

#: With every comparison.
BOTH = (
    "On every size values as far apart as the title says cost the same. What differs is loss(1), "
    "of a smaller step, and loss(R - L), across the whole range: look at both."
)


@dataclass(frozen=True)
class Sizes:
    """Sizes of the domain compared, by feature of a party.

    Attributes:
        party: The feature holder.
        public: Whether a public sample was used; else features are taken for even.
        features: Rows with ``values`` (the size), ``near``, ``step``, ``mechanism``, ``loss_1``,
            ``loss_near``, ``loss_whole``, ``kept`` and ``error``, by feature.
    """

    party: str
    public: bool
    features: dict[str, list[dict[str, Any]]]

    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        by = "public sample" if self.public else "even values"
        return {"party": self.party, "by": by, "features": self.features, "says": BOTH}


def sizes(
    federation: str | Path,
    values: Sequence[int],
    party: str | None = None,
    *,
    near: Mapping[str, float] | None = None,
    max_loss_1: float | None = None,
    max_loss_whole: float | None = None,
    sample: str | Path | None = None,
) -> Sizes:
    """Compare sizes of the domain for every numeric feature that lies linearly on it.

    Args:
        federation: ``federation.yaml``, or its folder.
        values: The sizes, |D|.
        party: The feature holder; the only one when absent.
        near: By feature, in its unit; a step of the declared domain where absent.
        max_loss_1: Cap on the loss between near values.
        max_loss_whole: Cap on the loss across the domain.
        sample: Public rows; features are taken for even when absent.

    Raises:
        ConfigError: A size is out of range, or no feature can be compared.
    """
    caps, near = Caps(max_loss_1, max_loss_whole), near or {}
    rows = None if sample is None else Path(sample)
    declared = load_federation(federation_file(Path(federation)))
    holder = feature_holder(declared, party)
    if any(not 2 <= size <= MOST_VALUES for size in values):
        raise ConfigError(f"--values must be of 2 to {MOST_VALUES}.")
    features = {
        name: feature
        for name, feature in declared.parties[holder].features.items()
        if feature.type == "numeric" and feature.scale == "linear" and feature.bounds is not None
    }
    if not features:
        raise ConfigError(
            f"{holder} has no numeric feature with a linear scale.",
            "With edges or log1p a step has no fixed size in raw units, so there is nothing to "
            "compare.",
        )
    require_weights(near, "--near", list(features))
    frame = None if rows is None else rows_of(rows)
    steps = declared.domain.to_domain().size - 1
    lines: dict[str, list[dict[str, Any]]] = {}
    for name, feature in features.items():
        assert feature.bounds is not None
        numbers = None
        if frame is not None and rows is not None:
            numbers = public_numbers(frame, name, feature, rows.name)
            numbers = numbers[np.isfinite(numbers)]
        apart = near.get(name, (feature.bounds[1] - feature.bounds[0]) / steps)
        found = domain_sizes.compare(feature.bounds, apart, caps, values, numbers)
        lines[name] = [
            {
                **vars(line),
                "near": apart,
                "mechanism": line.mechanism.label(),
                "kept": round(line.kept, 6),
            }
            for line in found
        ]
    return Sizes(holder, rows is not None, lines)
