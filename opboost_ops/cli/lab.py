"""Commands that reproduce papers: there where their extra is installed."""

from importlib import import_module
from importlib.util import find_spec

import typer

from opboost_ops.errors import ConfigError

#: What the extra brings, and nothing else of this package imports.
_BROUGHT = ("matplotlib", "pyope")


def add_lab(app: typer.Typer) -> None:
    """Add `opboost evaluate`, or what says how to install it.

    The lab is no part of the product: nothing here imports it by name, so that it may be absent.

    Args:
        app: The command line.
    """
    if all(find_spec(module) for module in _BROUGHT):
        commands = import_module("opboost_ops.lab.commands")
        app.add_typer(commands.app, name="evaluate")
        return
    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command("evaluate", context_settings=anything, add_help_option=False)(_absent)


def _absent() -> None:
    """Reproduces papers: needs the extra `lab`."""
    raise ConfigError(
        "This command reproduces papers, and its extra is not installed.",
        "Install it: pip install 'opboost-ops[lab]'.",
    )
