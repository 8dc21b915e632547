"""A first hour: six commands from two tables of one's own to scores."""

import csv
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from tests.commands import printed


def text(values: np.ndarray) -> pl.Series:
    return pl.Series([f"{value:.2f}" for value in values])


def tables(folder: Path) -> None:
    """Categories, gaps, dates, and amounts as text."""
    draw = np.random.default_rng(3)
    people = 2500
    ids = pl.Series("client", [f"K{n:05}" for n in range(people)])
    days = draw.integers(0, 3000, people)
    opened = [f"{2012 + d // 365}-{1 + d % 12:02}-{1 + d % 28:02}" for d in days]
    segment = draw.choice(["retail", "private", "business"], people)
    income = draw.lognormal(7.9, 0.4, people).round()
    age = draw.integers(18, 80, people)
    claim = 40 + income / 20 + (segment == "business") * 80 + age / 4 + draw.normal(0, 10, people)
    gap = draw.random(people) < 0.1
    insurer = pl.DataFrame({"client": ids, "age": age, "claim": text(claim)})
    bank = pl.DataFrame(
        {
            "client": ids,
            "income": pl.Series([None if g else v for g, v in zip(gap, income, strict=True)]),
            "segment": segment,
            "opened": pl.Series(opened).str.to_date(),
        }
    )
    insurer[:2400].write_csv(folder / "insurer.csv", quote_style="non_numeric")
    bank[50:2450].write_csv(folder / "bank.csv")
    insurer[2450:].drop("claim").write_csv(folder / "insurer-new.csv")
    bank[2450:].write_csv(folder / "bank-new.csv")


def fill_in(file: Path) -> None:
    """What is public about the bank's columns, as a person writes it into the table."""
    known = {
        "income": {"lower": "500", "upper": "8000", "fill": "2500"},
        "segment": {"categories": "retail, private, business"},
        "opened": {"lower": "01.01.2012", "upper": "31.12.2020"},
    }
    with file.open(newline="") as opened:
        lines = list(csv.DictReader(opened))
    assert {line["feature"] for line in lines} == known.keys()
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, lines[0])
        writer.writeheader()
        writer.writerows({**line, **known[line["feature"]]} for line in lines)


@pytest.mark.deployment
def test_six_commands_from_two_tables_to_scores(tmp_path: Path) -> None:
    tables(tmp_path)
    insurer, bank, file = (tmp_path / name for name in ("insurer", "bank", "federation.yaml"))
    both = ("--id", "client", "--table")
    commands = 0

    def opboost(*words: str | Path, stdin: str = "") -> str:
        nonlocal commands
        commands += 1
        return " ".join(printed(*words, stdin=stdin, folder=tmp_path).split())

    own = ("--party", "insurer", "--label", "claim")
    said = opboost("init", insurer, *own, *both, "insurer.csv")
    assert "The label claim is learnt as regression" in said
    opboost("init", bank, "--party", "bank", *both, "bank.csv")
    fill_in(bank / "bounds.csv")
    opboost("federate", insurer, bank, "--out", file)
    said = opboost("agree", tmp_path, stdin="y\ny\n")
    assert "insurer agrees: number 1" in said and "bank agrees: number 1" in said
    said = opboost("run", tmp_path, "--because", "a first trial")
    assert "The other parties' columns help: r2" in said, said
    for party in ("insurer", "bank"):
        site = yaml.safe_load((tmp_path / party / "site.yaml").read_text())
        names = site["tables"]["federation"]
        names["score"] = {**names["train"], "at": str(tmp_path / f"{party}-new.csv")}
        (tmp_path / party / "site.yaml").write_text(yaml.safe_dump(site))
    said = opboost("score", tmp_path)
    assert "50 new rows were scored" in said
    assert commands == 6
