"""The label that `opboost init` declares: its task, and which class is the positive one."""

import shlex
from collections.abc import Callable
from typing import Any

import polars as pl

from opboost_ops.config.feature import canonical
from opboost_ops.config.federation import LearningTask
from opboost_ops.errors import ConfigError
from opboost_ops.tables.categories import class_values, implausible, is_number, label_values

#: Whole numbers of more different values are a quantity, unless a person says otherwise.
_MOST_WHOLE = 10


def label_entry(
    values: pl.Series,
    positive: str | None,
    task: LearningTask | None,
    ask: Callable[[str, list[str]], str | None] | None,
) -> dict[str, Any]:
    """The label's entry in the offer, with the positive class last.

    Args:
        values: The label column, without gaps.
        positive: Which of two classes is the positive one.
        task: What is learnt; guessed when absent.
        ask: Returns the positive class of a label, by its name and classes.

    Raises:
        ConfigError: The task does not fit the column, or the positive class is not known.
    """
    values = label_values(values)
    learnt = task or _guessed(values)
    _require_task(values, learnt)
    if learnt != "binary":
        if positive is not None:
            raise ConfigError(
                f"--positive is for two classes; {values.name} has {values.n_unique()}.",
                "Leave it out.",
            )
        return {"column": values.name, "task": learnt}
    return {
        "column": values.name,
        "task": "binary",
        "classes": _ordered(values, positive, ask),
    }


def _guessed(values: pl.Series) -> LearningTask:
    classes, kind = values.n_unique(), values.dtype
    if classes == 2:
        return "binary"
    if not kind.is_numeric():
        return "multiclass"
    whole = kind.is_integer() or bool((values == values.round()).all())
    return "multiclass" if whole and classes <= _MOST_WHOLE else "regression"


def _require_task(values: pl.Series, task: LearningTask) -> None:
    name, classes = values.name, values.n_unique()
    number = values.dtype.is_numeric()
    if task == "regression" and not number:
        text = values.dtype == pl.String and is_number(values)
        why = "is text, although its values are numbers" if text else "is not a number"
        raise ConfigError(
            f"The label {name} {why}: regression needs a column of numbers.",
            "Store it as a number column, or name another column by --label.",
        )
    if task == "binary" and classes != 2:
        raise ConfigError(
            f"The label {name} has {classes:,} values, and binary needs two.",
            "Pass --task multiclass or --task regression.",
        )
    if task == "multiclass" and (why := implausible(values)):
        raise ConfigError(
            f"The label {name} {why}: too many to learn.",
            "To predict a number, store it as a number column; otherwise group the classes, or "
            "name another column by --label.",
        )


def _ordered(
    values: pl.Series, positive: str | None, ask: Callable[[str, list[str]], str | None] | None
) -> list[Any]:
    """Both classes, the positive one last."""
    whole = class_values(values)
    number = whole.dtype.is_integer()
    if values.dtype.is_numeric() and not number:
        raise ConfigError(
            f"The two values of the label {values.name} are not whole numbers, as classes are.",
            "Store them as texts or as 0 and 1; or pass --task regression.",
        )
    classes = whole.unique().sort().to_list()
    if positive is None and not number:
        positive = ask(values.name, classes) if ask else None
    if positive is None and not number:
        raise ConfigError(
            f"The label {values.name} has the classes {classes[0]} and {classes[1]}: which one is "
            "the positive one?",
            f"Pass --positive {shlex.quote(classes[1])}, or the other: scores are its probability.",
        )
    if positive is not None:
        positive = canonical(positive)
        if positive not in [str(value) for value in classes]:
            listed = " and ".join(map(str, classes))
            raise ConfigError(f"--positive {positive} is not one of the classes {listed}.")
        classes.sort(key=lambda value: str(value) == positive)
    return classes
