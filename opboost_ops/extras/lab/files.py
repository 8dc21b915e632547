"""Public samples that planning reads, and channels that it writes."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.config.channel_files import STANDARD, is_standard, table_digest, table_text
from opboost_ops.config.feature import Feature, Fill
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.mechanisms import Mechanism
from opboost_ops.mechanisms.designed import Designed, Table
from opboost_ops.pipeline.inputs import raw_table


def declaration(mechanism: Mechanism, folder: Path) -> dict[str, Any]:
    """The ``mechanism`` entry; a designed channel's table goes into a file.

    Args:
        mechanism: What is proposed.
        folder: Where the file goes, if there is none of the same table.
    """
    entry = mechanism.model_dump(mode="json", exclude_none=True)
    if not isinstance(mechanism, Designed):
        return entry
    assert isinstance(mechanism.table, Table)
    if is_standard(mechanism.table):
        return {**entry, "table": STANDARD["table"]}
    file = folder / f"channel-{table_digest(mechanism.table)[:16]}.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        origin = {"epsilon": mechanism.epsilon, "most": mechanism.most, "cost": "absolute"}
        file.write_text(table_text(mechanism.table, {**origin, "prior": "even"}), encoding="utf-8")
    return {**entry, "table": file.name}


def public_numbers(frame: pl.DataFrame, name: str, feature: Feature, file: str) -> np.ndarray:
    """A feature's column of a public sample as numbers, its gaps filled as declared.

    Raises:
        ContractError: There is no such column, or it is no such feature.
    """
    if name not in frame.columns:
        raise ContractError(f"{file} has no column {name}.", "Add it to the sample.")
    values = raw_table.numbers(frame.get_column(name), feature)
    if isinstance(feature.missing, Fill) and isinstance(feature.missing.fill, int | float):
        values = np.where(np.isfinite(values), values, float(feature.missing.fill))
    return values


def require_weights(weights: Mapping[str, float], what: str, names: Sequence[str]) -> None:
    """Check numbers that are given by feature.

    Args:
        weights: By feature.
        what: What they are, for the error.
        names: Which features there may be.

    Raises:
        ConfigError: One is no such feature, or no number above 0.
    """
    for name, number in weights.items():
        if name not in names:
            raise ConfigError(
                f"{what} takes NAME=NUMBER, and {name} is not one of its features.",
                f"They are {', '.join(names)}.",
            )
        if not (math.isfinite(number) and number > 0):
            raise ConfigError(f"{what} {name} is not a number above 0.")
