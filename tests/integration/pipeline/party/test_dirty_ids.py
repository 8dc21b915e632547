"""Tables that write the same people in different ways, before and after an ID recipe."""

import unicodedata
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from opboost_ops import api
from opboost_ops.cli import check, ledger
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.pipeline.home import Home
from opboost_ops.pipeline.inputs.own_copy import borrowed
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace, small_credit
from tests.party_state import context_of

pytestmark = pytest.mark.slow

NAMES = ("Müller", "Groß", "van der Berg", "Ångström", "Schön", "Łuczak", "O'Neil", "Smith")
RECIPE = ["strip", "casefold", "nfc", "digits"]
PARTS = ["birth_date", "postcode", "surname"]

#: How each party writes every third person.
DIRT: dict[str, dict[str, Callable[[Any], Any]]] = {
    "credit": {"surname": str.upper},
    "shop": {
        "surname": lambda name: f"\u00a0{unicodedata.normalize('NFD', name)} ",
        "postcode": lambda code: code.lstrip("0"),
    },
    "bank": {"surname": lambda name: name.lower().replace(" ", "  "), "postcode": "0{}".format},
}


def with_parts(frame: pl.DataFrame, party: str, dirty: bool) -> pl.DataFrame:
    """The table with three columns in place of its ID, of which some are written otherwise."""
    rows = []
    people = frame.get_column("id" if "id" in frame.columns else "postcode").to_list()
    for person in people:
        number = int("".join(c for c in str(person) if c.isdecimal()))
        row = {
            "birth_date": str(date(1950, 1, 1) + timedelta(days=number % 9000)),
            "postcode": f"{number % 100_000:05d}",
            "surname": NAMES[number % len(NAMES)],
        }
        if dirty and number % 3 == list(DIRT).index(party):
            row |= {part: write(row[part]) for part, write in DIRT[party].items()}
        rows.append(row)
    parts = pl.DataFrame(rows)
    assert parts.n_unique() == frame.height
    return pl.concat([parts, frame.drop("id", *PARTS, strict=False)], how="horizontal")


@pytest.fixture(scope="module")
def tidy_once(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A federation whose tables have three columns in place of an ID, and a recipe for it."""
    workspace = Workspace.write(tmp_path_factory.mktemp("ids") / "tidy", small_credit(rows=240))
    rewrite(workspace, dirty=False)
    recipe(workspace, normalise=RECIPE)
    return workspace


@pytest.fixture
def tidy(tidy_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A copy of it, with every party's site known."""
    return tidy_once.copy(tmp_path / "federation", FIRST_RUN, monkeypatch)


def rewrite(workspace: Workspace, dirty: bool) -> None:
    for party in DIRT:
        for purpose in (workspace, workspace.scoring()):
            if purpose.table_path(party).exists():
                purpose.edit_table(party, lambda frame, who=party: with_parts(frame, who, dirty))


def recipe(workspace: Workspace, **declared: Any) -> None:
    identity = {"columns": PARTS, "type": "string", **declared}
    workspace.edit_yaml("federation.yaml", lambda data: data.update(id=identity))


def prepared(workspace: Workspace) -> dict[str, pl.DataFrame]:
    """The tables as a run uses them, by party."""
    found = {}
    for party in workspace.declared.parties:
        home = Home(workspace.site(party).home)
        with borrowed(replace(context_of(workspace, party), run="", home=home)) as lent:
            found[party] = pl.read_parquet(lent.table_path)
    return found


def matched(workspace: Workspace) -> list[int]:
    """How many rows each party has of people whom all parties have."""
    ids = [table.get_column("id") for table in prepared(workspace).values()]
    common = set.intersection(*(set(one.to_list()) for one in ids))
    return [int(one.is_in(list(common)).sum()) for one in ids]


def test_a_recipe_finds_the_people_and_check_says_what_it_changed(
    tidy: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    expected, workspace = matched(tidy), tidy
    rewrite(workspace, dirty=True)
    after = matched(workspace)
    recipe(workspace)
    before = matched(workspace)
    # As many rows at each party: nobody is there twice.
    assert len(set(before)) == len(set(after)) == 1
    assert before[0] == 0 and after == expected == [179] * 3
    recipe(workspace, normalise=RECIPE)
    capsys.readouterr()
    check.command(workspace.file)
    said = capsys.readouterr().out
    lines = [line.replace("│", " ").split() for line in said.splitlines()]
    dirty = pl.read_parquet(workspace.table_path("shop")).get_column("postcode").str.len_chars()
    shop = said.index("What the rules of the ID change in the train table of shop (stays at home):")
    assert said.index("strip", shop) < said.index("casefold", shop) < said.index("digits", shop)
    # Every postcode loses its leading zeros but those that lost them before.
    assert ["postcode", "0", "0", "0", str((dirty == 5).sum()), "0"] in lines
    assert "rows of the train table of shop 0 have an ID that another row has, too; 0 IDs" in said
    assert "Müller" not in said and "müller" not in said


def test_two_spellings_in_one_table_are_refused_at_home_with_their_rows(
    tidy: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = tidy
    table = pl.read_parquet(workspace.table_path("shop"))
    again = table[:2].with_columns(pl.col("surname").str.to_uppercase() + " ")
    nobody = table[-1:].with_columns(surname=pl.lit(None, pl.String))
    workspace.edit_table("shop", lambda rows: pl.concat([rows, again, nobody]))
    rows = pl.read_parquet(workspace.table_path("shop")).height
    with pytest.raises(ConfigError) as caught:
        check.command(workspace.file)
    faults = " ".join(str(fault) for fault in caught.value.faults)
    assert f"4 of {rows} rows" in faults and "an ID that another row has, too" in faults
    assert f"1 of {rows} rows" in faults and "no ID" in faults
    said = capsys.readouterr().out
    assert f"4 have an ID that another row has, too (rows 1, 2, {rows - 2}, {rows - 1})" in said
    assert "2 IDs are written in several ways" in said
    # A run is refused at home, too: nothing has left the party.
    step, error = workspace.first_failure()
    assert step == "shop.check_table"
    assert {place for place in workspace.published() if "shop" in place} <= {"psi_query/shop"}
    assert "Müller" not in f"{error} {faults} {said}"


def test_transactions_of_a_database_are_a_partys_table(tidy: Workspace, tmp_path: Path) -> None:
    """Several rows per person become one at home, by the aggregates in the party's site.yaml."""
    workspace = tidy
    whole = pl.read_parquet(workspace.table_path("bank"))
    again = whole.with_columns(
        pl.col("surname").str.to_uppercase(), pl.col("income") * 0, pl.col("balance") - 1
    )
    url = f"sqlite:///{tmp_path / 'bank.db'}"
    pl.concat([whole, again]).write_database("payments", url, engine="sqlalchemy")
    aggregate = {name: "max" for name in whole.columns if name not in PARTS}
    aggregate |= {"income": "sum", "visits": "n"}

    def take(query: str) -> None:
        tables = {"train": {"at": url, "query": query}, "aggregate": aggregate}
        workspace.edit_yaml(
            "bank/site.yaml", lambda site: site.update(tables={"credit_scoring": tables})
        )

    take("SELECT * FROM payments")
    found = prepared(workspace)["bank"]
    assert found.get_column("visits").to_list() == [2] * whole.height
    assert sorted(found.get_column("balance").drop_nulls()) == sorted(whole["balance"].drop_nulls())
    assert sorted(found.get_column("income").drop_nulls()) == sorted(whole["income"].drop_nulls())
    made = api.check(workspace.file).people["bank"]["train"]
    assert made["rows"] == 2 * whole.height and made["people"] == whole.height
    assert made["several_spellings"] > 0
    take("SELECT * FROM payments WHERE 1 = 0")
    assert "no rows" in " ".join(map(str, api.check(workspace.file).faults))
    take("SELECT * FROM payments")
    # Rows of nobody are refused at home; how many there are does not leave.
    nobody = whole[:3].with_columns(surname=pl.lit(None, pl.String))
    nobody.write_database("payments", url, if_table_exists="append", engine="sqlalchemy")
    step, error = workspace.first_failure()
    assert step == "bank.check_table" and "The ID column has missing values" in str(error)


def test_dirt_changes_neither_model_nor_scores(
    tidy_once: Workspace, tidy: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tidy_once.copy(tmp_path / "dirty", FIRST_RUN)
    rewrite(other, dirty=True)
    found = []
    for workspace in (other, tidy):
        with workspace.known():
            workspace.all()
            workspace.scoring().all()
            (path,) = (workspace.folder / "credit" / "scores").rglob("*.parquet")
            scorer = api.Scorer(workspace.folder / "credit", workspace.folder)
            rows = pl.read_parquet(workspace.scoring().table_path("credit"))
            assert "id" not in rows.columns
            single = scorer.score_frame(rows).sort("id")
            row = rows.to_dicts()[0]
            assert scorer.score(row).version == FIRST_RUN
            with pytest.raises(ContractError, match="id has no ID"):
                scorer.score(row | {"surname": None})
        scores = pl.read_parquet(path).sort("id")
        batch = single.join(scores.select("id"), on="id", how="semi")
        assert batch.get_column("score").equals(scores.get_column("score"))
        # What became of them is found in any spelling, too; of one class alone there is no AUC.
        people = rows.select(PARTS).with_columns(default=pl.lit(1))
        people.write_csv(tmp_path / "outcomes.csv")
        known = api.outcomes(workspace.folder / "credit", tmp_path / "outcomes.csv")
        assert known.joined == scores.height and "auc" not in known.metrics
        found.append(((workspace.home("credit") / "model.txt").read_text(), scores))
    assert found[0][0] == found[1][0] and found[0][1].equals(found[1][1])
    # Somebody who is forgotten by another spelling is in no later run.
    table = prepared(tidy)["shop"]
    person = table.get_column("id")[0]
    capsys.readouterr()
    ledger.forget_command(tidy.folder / "shop", " | ".join(person.upper().split("|")))
    assert "shop forgot the person" in capsys.readouterr().out
    later = Workspace(tidy.folder, SECOND_RUN)
    later.open()
    later.step("shop", "check_table")
    assert Home(later.home("shop")).json("table")["rows"] == table.height - 1
