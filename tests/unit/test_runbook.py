"""The runbook knows every error and reason, quotes messages that exist, and names real commands."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import typer

import opboost_ops
from opboost_ops.cli import app
from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.rejection import Reason

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()

#: What stands for something else in a quoted message.
_GAP = re.compile(r"\.\.\.|<[A-Z]+>|\b[NM]\b")


def first_cells(title: str) -> list[str]:
    """The first column of all tables of the runbook that have this title over it."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", RUNBOOK, re.MULTILINE):
        head, _, *rows = (line.split("|")[1].strip() for line in table.splitlines())
        found += rows if head == title else []
    return found


def errors(root: type[OpBoostError]) -> Iterator[str]:
    for child in root.__subclasses__():
        yield child.__name__
        yield from errors(child)


def test_every_error_has_an_entry() -> None:
    for module in pkgutil.walk_packages(opboost_ops.__path__, "opboost_ops."):
        if (
            module.name != "opboost_ops.extras.export.mlflow_scorer"
        ):  # MLflow's own copy runs; an extra.
            importlib.import_module(module.name)
    known = {name for name in errors(OpBoostError) if not name.startswith("_")}
    assert set(re.findall(r"`(\w+)`", "".join(first_cells("error")))) == known


def test_every_reason_has_an_entry() -> None:
    assert [cell.strip("`") for cell in first_cells("reason")] == list(get_args(Reason))


def test_quoted_messages_are_those_of_the_code() -> None:
    texts = []
    for path in (ROOT / "opboost_ops").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (v.value if isinstance(v, ast.Constant) else "\0" for v in node.values)
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    code = "\n".join(texts)
    quoted = [part for cell in first_cells("message") for part in re.findall(r"`([^`]+)`", cell)]
    assert len(quoted) > 40
    for message in quoted:
        pieces = [piece.strip() for piece in _GAP.split(message) if piece.strip()]
        assert pieces
        assert [piece for piece in pieces if piece not in code] == [], message


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_options_exist(page: Path) -> None:
    group = typer.main.get_command(app)
    text = page.read_text().replace("\\\n", " ")
    lines = re.findall(r"(?:^\s*\$ |`)opboost ([^`\n]+)", text, re.MULTILINE)
    for line in lines:
        words = line.split()
        command = group
        while hasattr(command, "commands") and words and not words[0].startswith("--"):
            assert words[0] in command.commands, f"opboost {line}"
            command = command.commands[words.pop(0)]
        options = {name for parameter in command.params for name in parameter.opts}
        used = [word for word in words if word.startswith("--")]
        assert [word for word in used if word not in options] == [], f"opboost {line}"
    targets = (ROOT / "Makefile").read_text()
    for name in re.findall(r"(?:^\s*\$ |`)make ([a-z][a-z-]*)", text, re.MULTILINE):
        assert f"\n{name}: " in targets, f"make {name}"
