"""What `opboost plan` reads of a public sample, and writes of what it proposes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from opboost_ops.errors import ConfigError, ContractError

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from opboost_ops.config.feature import Feature
    from opboost_ops.mechanisms import Mechanism


def declaration(mechanism: "Mechanism", folder: Path) -> dict[str, Any]:
    """The ``mechanism`` entry; a designed channel's table goes into a file.

    Args:
        mechanism: What is proposed.
        folder: Where the file goes, if there is none of the same table.
    """
    from opboost_ops.config.channel_files import table_digest, table_text
    from opboost_ops.mechanisms.designed import Designed, Table

    unsaid = {"sampler", "source"}
    found = mechanism.model_dump(mode="json", exclude_none=True, exclude=unsaid)
    if not isinstance(mechanism, Designed):
        return found
    assert isinstance(mechanism.table, Table)
    file = folder / f"channel-{table_digest(mechanism.table)[:16]}.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = {"epsilon": mechanism.epsilon, "most": mechanism.most, "cost": "absolute"}
        file.write_text(table_text(mechanism.table, {**made, "prior": "even"}), encoding="utf-8")
    return {**found, "table": file.name}


def public_rows(sample: Path) -> "pl.DataFrame":
    """A public sample.

    Raises:
        ConfigError: It cannot be read.
    """
    from contextlib import suppress

    import polars as pl

    from opboost_ops.stages.table_files import read_all

    frame: pl.DataFrame | None = None
    with suppress(pl.exceptions.PolarsError, OSError):
        frame = read_all(sample)
    if frame is None:
        raise ConfigError(f"{sample.name} is missing or no Parquet file.")
    return frame


def public_numbers(frame: "pl.DataFrame", name: str, feature: "Feature", file: str) -> "np.ndarray":
    """A feature's column of a public sample as numbers, its gaps filled as declared.

    Raises:
        ContractError: There is no such column, or it is no such feature.
    """
    import numpy as np

    from opboost_ops.config.feature import Fill
    from opboost_ops.stages import raw_table

    if name not in frame.columns:
        raise ContractError(f"{file} has no column {name}.", "Add it to the sample.")
    values = raw_table.numbers(frame.get_column(name), feature)
    if isinstance(feature.missing, Fill) and isinstance(feature.missing.fill, int | float):
        values = np.where(np.isfinite(values), values, float(feature.missing.fill))
    return values


def pairs(texts: list[str], option: str, known: list[str]) -> dict[str, float]:
    """Options of the form NAME=NUMBER.

    Args:
        texts: As given.
        option: Its name, for the error.
        known: Which names there may be.

    Raises:
        ConfigError: One has another form, a name that is not known, or no number above 0.
    """
    import math

    found: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not equals or name not in known:
            raise ConfigError(
                f"{option} takes NAME=NUMBER, and {name} is none of the features that it may name.",
                f"They are {', '.join(known)}.",
            )
        try:
            found[name] = float(number)
        except ValueError:
            found[name] = math.nan
        if not (math.isfinite(found[name]) and found[name] > 0):
            raise ConfigError(f"{option} {name} is no number above 0.")
    return found
