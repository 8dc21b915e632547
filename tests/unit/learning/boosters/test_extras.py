"""A booster whose library is absent is refused with the command that installs it."""

import sys
from collections.abc import Callable

import pytest

from opboost_ops.errors import ConfigError
from opboost_ops.learning.boosters import dask_engine
from opboost_ops.learning.private import noise


@pytest.mark.parametrize(
    ("require", "module", "told"),
    [
        (noise.require, "opendp", r"trainer is dpboost, and OpenDP.*opboost-ops\[dpboost\]"),
        (
            dask_engine.require,
            "distributed",
            r"names a Dask scheduler, and Dask.*opboost-ops\[dask\]",
        ),
    ],
)
def test_what_is_absent_is_named(
    monkeypatch: pytest.MonkeyPatch, require: Callable[[], None], module: str, told: str
) -> None:
    require()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=f"(?s){told}"):
        require()
