"""The size of the project: code tokens, commands and options, key paths of the two files.

A code token is a name, a number, an operator or a string as `tokenize` reads them: comments,
docstrings, line ends and indentation do not count, so that explaining costs nothing.
"""

import argparse
import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("opboost_ops", "benchmarks", "tests")

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def main() -> None:
    """Print the sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    found = sizes()
    if options.json:
        print(json.dumps(found))
        return
    for name, number in found.items():
        print(f"{name:32}{number:>10,}")


def sizes() -> dict[str, int]:
    """Measure everything."""
    from opboost_ops.config.federation import Federation
    from opboost_ops.config.policy import Policy

    commands, options = commands_and_options()
    return {
        **{f"{name}_tokens": folder_tokens(ROOT / name) for name in FOLDERS},
        "commands": commands,
        "options": options,
        "federation_key_paths": len(key_paths(Federation)),
        "policy_key_paths": len(key_paths(Policy)),
        "import_circle_files": len(largest_import_circle(ROOT / "opboost_ops")),
    }


def code_tokens(source: str) -> int:
    """Count the code tokens of a module.

    An f-string counts once, as it did before Python 3.12.
    """
    docstrings = _docstrings(source)
    count = depth = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        if name == "FSTRING_START":
            depth += 1
            count += depth == 1
        elif name == "FSTRING_END":
            depth -= 1
        elif depth == 0 and token.type not in _LAYOUT and token.start not in docstrings:
            count += 1
    return count


def _docstrings(source: str) -> set[tuple[int, int]]:
    """Where the docstrings of a module, its classes and functions start."""
    starts = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            starts.add((first.lineno, first.col_offset))
    return starts


def folder_tokens(folder: Path) -> int:
    """Count the code tokens of a folder's Python files."""
    files = (path for path in folder.rglob("*.py") if not set(path.parts) & {".venv", ".opboost"})
    return sum(code_tokens(path.read_text(encoding="utf-8")) for path in files)


def commands_and_options() -> tuple[int, int]:
    """Count the commands of the command line that are not hidden, and all options."""
    import typer

    from opboost_ops.cli import app

    def leaves(command: Any) -> Iterator[Any]:
        if command.hidden:
            return
        members = getattr(command, "commands", None)
        if members is None:
            yield command
            return
        for member in members.values():
            yield from leaves(member)

    root: Any = typer.main.get_command(app)
    commands = list(leaves(root))
    options = [
        parameter
        for command in [root, *commands]
        for parameter in command.params
        if parameter.param_type_name == "option" and not getattr(parameter, "hidden", False)
    ]
    return len(commands), len(options)


def key_paths(model: type) -> set[str]:
    """List the paths of keys that a file of this pydantic model may have.

    A mapping's own keys are one step, ``*``, and so are a list's entries.
    """
    from pydantic import TypeAdapter

    schema = TypeAdapter(model).json_schema()
    found: set[str] = set()

    def walk(node: Mapping[str, Any], path: str, within: tuple[str, ...]) -> None:
        if reference := node.get("$ref"):
            if reference not in within:
                name = reference.rsplit("/", 1)[1]
                walk(schema["$defs"][name], path, (*within, reference))
            return
        for choice in ("anyOf", "oneOf", "allOf"):
            for member in node.get(choice, ()):
                walk(member, path, within)
        for name, member in node.get("properties", {}).items():
            found.add(f"{path}{name}")
            walk(member, f"{path}{name}.", within)
        for entries in (*node.get("patternProperties", {}).values(), *_entries(node)):
            walk(entries, f"{path}*.", within)

    walk(schema, "", ())
    return found


def _entries(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = [node.get(key) for key in ("additionalProperties", "items")]
    return [entries for entries in found if isinstance(entries, Mapping)]


def largest_import_circle(package: Path) -> list[str]:
    """Name the files of the largest circle of imports, those inside functions and by name too."""
    modules = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in package.rglob("*.py")
    }
    graph = {name: _imported(name, package.parent, modules) for name in sorted(modules)}
    return max(_circles(graph), key=len, default=[])


def _imported(name: str, root: Path, modules: set[str]) -> set[str]:
    path = root.joinpath(*name.split("."))
    package = path.is_dir()
    source = (path / "__init__.py" if package else path.with_suffix(".py")).read_text("utf-8")
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= set(re.findall(r"\Aopboost_ops(?:\.\w+)+", node.value))
    return {imported for imported in names if imported in modules} - {name}


def _circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one file."""
    import numpy as np
    from scipy.sparse.csgraph import connected_components

    names = sorted(graph)
    edges = np.array([[other in graph[name] for other in names] for name in names])
    _, circle = connected_components(edges, connection="strong")
    members = ([n for n, at in zip(names, circle, strict=True) if at == i] for i in set(circle))
    return [found for found in members if len(found) > 1]


if __name__ == "__main__":
    main()
