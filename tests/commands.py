"""`opboost` in this process: one of its own takes longer to start than most commands to run."""

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.cli import main


def opboost(*words: object, stdin: str = "", folder: Path | None = None) -> tuple[int, str, str]:
    """Exit code, output and errors of a command.

    Args:
        words: Its arguments.
        stdin: What is typed.
        folder: Where it is run.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(folder or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        # As in a pipe, whatever width the tests' own terminal has.
        patch.delenv("COLUMNS", raising=False)
        patch.setattr(sys, "argv", ["opboost", *map(str, words)])
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            main()
    code = ended.value.code
    return (code if isinstance(code, int) else int(bool(code))), out.getvalue(), err.getvalue()


def printed_json(*words: str | Path, folder: Path | None = None) -> Any:
    """What a command prints as JSON.

    Args:
        words: Its arguments, but for ``--json``.
        folder: Where it is run.
    """
    return json.loads(printed(*words, "--json", folder=folder))


def printed(
    *words: object, stdin: str = "", folder: Path | None = None, fails: bool = False
) -> str:
    """What a command prints; its errors, where it is to fail.

    Args:
        words: Its arguments.
        stdin: What is typed.
        folder: Where it is run.
        fails: Whether it must.
    """
    code, out, err = opboost(*words, stdin=stdin, folder=folder)
    assert (code != 0) is fails, err
    return err if fails else out
