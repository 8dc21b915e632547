"""The mistakes of a first hour: each is told in one message that names the fix."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
import yaml

from tests.commands import opboost

BANK = "id,balance,rating,since\n" + "".join(
    f"{i},{i}.5,{'abc'[i % 3]},2020-01-{1 + i % 28:02}\n" for i in range(60)
)
SHOP = "id,spend,late\n" + "".join(f"{i},{i * 3},{i % 2}\n" for i in range(60))
HEAD = "feature,unit,needs,lower,upper,scale,categories,rest,fill"


@dataclass
class Beginner:
    """A person with two tables in a new folder."""

    folder: Path
    last: str = ""

    def table(self, party: str, text: str) -> None:
        (self.folder / f"{party}.csv").write_text(text)

    def opboost(self, *arguments: str | Path) -> str:
        """What a command says, on whichever channel."""
        self.last = str(arguments[0])
        _, out, err = opboost(*arguments)
        return " ".join(f"{out} {err}".split())

    def init(self, party: str, *more: str) -> str:
        label = ["--label", "late"] if party == "shop" else []
        (file,) = self.folder.glob(f"{party}.*")
        given = ["--party", party, "--id", "id", *label, *more]
        return self.opboost("init", self.folder / party, "--table", file, *given)

    def bounds(self, *lines: str) -> str:
        (self.folder / "bank" / "bounds.csv").write_text("\n".join([HEAD, *lines]) + "\n")
        return self.opboost("bounds", self.folder / "bank")

    def letters_before_ids(self) -> None:
        """The bank writes C7 where the shop writes 7."""
        head, *rows = BANK.splitlines()
        self.table("bank", "\n".join([head, *(f"C{row}" for row in rows)]))

    def federate(self, *lines: str) -> str:
        """All steps up to the federation file."""
        for party in ("bank", "shop"):
            self.init(party)
        rating = "rating,,categories,,,,a|b|c,,"
        since = "since,days,lower upper,2019-01-01,2021-01-01,,,,"
        self.bounds(*(lines or ("balance,,lower upper,0,100,,,,", rating, since)))
        return self.opboost(
            "federate", self.folder / "bank", self.folder / "shop", "--out", self.file
        )

    def agree(self) -> None:
        for party in ("bank", "shop"):
            (self.folder / party / ".made-up").touch()
            self.opboost("agree", self.folder / party, self.file, "--yes")

    @property
    def file(self) -> Path:
        return self.folder / "federation.yaml"


def wrong_bounds(new: Beginner) -> str:
    new.init("bank")
    return new.bounds("balance,,lower upper,100,0,,,,")


def number_as_text_label(new: Beginner) -> str:
    rows = "".join(f"{i},{i},x{i}\n" for i in range(60))
    new.table("shop", "id,spend,late\n" + rows)
    return new.init("shop")


def one_class(new: Beginner) -> str:
    new.table("shop", "id,spend,late\n" + "".join(f"{i},{i},0\n" for i in range(60)))
    return new.init("shop")


def another_party(new: Beginner) -> str:
    new.federate()
    site = new.folder / "bank" / "site.yaml"
    site.write_text(site.read_text().replace("party: bank", "party: banc"))
    return new.opboost("agree", new.folder / "bank", new.file)


def nobody_in_common(new: Beginner) -> str:
    head, *rows = BANK.splitlines()
    new.table("bank", "\n".join([head, *(f"9{row}" for row in rows)]))
    new.federate()
    return new.opboost("check", new.file)


def text_and_whole_ids(new: Beginner) -> str:
    """Parquet says which type its IDs are of."""
    new.letters_before_ids()
    (new.folder / "shop.csv").unlink()
    pl.read_csv(SHOP.encode()).write_parquet(new.folder / "shop.parquet")
    return new.federate()


def letters_before_the_ids_of_one_csv(new: Beginner) -> str:
    """In CSV 12 may be a text, so that both can be text, and then nobody is in both tables."""
    new.letters_before_ids()
    new.federate()
    return new.opboost("check", new.file)


def forgotten_agree(new: Beginner) -> str:
    new.federate()
    return new.opboost("run", new.file)


def comma_categories(new: Beginner) -> str:
    new.init("bank")
    return new.bounds("rating,,categories,,,,a,b,c,,")


def folder_of_no_offer(new: Beginner) -> str:
    new.init("bank")
    return new.opboost("federate", new.folder, new.folder / "bank")


#: What a beginner does, the command that tells, and what it says: the problem and the fix.
MISTAKES: tuple[tuple[Callable[[Beginner], str], str, str, str], ...] = (
    (wrong_bounds, "bounds", "lower is not less than upper", "swap them"),
    (number_as_text_label, "init", "60 classes in 60 rows", "store it as a number column"),
    (one_class, "init", "it has one value only", "name another label by --label"),
    (another_party, "agree", "banc is not a party of federation", "Its parties are bank, shop."),
    (nobody_in_common, "check", "is in the tables of all parties", "how each party writes it"),
    (
        text_and_whole_ids,
        "federate",
        "an integer in one table and a string in another",
        "convert one",
    ),
    (
        letters_before_the_ids_of_one_csv,
        "check",
        "is in the tables of all parties",
        "how each party writes it",
    ),
    (forgotten_agree, "run", "has not agreed to it", "opboost agree"),
    (comma_categories, "bounds", "more cells than the header", "Put | between categories"),
    (folder_of_no_offer, "federate", "has no offer", "Name the file"),
)


@pytest.fixture
def new(tmp_path: Path) -> Beginner:
    made = Beginner(tmp_path)
    made.table("bank", BANK)
    made.table("shop", SHOP)
    return made


@pytest.mark.parametrize(
    ("mistake", "command", "problem", "fix"), MISTAKES, ids=[made.__name__ for made, *_ in MISTAKES]
)
def test_one_message_that_names_the_fix(
    new: Beginner, mistake: Callable[[Beginner], str], command: str, problem: str, fix: str
) -> None:
    said = mistake(new)
    assert new.last == command
    assert problem in said and fix in said, said
    assert "Traceback" not in said


def test_dates_and_categories_as_people_write_them(new: Beginner) -> None:
    new.init("bank")
    said = new.bounds(
        "balance,,lower upper,0,100,,,,",
        'rating,,categories,,,,"a, b, c",,',
        "since,days,lower upper,31.12.2018,31/12/2021,,,,",
    )
    assert "3 of 3 lines are in" in said and "blank" not in said
    offer = yaml.safe_load((new.folder / "bank" / "bank-offer.yaml").read_text())["features"]
    assert offer["rating"]["categories"] == ["a", "b", "c"]
    assert [str(bound) for bound in offer["since"]["bounds"]] == ["2018-12-31", "2021-12-31"]


def test_blank_cells_are_named(new: Beginner) -> None:
    new.init("bank")
    said = new.bounds("balance,,lower upper,,,,,,", "rating,,categories,,,,a|b|c,,")
    assert "line 2, balance: lower, upper" in said
    assert "line 3" not in said


@pytest.mark.parametrize(
    ("values", "task"),
    [
        ([i % 2 for i in range(60)], "binary"),
        ([i % 4 for i in range(60)], "multiclass"),
        ([i % 20 for i in range(60)], "regression"),
        ([i / 7 for i in range(60)], "regression"),
    ],
)
def test_the_guess_of_a_task_is_stated(new: Beginner, values: list[float], task: str) -> None:
    new.table("shop", "id,spend,late\n" + "".join(f"{i},{i},{v}\n" for i, v in enumerate(values)))
    assert f"late is learnt as {task} (a guess; --task says otherwise)" in new.init("shop")


def test_a_declared_label_of_too_many_classes_is_refused_before_a_release(new: Beginner) -> None:
    new.table("shop", "id,spend,late\n" + "".join(f"{i},{i},{i % 4}\n" for i in range(60)))
    new.federate()
    new.agree()
    new.table("shop", "id,spend,late\n" + "".join(f"{i},{i},{i}\n" for i in range(60)))
    said = new.opboost("check", new.file)
    assert "60 classes in 60 rows" in said and "label.task: regression" in said
