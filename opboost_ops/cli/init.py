"""`opboost init`: the files of a new federation, from the tables that there are."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from opboost_ops.errors import ConfigError


def command(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    table: Annotated[
        list[str],
        typer.Option(
            help="PARTY=TABLE: a Parquet or CSV file, a pattern, s3://..., or a database's URL."
        ),
    ],
    label: Annotated[str, typer.Option(help="PARTY.COLUMN of the label.")],
    identity: Annotated[
        list[str],
        typer.Option("--id", help="The column that names a person; PARTY=COLUMN where it differs."),
    ],
    name: Annotated[str, typer.Option(help="Name of the federation.")] = "federation",
    epsilon: Annotated[float, typer.Option(help="Of every protected feature.")] = 1.0,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="PARTY=PATH of a policy.yaml that pins columns of its table already."),
    ] = None,
    query: Annotated[
        list[str] | None, typer.Option(help="PARTY=SELECT ..., where its table is a database.")
    ] = None,
    positive: Annotated[
        str | None, typer.Option(help="Which of two classes of the label is the positive one.")
    ] = None,
) -> None:
    """Write federation.yaml, and each party's site.yaml, policy.yaml and keys.

    Bounds of numeric features are left blank: they are public facts, and are never read off the
    data. bounds.csv lists what is still to fill in. A column has one UUID for ever: where a
    party has a policy.yaml already, name it by --policy, or the column's budgets begin anew.
    """
    from opboost_ops import api

    tables = _entries(table, "--table", "PATH")
    public, identities = _identities(identity, list(tables))
    drafted = api.init(
        folder,
        tables,
        label,
        identities,
        public_id=public,
        name=name,
        epsilon=epsilon,
        policies={p: Path(at) for p, at in _entries(policy or [], "--policy", "PATH").items()},
        queries=_entries(query or [], "--query", "SELECT ..."),
        positive=positive,
        ask=_ask,
    )
    for column, why in drafted.left_out.items():
        print(f"Left out {column}: {why}.")
    for party in drafted.read_anew:
        print(f"{party}'s table stays where it is: each run reads it anew (site.yaml).")
    if drafted.blanks:
        print(
            f"Wrote {folder}. Fill in the {drafted.blanks} lines of {folder / 'bounds.csv'} with "
            f"what anybody may know, then: opboost bounds {folder}; opboost check {folder}"
        )
    else:
        print(f"Wrote {folder}. Next: opboost check {folder}")


def _identities(given: list[str], parties: list[str]) -> tuple[str, dict[str, str]]:
    """The ID column's public name, and what it is called in each party's table."""
    own: dict[str, str] = {}
    public = ""
    for entry in given:
        party, sign, column = entry.partition("=")
        if sign and party in parties:
            own[party] = column
        elif public:
            raise ConfigError(f"--id {entry} is a second name.", "Write it as PARTY=COLUMN.")
        else:
            public = entry
    public = public or next(iter(own.values()))
    return public, {party: own.get(party, public) for party in parties}


def _ask(label: str, classes: list[str]) -> str | None:
    """Which class a person at a terminal says is positive; None where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def known(answer: str) -> str:
        if answer not in classes:
            raise typer.BadParameter(f"it is {' or '.join(classes)}")
        return answer

    question = f"Scores are the probability of one class of {label}. Which: {' or '.join(classes)}"
    answer: str = typer.prompt(question, value_proc=known, err=True)
    return answer


def _entries(entries: list[str], option: str, form: str) -> dict[str, str]:
    found = {}
    for entry in entries:
        party, sign, value = entry.partition("=")
        if not sign or not party or not value:
            raise ConfigError(f"{option} {entry} is not of the form PARTY={form}.")
        found[party] = value
    return found
