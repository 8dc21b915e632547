"""Two companies, from empty home folders to a trained model, by the document's commands."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer

from tests.integration.cli.conftest import Opboost
from tests.integration.cli.conftest import opboost as opboost

DOCUMENT = Path(__file__).parents[2] / "docs" / "add-a-party.md"


def acts() -> list[tuple[str, str, str]]:
    """Party, kind and text of each act of the document, in its order; of kind $ is a command."""
    start, _, _ = DOCUMENT.read_text(encoding="utf-8").partition("## Add a party")
    return re.findall(r"^(bank|lender)([$#]) (.+)$", start, re.MULTILINE)


def started(words: list[str]) -> subprocess.Popen[str]:
    """A command that waits for another one's answer."""
    return subprocess.Popen(
        [Path(sys.executable).with_name("opboost"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def asked_about(waiting: subprocess.Popen[str]) -> str:
    """Which run waits for a person, as its command says."""
    assert waiting.stdout is not None
    said = []
    for line in waiting.stdout:
        said.append(line)
        if found := re.search(r"opboost approve SITE ([0-9a-f]+)", line):
            return found[1]
    raise AssertionError("".join(said))


@pytest.mark.slow
def test_from_nothing_to_a_trained_model(
    tmp_path: Path, opboost: Opboost, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = {party: tmp_path / party for party in ("bank", "lender")}
    for folder in home.values():
        folder.mkdir()
    draws = np.random.default_rng(1)
    income, debt = draws.normal(3000, 500, 600).clip(500, 6000), draws.normal(0, 1, 600)
    default = (income / 1000 + debt < 2.5).astype(int)
    pl.DataFrame({"KDNR": range(600), "income": income}).write_parquet(
        home["bank"] / "bank.parquet"
    )
    pl.DataFrame({"customer_id": range(600), "debt": debt, "default": default}).write_parquet(
        home["lender"] / "lender.parquet"
    )
    fingerprints: dict[str, list[str]] = {party: [] for party in home}

    def by_hand(party: str, text: str) -> None:
        if text.startswith("fill in "):
            path = home[party] / text.removeprefix("fill in ")
            blank = pl.read_csv(path, infer_schema=False)
            assert blank["feature"].to_list() == ["income"]
            blank.with_columns(lower=pl.lit("500"), upper=pl.lit("6000")).write_csv(path)
        elif sent := re.fullmatch(r"send (\S+) to the (bank|lender)", text):
            shutil.copy(home[party] / sent[1], home[sent[2]])
        else:
            command = text.partition(": opboost ")[2]
            shown = opboost(*shlex.split(command)).output
            fingerprints[party] += re.findall(r"^fingerprint: (.+)$", shown, re.MULTILINE)

    agreed = {}
    told: dict[str, str] = {}
    waiting: subprocess.Popen[str] | None = None
    for party, kind, text in acts():
        monkeypatch.chdir(home[party])
        if kind == "#":
            by_hand(party, text)
            continue
        words = shlex.split(text.replace("s3://credit-exchange", str(tmp_path / "exchange")))
        while "=" in words[0]:
            monkeypatch.setenv(*words.pop(0).split("=", 1))
        monkeypatch.setattr(typer, "confirm", lambda *_, **__: True)
        if words[1] == "run":
            waiting = started(words[1:])
            told["RUN"] = asked_about(waiting)
            continue
        done = opboost(*(told.get(word, word) for word in words[1:]))
        assert done.code == 0, (text, done)
        if words[1] == "agree":
            agreed[party] = done.out
        if shown := re.search(r"--plan ([0-9a-f]{16,}) --yes", done.out):
            told["DIGEST"] = shown[1]
    assert waiting is not None
    out, _ = waiting.communicate(timeout=300)
    assert waiting.returncode == 0, out
    for number in [*fingerprints["bank"], *fingerprints["lender"]]:
        assert all(number in shown for shown in agreed.values())
    assert [len(found) for found in fingerprints.values()] == [1, 1]
    assert list(home["lender"].glob("lender/models/credit/*/model.txt"))
    assert not (home["bank"] / "bank" / "models" / "credit").exists()
