"""`opboost bounds` that is killed, or finds no room: files are whole, and the next one goes on."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from opboost_ops import api
from opboost_ops.config.loading import load_site
from opboost_ops.exchange.party_state import open_state
from opboost_ops.extras.setup.offers import init

FILES = ("policy.yaml", "bank-offer.yaml")


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    """A party's folder whose bounds.csv asks for a domain of five values, and for edges."""
    people = range(4_000)
    pl.DataFrame(
        {"id": [f"p{n}" for n in people], "income": [n % 900 for n in people],
         "kids": [n % 5 for n in people]}
    ).write_parquet(tmp_path / "bank.parquet")  # fmt: skip
    folder = tmp_path / "bank"
    init(folder, "bank", tmp_path / "bank.parquet", "id", name="credit")
    lines = (folder / "bounds.csv").read_text()
    lines = lines.replace("income,,lower upper,,", "income,,lower upper,0,900")
    (folder / "bounds.csv").write_text(
        lines.replace("kids,,lower upper,,", "kids,,lower upper,0,4")
    )
    return folder


def content(folder: Path) -> Any:
    """Both files without what is drawn at random."""
    policy, declared = (yaml.safe_load((folder / name).read_text()) for name in FILES)
    assert len(declared["features"]["income"]["scale"].pop("edges")) == 9
    return policy, declared


def test_a_disk_without_room_leaves_both_files_as_they_were(bank: Path) -> None:
    """The policy, with what people had written there, was empty afterwards."""
    before = [(bank / name).read_bytes() for name in FILES]

    limited = (
        "import resource, signal, sys; from opboost_ops import api; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); api.bounds(sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-c", limited, str(bank)], capture_output=True)
    assert done.returncode
    assert [(bank / name).read_bytes() for name in FILES] == before
    assert api.bounds(bank).private == {"income": 0.05}


class Killed(BaseException):
    """In place of a signal, which would end the tests, too."""


def test_the_next_one_goes_on_where_one_was_killed(bank: Path, tmp_path: Path) -> None:
    """Killed between offer and policy, it never allowed what the offer said."""
    ended, expected = False, None
    for number in range(10):
        folder = tmp_path / f"copy-{number}"
        shutil.copytree(bank, folder)
        left = iter(range(number))

        def until_killed(write: Any, left: Iterator[int] = left) -> Any:
            def step(*arguments: Any, **named: Any) -> Any:
                if next(left, None) is None:
                    raise Killed
                return write(*arguments, **named)

            return step

        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed):
            patch.setattr(os, "replace", until_killed(os.replace))
            patch.setattr(Path, "write_text", until_killed(Path.write_text))
            api.bounds(folder)
            ended = True
        api.bounds(folder)
        expected = expected or content(folder)
        assert content(folder) == expected
        with open_state(load_site(folder / "site.yaml")) as state:
            assert len(state.releases.all()) == 1
        if ended:
            break
    assert ended and number >= 3
