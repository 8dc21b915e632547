"""A remedy that says which task to clear names one that a DAG has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import opboost_ops
from opboost_ops.pipeline.phases import stages_in

PACKAGE = Path(opboost_ops.__file__).parent

#: As in "Clear its task `train`", "`boost` tasks" and "Clear its train".
NAMED = re.compile(
    r"\btasks? `(\w+)`|`(\w+)` tasks?\b|\b[Cc]lear (?:its|the run's) (?:task )?(?!task\b)(\w+)"
)


def texts(file: Path) -> Iterator[str]:
    """All text that a module may print, with what is filled in left out."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(p.value) for p in node.values if isinstance(p, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_tasks_of_remedies_are_those_of_dags() -> None:
    named = {
        (next(filter(None, match.groups())), file.name)
        for file in PACKAGE.rglob("*.py")
        for text in texts(file)
        for match in NAMED.finditer(text)
    }
    assert "desensitize" in {name for name, _ in named}
    # "The run's failed task" names none.
    assert [entry for entry in named if not stages_in(entry[0]) and entry[0] != "failed"] == []
