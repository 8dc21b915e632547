"""Running commands in this process, as a shell would."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from opboost_ops.cli import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one error of a command that failed."""
        assert self.code == 1, self
        assert self.err.startswith("Error: ")
        assert "Traceback" not in self.err
        return self.err

    @property
    def output(self) -> str:
        """What a command that succeeded printed."""
        assert self.code == 0, self
        return self.out


Opboost = Callable[..., Done]


@pytest.fixture
def opboost(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Opboost:
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: Any) -> Done:
        monkeypatch.setattr(sys, "argv", ["opboost", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        out, err = capsys.readouterr()
        return Done(code if isinstance(code, int) else 0, out, err)

    return run
