"""`opboost init`: the files of a new federation, from the tables that there are."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

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
    from opboost_ops.cli.bounds import TEMPLATE, write_template
    from opboost_ops.cli.first_columns import FirstColumns, first_columns
    from opboost_ops.cli.first_tables import read_table, require_sound
    from opboost_ops.datasets.workspace import dump, policy_data, site_data, write_keys

    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"The folder {folder} is not empty.", "Name a new one.")
    holder, _, column = label.partition(".")
    given = _entries(table, "--table", "PATH")
    queries = _entries(query or [], "--query", "SELECT ...")
    pinned = {
        party: _pinned(party, Path(path))
        for party, path in _entries(policy or [], "--policy", "PATH").items()
    }
    for option, parties_of in (("--policy", pinned), ("--query", queries)):
        for party in parties_of:
            if party not in given:
                raise ConfigError(f"{option} names {party}, which is no party of --table.")
    if holder not in given or not column:
        raise ConfigError(
            f"--label {label} names no party of --table.", "Write it as PARTY.COLUMN."
        )
    public, identities = _identities(identity, list(given))
    frames, places = {}, {}
    for party, at in given.items():
        frames[party], places[party] = read_table(party, at, queries.get(party), identities[party])
    kind = require_sound(frames, places, identities, holder, column)
    target = _label(frames[holder].get_column(column), positive)
    drafts: dict[str, FirstColumns] = {
        party: first_columns(
            frame,
            identities[party],
            column if party == holder else None,
            epsilon,
            pinned.get(party, {}),
        )
        for party, frame in frames.items()
    }
    parties: dict[str, Any] = {}
    for party, draft in drafts.items():
        role = "label_holder" if party == holder else "feature_holder"
        parties[party] = {"role": role, **write_keys(folder / party / "keys")}
        parties[party]["features"] = draft.features
        if party == holder:
            parties[party]["label"] = target
    data = {
        "version": 1,
        "name": name,
        "learning": "vertical",
        "id": {"column": public, "type": kind},
        "alignment": "private",
        "domain": {"lower": 1, "upper": 10},
        "parties": parties,
        "training": {"trees": 80, "learning_rate": 0.1, "depth": 3, "holdout": 0.2},
    }
    dump(folder / "federation.yaml", data)
    (folder / "exchange").mkdir()
    for party, draft in drafts.items():
        place = places[party]
        site = site_data(party, name, Path())
        site["tables"][name]["train"] = place if isinstance(place, dict) else str(place)
        dump(folder / party / "site.yaml", site)
        written = policy_data(party, data)
        if identities[party] != public:
            written["id_column"] = identities[party]
        for feature, raw in draft.columns.items():
            rule = written.setdefault("features", {}).setdefault(feature, {})
            rule |= {"uuid": draft.features[feature]["uuid"], "column": raw}
        dump(folder / party / "policy.yaml", written)
        for raw, why in draft.left_out.items():
            print(f"Left out {party}.{raw}: {why}.")
        if isinstance(place, dict):
            print(f"{party}'s table stays where it is: each run reads it anew (site.yaml).")
    blanks = {party: draft.blank for party, draft in drafts.items()}
    lines = write_template(folder / TEMPLATE, blanks, data)
    if lines:
        print(
            f"Wrote {folder}. Fill in the {lines} lines of {folder / TEMPLATE} with what anybody "
            f"may know, then: opboost bounds {folder}; opboost check {folder}"
        )
    else:
        print(f"Wrote {folder}. Next: opboost check {folder}")


def _identities(given: list[str] | str, parties: list[str]) -> tuple[str, dict[str, str]]:
    """The ID column's public name, and what it is called in each party's table."""
    own: dict[str, str] = {}
    public = ""
    for entry in [given] if isinstance(given, str) else given:
        party, sign, column = entry.partition("=")
        if sign and party in parties:
            own[party] = column
        elif public:
            raise ConfigError(f"--id {entry} is a second name.", "Write it as PARTY=COLUMN.")
        else:
            public = entry
    public = public or next(iter(own.values()))
    return public, {party: own.get(party, public) for party in parties}


def _label(values: Any, positive: str | None) -> dict[str, Any]:
    """The label's entry, with the positive class last."""
    import polars as pl

    classes, kind = values.n_unique(), values.dtype
    task = "regression" if kind.is_numeric() and classes > 20 else "multiclass"
    if classes != 2:
        if positive is not None:
            raise ConfigError(f"--positive is for two classes; {values.name} has {classes}.")
        return {"column": values.name, "task": task}
    number = kind == pl.Boolean or kind.is_numeric()
    whole = values.cast(pl.Int64) if number else values.cast(pl.String)
    known = whole.unique().sort().to_list()
    if positive is None and not number:
        positive = _asked(values.name, known)
    if positive is None and not number:
        raise ConfigError(
            f"The label {values.name} has the classes {known[0]} and {known[1]}: which one is the "
            "positive one?",
            f"Say --positive {shlex.quote(known[1])}, or the other: scores are its probability.",
        )
    if positive is not None:
        if positive not in [str(one) for one in known]:
            listed = " and ".join(map(str, known))
            raise ConfigError(f"--positive {positive} is none of the classes {listed}.")
        known.sort(key=lambda one: str(one) == positive)
    return {"column": values.name, "task": "binary", "classes": known}


def _asked(label: str, classes: list[str]) -> str | None:
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


def _pinned(party: str, path: Path) -> dict[str, tuple[str, str]]:
    """Feature and UUID by raw column, of what a policy pins."""
    from opboost_ops.config.loading import load_policy

    policy = load_policy(path)
    if policy.party != party:
        raise ConfigError(f"{path.name} is of {policy.party}, not of {party}.")
    return {
        rule.column or name: (name, str(rule.uuid))
        for name, rule in policy.features.items()
        if rule.uuid is not None
    }
