"""`opboost init`, `bounds`, `keys`, `federate`: set up a party and a federation."""

import sys
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Annotated, Literal, cast

import typer

from opboost_ops.cli.arguments import AsJson, SiteFolder
from opboost_ops.errors import ConfigError

Task = Literal["binary", "multiclass", "regression"]

keys_app = typer.Typer(help="Make, show and renew a party's keys.", no_args_is_help=True)


def init_command(
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
        str,
        typer.Option(
            help="The exchange: s3://..., env:NAME, or a folder; a relative path starts at FOLDER."
        ),
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
        typer.Option(
            help="Entries for a CSV file: \"encoding: cp1252, decimal: ',', dates: '%d.%m.%Y'\"."
        ),
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
    name it with --policy: columns keep the names that it gives them. Budgets count within one
    ledger: to share them, move the new entries into the first site.
    """
    from opboost_ops import api
    from opboost_ops.config.loading import POLICY
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
            ask=_ask_positive,
        )
        if dry_run:
            for file in (offered.folder / POLICY, offered.offer):
                print(f"# {file.name}")
                print(file.read_text(encoding="utf-8"))
    for column, why in offered.left_out.items():
        print(f"Left out {column}: {why}.")
    if not dry_run and any("--dialect" in why for why in offered.left_out.values()):
        print(f"To include them, delete {offered.folder}, then run init again with --dialect.")
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


def _ask_positive(label: str, classes: list[str]) -> str | None:
    """Ask at a terminal which class is positive; None without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def known(answer: str) -> str:
        if answer not in classes:
            raise typer.BadParameter(f"it is {' or '.join(classes)}")
        return answer

    question = f"Scores are the probability of one class of {label}. Which: {' or '.join(classes)}"
    answer: str = typer.prompt(question, value_proc=known, err=True)
    return answer


def bounds_command(site: SiteFolder) -> None:
    """Write the completed bounds.csv into the party's offer.

    Separate categories by | or commas; those that are not listed count as the one under `rest`.
    Write dates as 2020-01-31 or 31.01.2020. The scale `private 0.1` draws a column's edges from the
    party's own table within its bounds, and charges them at that epsilon.
    """
    from opboost_ops import api

    done = api.bounds(site)
    print(f"{done.filled} of {done.lines} lines are in {done.file}.")
    for name, epsilon in done.private.items():
        print(f"{name}: private edges at epsilon {epsilon:g}, charged once to its account.")
    if not done.missing:
        print("It is public: send it.")
        return
    print("Still blank, and needed:")
    for line in done.missing:
        print(f"  {line}")
    print(f"Fill them in, then again: opboost bounds {quote(str(site))}")


def federate_command(
    offers: Annotated[list[Path], typer.Argument(help="All offers, or folders of parties.")],
    out: Annotated[Path, typer.Option(help="The federation file.")] = Path("federation.yaml"),
) -> None:
    """Write federation.yaml from the parties' offers, also when a party joins or leaves.

    An existing file keeps its training, scoring, schedule and renewed keys. Its parties become
    those of the offers, and all must agree again. For a party's folder, the completed bounds.csv is
    merged into the offer first.
    """
    from opboost_ops import api

    federated = api.federate(offers, out)
    for party, fingerprint in federated.fingerprints.items():
        role = "has the label" if party == federated.label_holder else "sends randomised columns"
        print(f"{party} ({role}), fingerprint {fingerprint}")
    for word, parties in (("Joins", federated.joined), ("Leaves", federated.left)):
        if parties:
            print(f"{word}: {', '.join(parties)}.")
    print(
        f"Wrote {federated.file}. Send it to every party; each reads it and agrees: "
        f"opboost agree SITE {quote(federated.file.name)}"
    )


@keys_app.command("init")
def init_keys_command(
    site: SiteFolder,
) -> None:
    """Make noise secret, signing key and encryption key; print what the federation file needs."""
    from opboost_ops.extras.setup.keys import make_keys

    for name, key in make_keys(site).items():
        print(f"{name}: {key}")


@keys_app.command("show")
def show_keys_command(site: SiteFolder, as_json: AsJson = False) -> None:
    """Print a party's public keys and their fingerprint."""
    import json

    from opboost_ops.extras.setup.keys import show_keys

    keys = show_keys(site)
    if as_json:
        print(json.dumps(keys))
        return
    for name, value in keys.items():
        print(f"{name}: {value if isinstance(value, str) else ', '.join(value)}")


@keys_app.command("trust")
def trust_key_command(
    site: SiteFolder,
    party: Annotated[str, typer.Argument(help="The receiver, as the federation file names it.")],
    key: Annotated[str, typer.Argument(help="Its public signing key.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace another key that is pinned for it.")
    ] = False,
) -> None:
    """Pin a receiver's public signing key in a party's policy.yaml.

    `opboost agree` pins the first key by itself; this is for a later one. Compare it over another
    channel with the one that `opboost keys show` prints at its party.
    """
    from opboost_ops.config.loading import POLICY
    from opboost_ops.exchange.encryption import key_name
    from opboost_ops.extras.setup.keys import pin_key

    changed = pin_key(site / POLICY, party, key, replace)
    done = "is pinned now" if changed else "was pinned already"
    print(f"{party}: signing key {key_name(key)} {done} in {POLICY}.")


@keys_app.command("renew")
def renew_key_command(
    site: SiteFolder,
    use: Annotated[str, typer.Argument(help="signing or encryption.")],
    days: Annotated[
        int, typer.Option(min=0, max=92, help="How many days the old key stays valid.")
    ] = 14,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="The old key is refused at once.")
    ] = False,
) -> None:
    """Make a new signing or encryption key; print what the federation file needs.

    Keeps the old key beside the new one: current runs, and runs that start before everybody has
    agreed to the new key, use the old one. Nothing changes until the federation file names the new
    key and everybody has agreed to it. A party without an encryption key gets one.
    """
    from datetime import UTC, datetime, timedelta

    from opboost_ops.config.public_keys import KeyUse
    from opboost_ops.extras.setup.keys import renew_key

    if use not in ("signing", "encryption"):
        raise ConfigError(f"There is no {use} key to renew.", "Give signing or encryption.")
    today = datetime.now(UTC).date()
    until = None if revoke else today + timedelta(days=days)
    for line in renew_key(site, cast(KeyUse, use), today, until):
        print(line)
