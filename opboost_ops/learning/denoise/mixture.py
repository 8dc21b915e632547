"""Two LightGBM models as one: the mean of their raw scores, in one text that LightGBM loads."""

import re

from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters.lightgbm_backend import LOCAL
from opboost_ops.learning.boosters.lightgbm_text import TextModel

#: What each part's leaves are multiplied by; halving is exact in floats.
_HALF = 0.5

_LEAVES = ("leaf_value=", "internal_value=")


def even_mixture(first: str, second: str) -> str:
    """The even mixture: all trees of both, each leaf at half its value.

    Raw scores are averaged: in regression the predictions, otherwise the log odds of the classes.

    Args:
        first: A LightGBM text model.
        second: Another one of the same features and the same label.

    Returns:
        A LightGBM text model.

    Raises:
        ContractError: The models do not fit together.
    """
    import lightgbm

    heads, trees, tails = zip(*(_parts(text) for text in (first, second)), strict=True)
    if _kept(heads[0]) != _kept(heads[1]):
        raise ContractError("Two models of different features or labels cannot be mixed.")
    numbered = [
        re.sub(r"\ATree=\d+", f"Tree={i}", _halved(tree))
        for i, tree in enumerate([*trees[0], *trees[1]])
    ]
    text = "\n".join([heads[0].rstrip("\n"), "", *numbered, tails[0]])
    # LightGBM writes it again, so that what it says of importances is of all trees.
    written = lightgbm.Booster(model_str=text).model_to_string()
    return TextModel.parse(written).without(LOCAL).text()


def _parts(text: str) -> tuple[str, list[str], str]:
    head, *rest = re.split(r"^(?=Tree=\d+$)", text, flags=re.MULTILINE)
    if not rest:
        raise ContractError("A model without trees cannot be mixed.")
    last, mark, tail = rest[-1].partition("end of trees")
    if not mark:
        raise ContractError("This file is not a complete LightGBM text model.")
    head = "\n".join(line for line in head.split("\n") if not line.startswith("tree_sizes="))
    return head, [*rest[:-1], last], mark + tail


def _kept(head: str) -> list[str]:
    return [line for line in head.split("\n") if not line.startswith("feature_infos=")]


def _halved(tree: str) -> str:
    lines = tree.split("\n")
    for i, line in enumerate(lines):
        if line.startswith(_LEAVES):
            key, _, values = line.partition("=")
            lines[i] = f"{key}=" + " ".join(repr(float(v) * _HALF) for v in values.split())
    return "\n".join(lines)
