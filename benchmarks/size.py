"""The size of the project: code tokens, files and folders, commands, key paths, odd words.

A code token is a name, a number, an operator or a string as `tokenize` reads them: comments,
docstrings, line ends and indentation do not count, so that explaining costs nothing.

The structure is that of the package `opboost_ops`: the packages and modules at its root; its Python
files, those of under 60 lines, the files of its largest folder; the places to touch to add a step
(`places_to_add_a_step`). So are the words: docstrings of one word or that begin with "What" or
"Whether", and locals of a name that tells nothing of their content (`EMPTY_NAMES`).
"""

import argparse
import ast
import io
import json
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "opboost_ops"
FOLDERS = ("opboost_ops", "benchmarks", "tests")
SHORT_FILE = 60

#: Names of locals that say how a value came, and not what it is.
EMPTY_NAMES = {
    *("answered", "asked", "chosen", "found", "given", "held", "kept"),
    *("known", "made", "meant", "one", "said", "seen", "told"),
}
#: Steps whose name also is a run's purpose.
_PURPOSES = {"score", "train"}

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, *_FUNCTIONS)


def main() -> None:
    """Print the sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    numbers = sizes()
    if options.json:
        print(json.dumps(numbers))
        return
    for name, number in numbers.items():
        print(f"{name:32}{number:>10,}")


def sizes() -> dict[str, int]:
    """Measure everything."""
    from opboost_ops.config.federation import Federation
    from opboost_ops.config.policy import Policy

    commands, options = commands_and_options()
    return {
        **{f"{name}_tokens": folder_tokens(ROOT / name) for name in FOLDERS},
        **structure(PACKAGE),
        "places_to_add_a_step": len(places_to_add_a_step(PACKAGE)),
        **words(PACKAGE),
        "commands": commands,
        "options": options,
        "federation_key_paths": len(key_paths(Federation)),
        "policy_key_paths": len(key_paths(Policy)),
        "import_circle_files": len(largest_import_circle(PACKAGE)),
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


def structure(package: Path) -> dict[str, int]:
    """Count a package's packages and modules, its files, short files and its largest folder's."""
    files = sorted(package.rglob("*.py"))
    root = {path.relative_to(package).parts[0] for path in files} - {"__init__.py"}
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in files]
    return {
        "root_packages_and_modules": len(root),
        "files": len(files),
        "files_under_60_lines": sum(count < SHORT_FILE for count in lines),
        "largest_folder": max(Counter(path.parent for path in files).values()),
    }


def places_to_add_a_step(package: Path) -> list[str]:
    """List the files that list steps of the protocol, or kinds of the artifacts that steps publish.

    A list names two or more of them: a value at the top of a module; or within a function or class
    the entries of a tuple, list or set, the keys of a dictionary, or all that values are compared
    to. A function that reads, sends or calls a step or kind by its name does so for its own job,
    and need not change when another is added: it does not count. Nor do the files in which steps
    are defined.
    """
    from typing import get_args

    from opboost_ops.exchange.manifest import Kind
    from opboost_ops.pipeline.catalogue import STAGES

    names = (set(STAGES) | set(get_args(Kind)) - {"plan"}) - _PURPOSES
    own = {step.__module__ for step in STAGES.values()}

    def lists(statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            nodes = list(ast.walk(statement))
            variables = {node.id for node in nodes if isinstance(node, ast.Name)}
            return len((_texts(nodes) | variables) & names) > 1
        compared: list[ast.AST] = []
        for node in ast.walk(statement):
            entries: list[Any] = []
            if isinstance(node, ast.Tuple | ast.List | ast.Set):
                entries = node.elts
            elif isinstance(node, ast.Dict):
                entries = node.keys
            elif isinstance(node, ast.Compare):
                compared += [node.left, *node.comparators]
            elif isinstance(node, ast.MatchValue):
                compared.append(node.value)
            if len(_texts(entries) & names) > 1:
                return True
        return len(_texts(compared) & names) > 1

    return [
        str(path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        if _module_name(path, package) not in own
        and any(map(lists, ast.parse(path.read_text(encoding="utf-8")).body))
    ]


def _texts(nodes: Iterable[ast.AST]) -> set[str]:
    """Texts among nodes."""
    values = {node.value for node in nodes if isinstance(node, ast.Constant)}
    return {value for value in values if isinstance(value, str)}


def words(package: Path) -> dict[str, int]:
    """Count docstrings and locals that tell nothing of their subject."""
    docstrings = names = 0
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, _WITH_DOCSTRING) and (text := ast.get_docstring(node)) is not None:
                docstrings += len(text.split()) == 1 or text.split()[0] in ("What", "Whether")
            if isinstance(node, _FUNCTIONS):
                names += len(_locals(node) & EMPTY_NAMES)
    return {"docstrings_of_one_word_or_what": docstrings, "locals_of_empty_names": names}


def _locals(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names that a function binds, its arguments too, without those of functions within it."""
    names: set[str] = set()
    nodes: list[ast.AST] = [*ast.iter_child_nodes(function)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            nodes += ast.iter_child_nodes(node)
    return names


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
    paths: set[str] = set()

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
            paths.add(f"{path}{name}")
            walk(member, f"{path}{name}.", within)
        for entries in (*node.get("patternProperties", {}).values(), *_entries(node)):
            walk(entries, f"{path}*.", within)

    walk(schema, "", ())
    return paths


def _entries(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    members = [node.get(key) for key in ("additionalProperties", "items")]
    return [entries for entries in members if isinstance(entries, Mapping)]


def largest_import_circle(package: Path) -> list[str]:
    """Name the files of the largest circle of imports, those inside functions and by name too."""
    modules = {_module_name(path, package) for path in package.rglob("*.py")}
    graph = {name: _imported(name, package.parent, modules) for name in sorted(modules)}
    return max(_circles(graph), key=len, default=[])


def _module_name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


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
    _, labels = connected_components(edges, connection="strong")
    members = ([n for n, at in zip(names, labels, strict=True) if at == i] for i in set(labels))
    return [circle for circle in members if len(circle) > 1]


if __name__ == "__main__":
    main()
