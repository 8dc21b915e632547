"""Small changes to a module's syntax tree, numbered, of which each makes one mutant."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitOr,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """A module with one change: what was changed, its lines, and the tree."""

    words: str
    lines: range
    tree: ast.Module


def count_of(source: str) -> int:
    """The number of a module's mutants."""
    return len(list(_places(ast.parse(source))))


def mutant_of(source: str, number: int) -> Mutant:
    """A mutant of a module, by its number from 0."""
    tree = ast.parse(source)
    node, kind = list(_places(tree))[number]
    words = f"line {node.lineno}: {_change(node, kind)}"
    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return Mutant(words, lines, ast.fix_missing_locations(tree))


def _places(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Nodes that can be changed, with the kind of change; texts and annotations are left."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.JoinedStr) or _is_typing(node):
            continue
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
            yield node, "compare"
        elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in _SWAPS:
            yield node, "operator"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, "not"
        elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
            yield node, "constant"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Yield):
            yield node, "dropped"
        elif isinstance(node, ast.Raise):
            yield node, "dropped raise"
        elif isinstance(node, ast.Return) and node.value is not None:
            yield node, "return"
        for name, child in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list", "op", "ops", "type_params"):
                children = child if isinstance(child, list) else [child]
                waiting += [each for each in reversed(children) if isinstance(each, ast.AST)]


def _is_typing(node: ast.AST) -> bool:
    """Whether a node is an import, or what only a type checker reads."""
    guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    alias = isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)
    return guarded or alias or isinstance(node, ast.Import | ast.ImportFrom)


def _change(node: ast.AST, kind: str) -> str:
    """Change a node in place; what was done, in words."""
    if isinstance(node, ast.Compare):
        old = type(node.ops[0])
        node.ops[0] = _SWAPS[old]()  # type: ignore[call-overload]
        return f"{old.__name__} became {_SWAPS[old].__name__}"
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
        before = type(node.op)
        node.op = _SWAPS[before]()  # type: ignore[assignment]
        return f"{before.__name__} became {_SWAPS[before].__name__}"
    if isinstance(node, ast.UnaryOp):
        node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
        return "not was dropped"
    if isinstance(node, ast.Constant):
        value = node.value
        node.value = (not value) if isinstance(value, bool) else value + 1  # type: ignore[operator]
        return f"{value!r} became {node.value!r}"
    if isinstance(node, ast.Return):
        node.value = ast.Constant(None)
        return "None is returned"
    if isinstance(node, ast.Raise):
        node.exc, node.cause = ast.Name("StopAsyncIteration", ast.Load()), None
        return "another exception is raised"
    assert isinstance(node, ast.Expr), kind
    node.value = ast.Constant(None)
    return "a call was dropped"
