"""References in comments and docstrings lead to what they name."""

import ast
import importlib.util
import json
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "opboost_ops"
FILES = sorted(PACKAGE.rglob("*.py"))

#: A name with dots between single backticks: of the package, of a library, a file or a key.
DOTTED = re.compile(r"(?<!`)`((?:[\w-]+/)*\w+(?:\.\w+)+)`(?!`)")
SUFFIXES = {".csv", ".html", ".json", ".jsonl", ".md", ".sqlite", ".yaml"}


@cache
def modules() -> dict[str, set[str]]:
    """Top-level names of each module of the package, by its dotted path."""
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): {
            *_names(ast.parse(file.read_text()))
        }
        for file in FILES
    }


def _names(node: ast.AST) -> Iterator[str]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield inner.name
        elif isinstance(inner, ast.Assign | ast.AnnAssign):
            yield from (n.id for n in ast.walk(inner) if isinstance(n, ast.Name))
        elif isinstance(inner, ast.If | ast.Try | ast.With):
            yield from _names(inner)


@cache
def classes() -> dict[str, set[str]]:
    """Attributes and methods of each class, by its name, inherited ones among them."""
    own: dict[str, set[str]] = defaultdict(set)
    bases: dict[str, set[str]] = defaultdict(set)
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.ClassDef):
                continue
            bases[node.name] |= {name.id for name in node.bases if isinstance(name, ast.Name)}
            own[node.name] |= {*_names(node)} | {
                inner.attr
                for inner in ast.walk(node)
                if isinstance(inner, ast.Attribute)
                and isinstance(inner.value, ast.Name)
                and inner.value.id == "self"
            }
    return {name: own[name].union(*(own[base] for base in bases[name])) for name in list(own)}


@cache
def keys() -> set[str]:
    """Names of all keys of the declared files."""
    names: set[str] = set()
    for file in (ROOT / "schemas").glob("*.schema.json"):
        schema = json.loads(file.read_text())
        for model in (schema, *schema.get("$defs", {}).values()):
            names |= set(model.get("properties", {}))
    return names


def leads_somewhere(reference: str) -> bool:
    """Whether there is what a reference names."""
    if reference.endswith(".py"):
        # Of this project, or of an Airflow installation.
        return any((at / reference).exists() for at in (ROOT, PACKAGE)) or "/" not in reference
    if Path(reference).suffix in SUFFIXES:
        return True
    if "/" in reference:
        return False
    head, *rest = reference.split(".")
    if head in classes():
        return rest[0] in classes()[head]
    if rest[:-1] and rest[-2] in classes():
        return rest[-1] in classes()[rest[-2]] and leads_somewhere(reference.rpartition(".")[0])
    for known, names in modules().items():
        path, _, name = f"{known}.".rpartition(reference + ".")
        if not name and (not path or path.endswith(".")):
            return True
        within = f".{known}".endswith(f".{reference.rpartition('.')[0]}")
        if within and rest[-1] in names:
            return True
    if {head, *rest} <= keys():
        return True
    return head != "opboost_ops" and importlib.util.find_spec(head) is not None


def references(file: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each dotted reference in a file's comments and docstrings."""
    with file.open("rb") as content:
        for token in tokenize.tokenize(content.readline):
            text = token.string
            if token.type == tokenize.COMMENT or (
                token.type == tokenize.STRING and text.startswith('"""')
            ):
                yield from ((token.start[0], name) for name in DOTTED.findall(text))


def test_dotted_references_lead_to_what_they_name() -> None:
    lost = [
        f"{file.relative_to(ROOT)}:{line}: {reference}"
        for file in FILES
        for line, reference in references(file)
        if not leads_somewhere(reference)
    ]
    assert lost == []


def test_decisions_are_numbered_without_gaps_and_named_by_their_number() -> None:
    folder = ROOT / "docs" / "adr"
    numbers = {int(file.name[:4]): file for file in folder.glob("[0-9]*.md")}
    # New ones have numbers from 60 on until a release puts them in order.
    ordered = [number for number in sorted(numbers) if number < 60]
    assert ordered == list(range(1, len(ordered) + 1))
    wrong = [f.name for n, f in numbers.items() if not f.read_text().startswith(f"# {n}. ")]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *FILES]
    for page in pages:
        text = page.read_text()
        wrong += [
            f"{page.name}: ADR {number}"
            for number, name in re.findall(r"\[ADR\s(\d+)\]\(\S*?(\d{4})-[\w-]+\.md\)", text)
            if int(number) != int(name)
        ]
        wrong += [
            f"{page.name}: {name}"
            for name in re.findall(r"adr/(\d{4}-[\w-]+)", text)
            if not (folder / f"{name}.md").exists()
        ]
    assert wrong == []
