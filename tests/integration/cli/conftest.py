"""Running commands in this process, as a shell would."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests import commands


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
def opboost() -> Opboost:
    return lambda *arguments: Done(*commands.opboost(*arguments))
