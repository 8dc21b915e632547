"""Scores: the columns of a file of scores, and their delivery to a sink.

Scores are first written to the label holder's folder, so that a failed delivery loses nothing.
A delivery is atomic, so that a retry replaces it.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.federation import Federation
from opboost_ops.config.source import S3, Sink
from opboost_ops.config.training import Scoring
from opboost_ops.errors import ConfigError, ContractError, OpBoostError
from opboost_ops.learning import calibration, metrics
from opboost_ops.learning.boosters.trainer import model_of, predict, shap_values
from opboost_ops.learning.registry.importance import columns_by_feature
from opboost_ops.learning.registry.registry import RowGroups, model_in, write_groups
from opboost_ops.reports.display.tables import plain_texts
from opboost_ops.tables.database import engine_of
from opboost_ops.tables.s3 import S3Bucket
from opboost_ops.tables.spill.arrays import Scratch
from opboost_ops.tables.spill.files import whole_file

SCORE, CLASS = "score", "class"

#: Prefix of the columns of class probabilities.
PROBABILITY = "probability_"

_LOG = logging.getLogger("opboost_ops")

#: Rows per batch of explanations.
_BLOCK = 20_000

#: Database column that identifies the rows of one delivery.
SCORED = "scored_rows"

#: Rows per database insert.
_ROWS = 20_000

_KEPT = "The scores lie in the folder of scores; correct it, and run the task again."


def warn_untrained(facts: Mapping[str, Any], fitted: Mapping[str, Any], scoring: Scoring) -> None:
    """Warn about scoring options that were declared or changed after a version was trained.

    Args:
        facts: The version's facts about its columns: ``task``.
        fitted: The version's own `scoring.json`.
        scoring: The scoring as declared now.
    """
    late = {
        "calibration": scoring.calibration is not None and "calibration" not in fitted,
        "interval": scoring.interval is not None and fitted.get("interval") is None,
    }
    of_task = {"binary": ("calibration",), "regression": ("interval",)}
    for key in of_task.get(facts["task"], ()):
        if late[key]:
            _LOG.warning(
                "scoring.%s was declared after this version was trained, or otherwise; its scores "
                "follow what it was trained with. Train a new version.",
                key,
            )


@dataclass(frozen=True)
class RowScorer:
    """A version that scores rows, both in batches and one at a time.

    Attributes:
        federation: The federation under which rows are scored.
        facts: The version's facts about its columns: ``names``, ``task`` and ``classes``.
        fitted: The version's own `scoring.json` for the scoring mode.
        text: The model.
    """

    federation: Federation
    facts: Mapping[str, Any]
    fitted: Mapping[str, Any]
    text: str

    @classmethod
    def of(cls, files: Mapping[str, bytes], federation: Federation) -> "RowScorer":
        """Read a version.

        Args:
            files: The version's files.
            federation: The federation under which rows are scored.

        Raises:
            ContractError: The model is damaged.
        """
        fitted = json.loads(files.get("scoring.json", b"{}"))
        facts, mode = json.loads(files["columns.json"]), federation.scoring.mode
        return cls(federation, facts, fitted.get(mode, {}), model_in(files))

    def used(self) -> set[str]:
        """Return the full names of columns on which the model splits by a threshold."""
        return set(model_of(self.text).numeric_splits())

    def score(
        self, columns: dict[str, np.ndarray], rows: int, reasons: int = 0, **more: pa.Array
    ) -> dict[str, pa.Array]:
        """Score rows.

        Args:
            columns: The model's columns by full name, shape (rows,) each; emptied to save memory.
            rows: Number of rows.
            reasons: Number of features to name per score.
            more: Columns to insert between scores and reasons.

        Returns:
            The columns of `score_columns`, the inserted ones, and those of `reason_columns`.
        """
        names = self.facts["names"]
        matrix = np.empty((rows, len(names)), dtype=np.float64, order="F")
        for i, name in enumerate(names):
            matrix[:, i] = columns.pop(name)
        prediction = predict(self.text, matrix)
        scores = score_columns(self.facts, self.fitted, self.federation.scoring, prediction) | more
        if reasons:
            scores |= reason_columns(self.federation, names, self.text, matrix, reasons)
        return scores


def score_columns(
    facts: Mapping[str, Any], fitted: Mapping[str, Any], scoring: Scoring, prediction: np.ndarray
) -> dict[str, pa.Array]:
    """Return scores, decisions and probabilities.

    Args:
        facts: The version's facts about its columns: ``task`` and ``classes``.
        fitted: The version's own `scoring.json`.
        scoring: The scoring as declared now.
        prediction: The model's output, shape (n,) or (n, classes).

    Returns:
        ``score``: the positive class's probability, the likeliest class's, or a number; ``class``,
        null in regression; one ``probability_<class>`` per class; ``uncalibrated`` if the score is
        calibrated; ``low`` and ``high`` of a number's interval.
    """
    classes: list[str | int] = facts["classes"]
    if not classes:
        columns = {SCORE: pa.array(prediction), CLASS: pa.nulls(len(prediction), pa.string())}
        return columns | _interval_columns(fitted, prediction)
    names = pl.Series(classes)
    if prediction.ndim == 2:
        picked = prediction.argmax(axis=1)
        columns = {SCORE: pa.array(prediction.max(axis=1)), CLASS: names[picked].to_arrow()}
        return columns | _probability_columns(fitted, classes, prediction)
    score = prediction
    more = {}
    if "calibration" in fitted:
        score = calibration.apply(fitted["calibration"], prediction)
        more["uncalibrated"] = pa.array(prediction)
    picked = (score > metrics.threshold(scoring.cost_ratio)).astype(np.int64)
    columns = {SCORE: pa.array(score), CLASS: names[picked].to_arrow()}
    return (
        columns | _probability_columns(fitted, classes, np.column_stack([1 - score, score])) | more
    )


def reason_columns(
    federation: Federation, names: list[str], text: str, matrix: np.ndarray, count: int
) -> dict[str, pa.Array]:
    """Return the features that contribute most to each row's raw score, largest first.

    Contributions of one nominal feature's bits are added, since they mean something only together.
    With several classes the raw score is that of the likeliest class.

    Args:
        federation: The federation that the version was trained with.
        names: The model's columns.
        text: The model.
        matrix: The rows, shape (n, features).
        count: Number of features to name.

    Returns:
        ``reason_<i>_party``, ``_feature`` and ``_contribution``; ``reasons_base``, the expected raw
        score; ``reasons_rest``, the contribution of all unnamed features; and their sum
        ``raw_score``. Units are log odds, a raw class score or the number's own scale.
    """
    at = {name: i for i, name in enumerate(names)}
    groups = [
        (party, feature, [at[column] for column in columns if column in at])
        for (party, feature), columns in columns_by_feature(federation).items()
    ]
    blocks = [
        _explained(text, matrix[begin : begin + _BLOCK], [columns for _, _, columns in groups])
        for begin in range(0, len(matrix), _BLOCK)
    ]
    parts, base = (np.concatenate([block[i] for block in blocks]) for i in (0, 1))
    order = np.argsort(-np.abs(parts), axis=1, kind="stable")[:, :count]
    parties, features = (np.array([group[i] for group in groups], dtype=object) for i in (0, 1))
    reasons: dict[str, pa.Array] = {}
    named = np.take_along_axis(parts, order, axis=1)
    for i in range(order.shape[1]):
        reasons[f"reason_{i + 1}_party"] = pa.array(parties[order[:, i]], pa.string())
        reasons[f"reason_{i + 1}_feature"] = pa.array(features[order[:, i]], pa.string())
        reasons[f"reason_{i + 1}_contribution"] = pa.array(named[:, i])
    np.put_along_axis(parts, order, 0.0, axis=1)
    rest = parts.sum(axis=1)
    return reasons | {
        "reasons_base": pa.array(base),
        "reasons_rest": pa.array(rest),
        "raw_score": pa.array(base + named.sum(axis=1) + rest),
    }


def _explained(
    text: str, matrix: np.ndarray, groups: list[list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    contributions = shap_values(text, matrix)
    if contributions.shape[1] > 1:
        best = contributions.sum(axis=2).argmax(axis=1)
        of_class = contributions[np.arange(len(contributions)), best]
    else:
        of_class = contributions[:, 0]
    parts = np.column_stack([of_class[:, columns].sum(axis=1) for columns in groups])
    return parts, of_class[:, -1]


def _probability_columns(
    fitted: Mapping[str, Any], classes: list[str | int], table: np.ndarray
) -> dict[str, pa.Array]:
    if not fitted:
        return {}
    return {f"{PROBABILITY}{name}": pa.array(table[:, i]) for i, name in enumerate(classes)}


def _interval_columns(fitted: Mapping[str, Any], prediction: np.ndarray) -> dict[str, pa.Array]:
    interval = fitted.get("interval")
    if interval is None:
        return {}
    half = interval["half_width"]
    if half is None:
        empty = pa.nulls(len(prediction), pa.float64())
        return {"low": empty, "high": empty}
    return {"low": pa.array(prediction - half), "high": pa.array(prediction + half)}


def deliver(
    sink: Sink, groups: RowGroups, column: str, version: str, name: str, scratch: Scratch
) -> None:
    """Write scores to a sink.

    Args:
        sink: The destination.
        groups: The scores, with the model's version as a column; at least one row group.
        column: Name of that column.
        version: The model's version.
        name: Name of the delivery: the same rows, model and mode give the same name.
        scratch: Holds a file until it is sent.

    Raises:
        OpBoostError: The sink rejects the scores.
        ConnectionError: The sink cannot be reached.
    """
    failure: Exception
    try:
        url, frames = sink.url(), map(_plain_columns, groups())
        if url.startswith(S3):
            bucket, _, prefix = url.removeprefix(S3).partition("/")
            with scratch.file() as file:
                _write(file, frames, sink)
                file.seek(0)
                S3Bucket(bucket, prefix.strip("/")).put(f"{version}/{name}.{sink.format}", file)
        elif "://" in url:
            named = (frame.with_columns(pl.lit(name).alias(SCORED)) for frame in frames)
            _insert(url, sink.table or "", named, {column: version, SCORED: name})
        else:
            with whole_file(Path(url) / version / f"{name}.{sink.format}") as file:
                _write(file, frames, sink)
        return
    except ConnectionError:
        failure = ConnectionError("What scores_to in site.yaml names cannot be reached.")
    except OpBoostError as error:
        failure = type(error)(f"scores_to in site.yaml: {error.problem}", error.remedy)
    except OSError as error:
        failure = ConfigError(
            f"The folder that scores_to in site.yaml names cannot be written "
            f"({type(error).__name__}).",
            _KEPT,
        )
    # Without the original exception, whose text may show paths and rows.
    raise failure from None


def _plain_columns(table: pa.Table) -> pl.DataFrame:
    """Convert scores to flat columns: lists and structs as JSON, categories as text."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    frame = frame.with_columns(pl.col(pl.Categorical).cast(pl.String))
    nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
    return frame.with_columns(
        pl.Series(
            name,
            [json.dumps(v) if v is not None else None for v in frame[name].to_list()],
            pl.String,
        )
        for name in nested
    )


def _write(file: IO[bytes], frames: Iterator[pl.DataFrame], sink: Sink) -> None:
    if sink.format == "csv":
        for number, frame in enumerate(frames):
            # The first column is the ID, which programs join on.
            safe = plain_texts(frame, frame.columns[:1])
            safe.write_csv(file, include_header=not number)
    else:
        oldest = pl.CompatLevel.oldest()
        write_groups(file, (frame.to_arrow(compat_level=oldest) for frame in frames))


def _insert(url: str, name: str, frames: Iterator[pl.DataFrame], same: dict[str, str]) -> None:
    """Replace the rows of one delivery in a table, in one transaction."""
    import sqlalchemy as sa

    schema, _, plain = name.rpartition(".")
    first = next(frames)
    types = {pl.String: sa.Text, pl.Boolean: sa.Boolean}
    names = _distinct_names(first.columns)
    columns: list[sa.Column[Any]] = [
        sa.Column(
            names[column],
            sa.BigInteger if kind.is_integer() else types.get(type(kind), sa.Double),
        )
        for column, kind in first.schema.items()
    ]
    table = sa.Table(plain, sa.MetaData(), *columns, schema=schema or None)
    failure: Exception
    try:
        engine = engine_of(url, "the label holder")
        try:
            with engine.begin() as connection:
                table.create(connection, checkfirst=True)
                old = [table.c[names[column]] == value for column, value in same.items()]
                connection.execute(sa.delete(table).where(*old))
                for frame in chain([first], frames):
                    for rows in frame.iter_slices(_ROWS):
                        connection.execute(sa.insert(table), rows.rename(names).to_dicts())
            return
        finally:
            engine.dispose()
    except sa.exc.OperationalError as error:
        failure = ConnectionError()
        if url.startswith("sqlite"):
            failure = _database_error(error)
    except sa.exc.SQLAlchemyError as error:
        failure = _database_error(error)
    raise failure from None


def _distinct_names(columns: Sequence[str]) -> dict[str, str]:
    """Make column names distinct for a case-insensitive database by appending numbers."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for column in columns:
        name, number = column, 1
        while name.lower() in taken:
            number += 1
            name = f"{column}_{number}"
        taken.add(name.lower())
        names[column] = name
    return names


def _database_error(error: Exception) -> ContractError:
    return ContractError(
        f"the database does not take the scores ({type(error).__name__}); nothing was written.",
        "Is there a table of that name with other columns? May this user make one? " + _KEPT,
    )
