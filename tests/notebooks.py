"""Notebooks without Jupyter: `python -m tests.notebooks FILE` runs one and keeps its outputs."""

import ast
import json
import sys
from pathlib import Path
from typing import Any


def run(notebook: dict[str, Any], names: dict[str, Any]) -> dict[int, dict[str, str]]:
    """Run all cells, from top to bottom.

    Args:
        notebook: As its file has it.
        names: What the cells have defined afterwards.

    Returns:
        What each cell shows, by its place and by media type; nothing of cells that show nothing.
    """
    shown = {}
    for at, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]), f"cell {at}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {at}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {at}", "eval"), names)
            shown[at] = _shown(value)
    return shown


def _shown(value: Any) -> dict[str, str]:
    html = getattr(value, "_repr_html_", None)
    found = {"text/plain": repr(value)}
    return {**found, "text/html": html()} if html else found


def main(path: Path) -> None:
    """Run a notebook, and keep what its cells show."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    shown = run(notebook, {})
    for at, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            cell["outputs"] = [
                {
                    "output_type": "execute_result",
                    "execution_count": None,
                    "metadata": {},
                    "data": {kind: text.splitlines(keepends=True) for kind, text in data.items()},
                }
                for data in ([shown[at]] if at in shown else [])
            ]
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
