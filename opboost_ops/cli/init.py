"""`opboost init`: the files of a new federation, from the tables that there are."""

import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from opboost_ops.errors import ConfigError


def command(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    table: Annotated[list[str], typer.Option(help="PARTY=PATH of its Parquet or CSV table.")],
    label: Annotated[str, typer.Option(help="PARTY.COLUMN of the label.")],
    identity: Annotated[str, typer.Option("--id", help="The column that names a person.")],
    name: Annotated[str, typer.Option(help="Name of the federation.")] = "federation",
    epsilon: Annotated[float, typer.Option(help="Of every protected feature.")] = 1.0,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="PARTY=PATH of a policy.yaml that pins columns of its table already."),
    ] = None,
) -> None:
    """Write federation.yaml, and each party's site.yaml, policy.yaml and keys.

    Bounds of numeric features are left blank: they are public facts, and are never read off the
    data. `opboost check` lists what is still to fill in. A column has one UUID for ever: where a
    party has a policy.yaml already, name it by --policy, or the column's budgets begin anew.
    """
    from opboost_ops.datasets.workspace import (
        dump,
        policy_data,
        site_data,
        write_keys,
    )

    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"The folder {folder} is not empty.", "Name a new one.")
    holder, _, column = label.partition(".")
    paths = _paths(table, "--table")
    pinned = {
        party: _pinned(party, path) for party, path in _paths(policy or [], "--policy").items()
    }
    for party in pinned:
        if party not in paths:
            raise ConfigError(f"--policy names {party}, which is no party of --table.")
    if holder not in paths or not column:
        raise ConfigError(
            f"--label {label} names no party of --table.", "Write it as PARTY.COLUMN."
        )
    frames = {party: _read(path) for party, path in paths.items()}
    parties: dict[str, Any] = {}
    kinds = set()
    for party, frame in frames.items():
        for needed in (identity, *([column] if party == holder else [])):
            if needed not in frame.columns:
                raise ConfigError(
                    f"The table of {party} has no column {needed}.",
                    f"Its columns are {', '.join(frame.columns)}.",
                )
        kinds.add("integer" if frame.schema[identity].is_integer() else "string")
        own = column if party == holder else None
        parties[party] = _party(frame, identity, own, epsilon, pinned.get(party, {}))
    if len(kinds) > 1:
        raise ConfigError(
            f"The ID column {identity} is an integer in one table and a string in another.",
            "Convert one of them; all parties need the same type.",
        )
    for party in parties:
        parties[party] |= write_keys(folder / party / "keys")
    data = {
        "version": 1,
        "name": name,
        "learning": "vertical",
        "id": {"column": identity, "type": kinds.pop()},
        "alignment": "private",
        "domain": {"lower": 1, "upper": 10},
        "parties": parties,
        "training": {"trees": 80, "learning_rate": 0.1, "depth": 3, "holdout": 0.2},
    }
    dump(folder / "federation.yaml", data)
    (folder / "exchange").mkdir()
    for party, frame in frames.items():
        path = paths[party].resolve()
        if path.suffix == ".csv":
            path = folder.resolve() / party / "tables" / "train.parquet"
            path.parent.mkdir()
            frame.write_parquet(path)
        dump(folder / party / "site.yaml", site_data(party, name, path))
        written = policy_data(party, data)
        for column, (feature, known) in pinned.get(party, {}).items():
            if column != feature and feature in parties[party]["features"]:
                rule = written.setdefault("features", {}).setdefault(feature, {})
                rule |= {"uuid": known, "column": column}
        dump(folder / party / "policy.yaml", written)
    print(f"Wrote {folder}. Fill in the bounds in federation.yaml, then: opboost check {folder}")


def _paths(entries: list[str], option: str) -> dict[str, Path]:
    paths = {}
    for entry in entries:
        party, sign, path = entry.partition("=")
        if not sign or not party or not path:
            raise ConfigError(f"{option} {entry} is not of the form PARTY=PATH.")
        paths[party] = Path(path)
    return paths


def _read(path: Path) -> Any:
    import polars as pl

    try:
        if path.suffix == ".csv":
            frame = pl.read_csv(path, infer_schema_length=None)
            # A blank line at the end of a CSV is no person.
            return frame.filter(~pl.all_horizontal(pl.all().is_null()))
        return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError):
        pass
    raise ConfigError(f"{path} is missing, or neither Parquet nor CSV.")


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


def _party(
    frame: Any,
    identity: str,
    label: str | None,
    epsilon: float,
    pinned: dict[str, tuple[str, str]],
) -> dict[str, Any]:
    import polars as pl

    features: dict[str, Any] = {}
    for column, kind in frame.schema.items():
        if column in (identity, label):
            continue
        name, known = pinned.get(column, (column, str(uuid.uuid4())))
        numeric = kind.is_numeric() or kind == pl.Boolean
        entry: dict[str, Any] = {"uuid": known}
        if label is not None:
            entry |= {"type": "numeric" if numeric else "nominal", "missing": "keep"}
        else:
            if numeric:
                entry |= {"type": "numeric", "bounds": None}
            else:
                entry |= {"type": "nominal", "categories": None}
            mechanism = "global_map" if numeric else "unary"
            entry["mechanism"] = {"name": mechanism, "epsilon": epsilon}
        features[name] = entry
    role = "feature_holder" if label is None else "label_holder"
    party: dict[str, Any] = {"role": role, "signing_key": "", "encryption_key": ""}
    party["features"] = features
    if label is not None:
        classes = frame.get_column(label).n_unique()
        kind = frame.schema[label]
        task = "regression" if kind.is_float() and classes > 20 else "multiclass"
        party["label"] = {"column": label, "task": "binary" if classes == 2 else task}
    return party
