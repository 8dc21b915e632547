"""YAML and JSON that others write: read within limits, and refused where it says one thing twice.

Before anything is composed, the events of a YAML text are gone through one after the other, which
takes no recursion. So a text of a hundred thousand brackets, which ends the composer with a
segmentation fault, is a message with a line. And so are keys that stand twice, of which YAML's own
loader silently takes the last, merge keys and tags, and aliases that make a small file a large one.
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

from opboost_ops.config.schema import MOVING
from opboost_ops.errors import ConfigError

#: Most bytes of a YAML file.
MOST_BYTES = 8 << 20

#: How deep its mappings and lists may lie in one another.
MOST_DEPTH = 32

_TOO_DEEP = f"goes deeper than {MOST_DEPTH} levels"

#: Most keys, entries and values in it, aliases counted with what they stand for.
MOST_NODES = 500_000

#: Its longest key or value, in characters.
MOST_CHARACTERS = 100_000

_MOVING = re.compile(f"[{MOVING}]")

#: Libyaml's safe loader, ten times as fast, where PyYAML was built with it.
_FASTEST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_REMEDY = "Correct it there; `opboost check` names what is left."

#: Most bytes of a JSON text.
MOST_JSON_BYTES = 64 << 20

#: How deep its objects and lists may lie in one another.
MOST_JSON_DEPTH = 64


class _LOADER(_FASTEST):  # type: ignore[misc]
    """One for which 010 and 1:30 are texts; by YAML 1.1 they are eight and ninety."""

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


def read_yaml(path: Path) -> Any:
    """Read a YAML file.

    Args:
        path: The file.

    Raises:
        ConfigError: It cannot be read, is not valid YAML, or passes a limit.
    """
    problem, remedy = "", _REMEDY
    try:
        return parse_yaml(bounded_text(path, MOST_BYTES), path.name)
    except UnicodeDecodeError:
        problem = "is not valid YAML: it is not UTF-8 text"
    except OSError:
        problem, remedy = "cannot be read", "Check its path, and that this user may read it."
    raise ConfigError(problem, remedy, file=path.name)


def parse_yaml(text: str, file: str) -> Any:
    """Parse a text as YAML.

    Args:
        text: YAML, one document.
        file: Where it is from, for the error.

    Raises:
        ConfigError: It is not valid YAML, or passes a limit.
    """
    problem = "is not valid YAML"
    try:
        return deepcopy(_yaml_content(text))
    except _Refused as refusal:
        problem = f"{refusal.problem} at line {refusal.line}"
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        # Newer versions of libyaml look ahead, and have a limit of their own.
        deep = "maximum nesting depth" in str(error.problem)
        problem = f"{_TOO_DEEP if deep else problem} at line {line}"
    except (yaml.YAMLError, ValueError, OverflowError):
        pass  # A number or a date that Python does not take is among them.
    raise ConfigError(problem, _REMEDY, file=file)


@lru_cache(maxsize=16)
def _yaml_content(text: str) -> Any:
    """Parse a text; every stage of a run reads the same few files."""
    _Reader().read(text)
    return yaml.load(text, Loader=_LOADER)  # noqa: S506


def bounded_text(path: Path, most: int) -> str:
    """A file's text.

    Args:
        path: A file, or a link to one: people's files may be mounted as links.
        most: How many bytes it may have.

    Raises:
        OSError: It cannot be read, or is no regular file.
        UnicodeDecodeError: It is no UTF-8 text.
        ConfigError: It is larger.
    """
    # A pipe without a writer would otherwise be waited for.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("no regular file")
        raw = file.read(most + 1)
    if len(raw) > most:
        raise ConfigError(
            f"is larger than {most} bytes", "Is it the right file? Make it smaller.", file=path.name
        )
    return raw.decode("utf-8")


class _Refused(Exception):  # noqa: N818
    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


@dataclass
class _Node:
    """A mapping or list, open while its entries come.

    Attributes:
        mapping: Whether it has keys.
        anchor: Its name for aliases.
        keys: Line of each key so far.
        entries: Keys and values that came directly in it.
        nodes: All that is in it, aliases counted with what they stand for.
        height: How deep it goes below itself.
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


class _Reader:
    """Goes through the events of one text, and refuses what is beyond the limits."""

    def __init__(self) -> None:
        self._open: list[_Node] = []
        self._anchors: dict[str, _Node] = {}

    def read(self, text: str) -> None:
        """Go through all of it.

        Raises:
            yaml.YAMLError: It is not YAML.
        """
        for event in yaml.parse(text, Loader=_LOADER):
            line = (event.start_mark.line if event.start_mark else 0) + 1
            if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag:
                raise _Refused(
                    "is not valid YAML here: no tag (!...) is known, and one stands", line
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
        if len(event.value) > MOST_CHARACTERS:
            raise _Refused(f"has an entry of more than {MOST_CHARACTERS} characters", line)
        if _MOVING.search(event.value):
            raise _Refused("has a character that moves text on a screen", line)
        if self._open and self._open[-1].wants_key:
            self._key(event.value, event.implicit[0], line)
        self._add(_Node(mapping=False, anchor=event.anchor, height=0), line)

    def _key(self, key: str, plain: bool, line: int) -> None:
        if plain and key == "<<":
            raise _Refused("has a merge key (<<): write the keys out. It stands", line)
        keys = self._open[-1].keys
        if key in keys:
            raise _Refused(f"has the key {key[:80]} twice: at line {keys[key]}, and again", line)
        keys[key] = line

    def _begin(self, mapping: bool, anchor: str | None, line: int) -> None:
        if self._open and self._open[-1].wants_key:
            raise _Refused("has a key that is not a plain word", line)
        if len(self._open) == MOST_DEPTH:
            raise _Refused(_TOO_DEEP, line)
        self._open.append(_Node(mapping, anchor))

    def _alias(self, anchor: str | None, line: int) -> None:
        if self._open and self._open[-1].wants_key:
            raise _Refused("has a key that is not a plain word", line)
        node = self._anchors.get(anchor or "")
        if node is None:
            raise _Refused("has an alias of something that does not stand whole before it", line)
        if len(self._open) + node.height > MOST_DEPTH:
            raise _Refused(_TOO_DEEP, line)
        self._add(_Node(mapping=False, nodes=node.nodes, height=node.height), line)

    def _add(self, node: _Node, line: int) -> None:
        """Count what is complete now in what it stands in."""
        if node.anchor is not None:
            self._anchors[node.anchor] = node
        if self._open:
            parent = self._open[-1]
            parent.entries += 1
            parent.nodes += node.nodes
            parent.height = max(parent.height, node.height + 1)
            if parent.nodes > MOST_NODES:
                raise _Refused(f"has more than {MOST_NODES} entries", line)


def read_json(raw: bytes) -> Any:
    """Read a JSON text.

    Args:
        raw: JSON in UTF-8.

    Raises:
        ValueError: It is none, is too large or goes too deep, has a key twice or a number that is
            not finite.
        RecursionError: It goes far too deep.
    """
    if len(raw) > MOST_JSON_BYTES:
        raise ValueError("too large")
    value = json.loads(
        raw, object_pairs_hook=_unique_keys, parse_constant=_no_number, parse_float=_finite
    )
    level: list[Any] = [value]
    for _ in range(MOST_JSON_DEPTH + 1):
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
        raise ValueError("a key stands twice")
    return entries


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value
