"""The commands by which `docs/ledger.md` backs up and restores do what it says, in its order."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.federation import Workspace
from tests.integration.cli.conftest import Done, Opboost
from tests.integration.extras.backup.conftest import Officer

PAGE = Path(__file__).resolve().parents[4] / "docs" / "ledger.md"


def commands() -> list[list[str]]:
    """Those of the page, from backing up on, in order."""
    text = PAGE.read_text().partition("## Back up every night")[2]
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [
        line for block in blocks for line in block.splitlines() if line.startswith("$ opboost ")
    ]
    return [shlex.split(line)[2:] for line in lines]


def test_its_commands_in_their_order(
    workspace: Workspace,
    tmp_path: Path,
    opboost: Opboost,
    monkeypatch: pytest.MonkeyPatch,
    officer: Officer,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("credit").symlink_to(workspace.folder)
    shutil.copy(officer.file, "officer.key")
    Path("lost").mkdir()
    # The empty machine reaches the same store.
    Path("lost/exchange").symlink_to(workspace.folder / "exchange")
    done: list[tuple[list[str], Done]] = []
    for words in commands():
        ran = opboost(*(officer.public if word == "age1kx..." else word for word in words))
        done.append((words, ran))
    assert len(done) == 3
    assert [ran.code for _, ran in done] == [0] * 3, done
    told = {words[0]: ran.out for words, ran in done}
    assert "What was there is kept: ledger.sqlite.before-restore-" in told["restore"]
    first = next(ran.out for words, ran in done if words[0] == "restore")
    assert "Nothing is missing in it, as far as pins and signed checkpoints show." in first
    assert (tmp_path / "lost" / "bank" / "keys" / "noise.secret").read_bytes() == (
        workspace.folder / "bank" / "keys" / "noise.secret"
    ).read_bytes()
