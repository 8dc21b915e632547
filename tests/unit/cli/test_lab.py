"""What reproduces papers is an extra: without it its commands say how to install it."""

import sys

import pytest
import typer
from typer.testing import CliRunner

from opboost_ops.cli.lab import add_lab
from opboost_ops.errors import ConfigError


def line() -> typer.Typer:
    app = typer.Typer()
    add_lab(app)
    app.command("other")(print)
    return app


def test_with_the_extra_the_commands_are_there() -> None:
    assert CliRunner().invoke(line(), ["evaluate", "--help"]).exit_code == 0


@pytest.mark.parametrize("module", ["matplotlib", "pyope"])
def test_without_it_they_name_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    error = CliRunner().invoke(line(), ["evaluate", "accuracy", "--quick"]).exception
    assert isinstance(error, ConfigError)
    assert "pip install 'opboost-ops[lab]'" in str(error)
