"""`opboost init`: a party's first files, at home, from its own table."""

import sys
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import typer

Task = Literal["binary", "multiclass", "regression"]


def command(
    party: Annotated[str, typer.Option(help="The party's name.")],
    table: Annotated[
        str, typer.Option(help="A Parquet or CSV file, a pattern, s3://..., or env:NAME of a URL.")
    ],
    identity: Annotated[str, typer.Option("--id", help="The ID column, or several: a,b,c.")],
    folder: Annotated[
        Path | None, typer.Argument(help="A new folder; default: the party's name.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The label's column, for the label holder only.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the federation.")] = "federation",
    store: Annotated[
        str, typer.Option(help="The exchange: a folder, s3://..., or env:NAME.")
    ] = "../exchange",
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Epsilon of Global-map for every protected feature; default: the standard channel."
        ),
    ] = None,
    private_edges: Annotated[
        float | None,
        typer.Option(
            help="Epsilon of the edges of all numbers, drawn from the table and charged once "
            "bounds.csv is filled in; 0 for none. Default: 0.05 from 4,000 rows on, none beside "
            "--epsilon."
        ),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(help="An existing policy.yaml that pins columns of the table.")
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="SELECT ..., where the table is a database.")
    ] = None,
    dialect: Annotated[
        str | None,
        typer.Option(help="How a CSV file is written: \"decimal: ',', dates: '%d.%m.%Y'\"."),
    ] = None,
    positive: Annotated[
        str | None, typer.Option(help="Which of two classes of the label is the positive one.")
    ] = None,
    task: Annotated[
        Task | None, typer.Option(help="The task; guessed from the label by default.")
    ] = None,
    queries: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most people that the label holder may query per month, at a feature holder; "
            "default: twice the rows of the table.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show policy and offer; write nothing.")
    ] = False,
) -> None:
    """Write a party's keys, site.yaml, policy.yaml and public offer, from its own table.

    Leaves bounds of numeric features blank, because they must be public facts and not taken from
    the data. bounds.csv lists what is still to fill in. If the party already has a policy.yaml,
    name it with --policy: a column keeps its UUID, and its budgets do not start over.
    """
    from opboost_ops import api
    from opboost_ops.config.loading import POLICY
    from opboost_ops.errors import ConfigError
    from opboost_ops.tables.local import dialect_of

    where = folder or Path(party)
    with TemporaryDirectory(prefix="opboost-init-") as trial:
        if dry_run and where.exists() and any(where.iterdir()):
            raise ConfigError(f"The folder {where} is not empty.", "Name a new one.")
        offered = api.init(
            Path(trial) / party if dry_run else where,
            party,
            table,
            identity,
            label=label,
            name=name,
            store=store,
            epsilon=epsilon,
            private_edges=private_edges,
            policy=policy,
            query=query,
            dialect=None if dialect is None else dialect_of(dialect),
            positive=positive,
            task=task,
            queries=queries,
            ask=_ask,
        )
        if dry_run:
            for file in (offered.folder / POLICY, offered.offer):
                print(f"# {file.name}")
                print(file.read_text(encoding="utf-8"))
    for column, why in offered.left_out.items():
        print(f"Left out {column}: {why}.")
    if offered.task:
        guessed = "" if task else " (a guess; --task says otherwise)"
        print(f"The label {label} is learnt as {offered.task}{guessed}.")
    if dry_run:
        print(f"Nothing was written to {where}; new keys and UUIDs are made when it is.")
        return
    if offered.read_anew:
        print("The table stays where it is: each run reads it again (site.yaml).")
    print(f"Wrote {offered.folder}. Fingerprint of the keys of {party}: {offered.fingerprint}")
    if offered.blanks:
        print(
            f"Fill in {offered.folder / 'bounds.csv'} ({offered.blanks} blank) with public facts, "
            f"then: opboost bounds {quote(str(offered.folder))}"
        )
    print(
        f"{offered.offer} is public: read it, then send it to the party that runs "
        "`opboost federate`. All other files stay here."
    )


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
