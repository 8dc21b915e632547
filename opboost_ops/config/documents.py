"""Reads untrusted YAML and JSON within limits, and rejects duplicate keys.

Before composing a YAML text, its events are checked iteratively. A text of a hundred thousand
brackets, which would crash the composer with a segmentation fault, thus becomes an error with a
line number. So do duplicate keys, of which YAML's own loader silently uses the last, merge keys,
tags, and aliases that expand a small file to a large one.
"""

import json
import math
import os
import re
import stat
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import yaml

from opboost_ops.config.schema import CONTROL_CHARACTERS
from opboost_ops.errors import ConfigError

#: Maximum size of a YAML file, in bytes.
MAX_BYTES = 8 << 20

#: Maximum nesting depth of its mappings and lists.
MAX_DEPTH = 32

_TOO_DEEP = f"is nested deeper than {MAX_DEPTH} levels"

#: Maximum number of keys, entries and values, with aliases expanded.
MAX_NODES = 500_000

#: Maximum length of a key or value, in characters.
MAX_CHARACTERS = 100_000

_CONTROL = re.compile(f"[{CONTROL_CHARACTERS}]")

#: libyaml's safe loader, which is ten times as fast, if PyYAML was built with it.
_FASTEST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_REMEDY = "Correct it there; `opboost check` names the remaining faults."

#: Maximum size of a JSON text, in bytes.
MAX_JSON_BYTES = 64 << 20

#: Maximum nesting depth of its objects and lists.
MAX_JSON_DEPTH = 64


class _LOADER(_FASTEST):  # type: ignore[misc]
    """A loader that reads 010 and 1:30 as text; YAML 1.1 would read eight and ninety."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {
        first: [(tag, form) for tag, form in known if not tag.endswith((":int", ":float"))]
        for first, known in _FASTEST.yaml_implicit_resolvers.items()
    }


for _tag, _form in (
    ("int", r"^[-+]?(?:0|[1-9][0-9_]*)$"),
    (
        "float",
        r"^[-+]?(?:(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?|"
        r"\.(?:inf|Inf|INF))$|^\.(?:nan|NaN|NAN)$",
    ),
):
    _LOADER.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(_form), list("-+0123456789.")
    )

#: Decides by a plain scalar's form whether it is a text; keys are texts.
_RESOLVER, _TEXT = _LOADER(""), "tag:yaml.org,2002:str"


def read_yaml(path: Path) -> Any:
    """Read a YAML file.

    Args:
        path: The file.

    Raises:
        ConfigError: The file cannot be read, is not valid YAML, or exceeds a limit.
    """
    problem, remedy = "", _REMEDY
    try:
        return parse_yaml(bounded_text(path, MAX_BYTES), path.name)
    except UnicodeDecodeError:
        problem = "is not valid YAML: it is not UTF-8 text"
    except OSError:
        problem = "cannot be read"
        remedy = f"Check its path, {path}, and that this user may read it."
    raise ConfigError(problem, remedy, file=path.name)


def parse_yaml(text: str, file: str) -> Any:
    """Parse a text as YAML.

    Args:
        text: A single YAML document.
        file: Name of its file, for errors.

    Raises:
        ConfigError: The text is not valid YAML, or exceeds a limit.
    """
    problem = "is not valid YAML"
    try:
        return deepcopy(_yaml_content(text))
    except _RejectedError as rejected:
        problem = f"{rejected.problem} at line {rejected.line}"
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        # Newer versions of libyaml read ahead, and have a limit of their own.
        deep = "maximum nesting depth" in str(error.problem)
        problem = f"{_TOO_DEEP if deep else problem} at line {line}"
    except (yaml.YAMLError, ValueError, OverflowError):
        pass  # For example a number or date that Python cannot represent.
    raise ConfigError(problem, _REMEDY, file=file)


@lru_cache(maxsize=16)
def _yaml_content(text: str) -> Any:
    """Parse a text; cached, because every stage of a run reads the same few files."""
    _LimitChecker().check(text)
    return yaml.load(text, Loader=_LOADER)  # noqa: S506


def bounded_text(path: Path, most: int) -> str:
    """Read a file's text, up to a size.

    Args:
        path: A file, or a link to one, since mounted files may be links.
        most: Maximum size in bytes.

    Raises:
        OSError: The file cannot be read, or is not a regular file.
        UnicodeDecodeError: The file is not UTF-8 text.
        ConfigError: The file is larger.
    """
    # Non-blocking, because opening a pipe without a writer would wait forever.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("no regular file")
        raw = file.read(most + 1)
    if len(raw) > most:
        raise ConfigError(
            f"is larger than {most} bytes", "Is it the right file? Make it smaller.", file=path.name
        )
    return raw.decode("utf-8")


class _RejectedError(Exception):
    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


@dataclass
class _Node:
    """A mapping or list, while its entries are read.

    Attributes:
        mapping: True if it has keys.
        anchor: Name for aliases.
        keys: Line of each key so far.
        entries: Number of its direct keys and values.
        nodes: Number of all nodes in it, with aliases expanded.
        height: Nesting depth below it.
    """

    mapping: bool
    anchor: str | None = None
    keys: dict[str, int] = field(default_factory=dict)
    entries: int = 0
    nodes: int = 1
    height: int = 1

    @property
    def wants_key(self) -> bool:
        return self.mapping and self.entries % 2 == 0


class _LimitChecker:
    """Checks the events of a text against the limits."""

    def __init__(self) -> None:
        self._open: list[_Node] = []
        self._anchors: dict[str, _Node] = {}

    def check(self, text: str) -> None:
        """Check the whole text.

        Raises:
            yaml.YAMLError: The text is not YAML.
        """
        for event in yaml.parse(text, Loader=_LOADER):
            line = (event.start_mark.line if event.start_mark else 0) + 1
            if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag:
                raise _RejectedError(
                    "is not valid YAML here: tags (!...) are not allowed, and one is", line
                )
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event, line)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event.anchor, line)
            elif isinstance(event, yaml.CollectionStartEvent):
                self._begin(isinstance(event, yaml.MappingStartEvent), event.anchor, line)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._add(self._open.pop(), line)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        if len(event.value) > MAX_CHARACTERS:
            raise _RejectedError(f"has an entry of more than {MAX_CHARACTERS} characters", line)
        if _CONTROL.search(event.value):
            raise _RejectedError("has a control character that affects the display", line)
        if self._open and self._open[-1].wants_key:
            self._key(event.value, event.implicit[0], line)
        self._add(_Node(mapping=False, anchor=event.anchor, height=0), line)

    def _key(self, key: str, plain: bool, line: int) -> None:
        if plain and key == "<<":
            raise _RejectedError("has a merge key (<<), which must be written out,", line)
        if _RESOLVER.resolve(yaml.ScalarNode, key, (plain, not plain)) != _TEXT:
            # Such as 2019, no or null.
            raise _RejectedError("has a key that must be in quotes", line)
        keys = self._open[-1].keys
        if key in keys:
            raise _RejectedError(
                f"has the key {key[:80]} twice: at line {keys[key]}, and again", line
            )
        keys[key] = line

    def _begin(self, mapping: bool, anchor: str | None, line: int) -> None:
        if self._open and self._open[-1].wants_key:
            raise _RejectedError("has a key that is not a plain word", line)
        if len(self._open) == MAX_DEPTH:
            raise _RejectedError(_TOO_DEEP, line)
        self._open.append(_Node(mapping, anchor))

    def _alias(self, anchor: str | None, line: int) -> None:
        if self._open and self._open[-1].wants_key:
            raise _RejectedError("has a key that is not a plain word", line)
        node = self._anchors.get(anchor or "")
        if node is None:
            raise _RejectedError("has an alias of an anchor that is not complete before it", line)
        if len(self._open) + node.height > MAX_DEPTH:
            raise _RejectedError(_TOO_DEEP, line)
        self._add(_Node(mapping=False, nodes=node.nodes, height=node.height), line)

    def _add(self, node: _Node, line: int) -> None:
        """Add a complete node to its parent's counts."""
        if node.anchor is not None:
            self._anchors[node.anchor] = node
        if self._open:
            parent = self._open[-1]
            parent.entries += 1
            parent.nodes += node.nodes
            parent.height = max(parent.height, node.height + 1)
            if parent.nodes > MAX_NODES:
                raise _RejectedError(f"has more than {MAX_NODES} entries", line)


def read_json(raw: bytes) -> Any:
    """Parse a JSON text within limits.

    Args:
        raw: JSON in UTF-8.

    Raises:
        ValueError: The text is not JSON, is too large or too deep, or has a duplicate key or a
            number that is not finite.
        RecursionError: The text is far too deep.
    """
    if len(raw) > MAX_JSON_BYTES:
        raise ValueError("too large")
    value = json.loads(
        raw, object_pairs_hook=_unique_keys, parse_constant=_reject_constant, parse_float=_finite
    )
    level: list[Any] = [value]
    for _ in range(MAX_JSON_DEPTH + 1):
        level = [inner for outer in level for inner in _json_children(outer)]
        if not level:
            return value
    raise ValueError("too deep")


def _json_children(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a key is duplicated")
    return entries


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value
