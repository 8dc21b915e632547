"""A stack of models as one text, and as files of a version's folder.

The text is a JSON object that begins with ``{"stack"``: ``names`` of all columns, ``own`` ones,
``weights`` by part, ``models``, which are LightGBM texts by part, and ``latent``: the latent
classes, or null. In a folder each model and the latent classes are files of their own.
"""

import json
from collections.abc import Mapping
from typing import Any

from opboost_ops.errors import ContractError

#: How the text begins.
MARK = '{"stack"'

#: In a version's folder: the stack without its parts, and the latent classes.
FILE, CLASSES = "stack.json", "stack_classes.json"

#: The parts, in the order in which they are added up. ``plain``: what ``denoise: none`` trains.
#: ``means``: on posterior means of what is behind a release as further columns. ``behind``: the
#: joint model's mean over draws of what is behind. ``own``: the label holder's columns alone.
PARTS = ("plain", "means", "behind", "own")

#: Of the format. A reader of one number reads no other.
VERSION = 1


def read(text: str) -> dict[str, Any]:
    """The entries of a stack's text.

    Args:
        text: A stack.

    Raises:
        ContractError: It is none, or one of another release's format.
    """
    try:
        found: dict[str, Any] = json.loads(text)
        version, plain = found["stack"], found["models"]["plain"]
    except (ValueError, KeyError, TypeError):
        raise ContractError("This file is no stack of models.") from None
    if version != VERSION or not isinstance(plain, str):
        raise ContractError(
            "This stack is of another release's format.", "Score it with the release that made it."
        )
    return found


def with_plain(text: str, plain: str) -> str:
    """The same stack with another text of its plain part.

    Args:
        text: A stack.
        plain: With split values instead of ranks.
    """
    found = read(text)
    return json.dumps({**found, "models": {**found["models"], "plain": plain}})


def files(text: str) -> dict[str, bytes]:
    """A stack as files of a version's folder.

    Args:
        text: A stack.
    """
    head = read(text)
    models, latent = head["models"], head["latent"]
    named = {name: part_file(name) for name in models}
    head |= {"models": named, "latent": None if latent is None else CLASSES}
    found = {FILE: json.dumps(head, indent=1).encode()}
    found |= {named[name]: model.encode() for name, model in models.items()}
    return found if latent is None else {**found, CLASSES: json.dumps(latent).encode()}


def whole(found: Mapping[str, bytes]) -> str:
    """The one text of a version's files.

    Args:
        found: What `files` gave, among others.

    Raises:
        ContractError: A part is missing.
    """
    try:
        head = json.loads(found[FILE])
        models = {name: found[file].decode() for name, file in head["models"].items()}
        latent = None if head["latent"] is None else json.loads(found[head["latent"]])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ContractError(
            "A stack lacks one of its parts.", "Put another version into use."
        ) from None
    return json.dumps({**head, "models": models, "latent": latent})


def part_file(name: str) -> str:
    """In which file of a version a part is.

    Args:
        name: Of `PARTS`.
    """
    return f"stack_{name}.txt"
