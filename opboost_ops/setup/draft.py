"""The files of a new federation, drafted from the parties' tables: what `opboost init` writes."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from opboost_ops.config.loading import POLICY, load_policy
from opboost_ops.datasets.workspace import dump, make_private, policy_data, site_data, write_keys
from opboost_ops.errors import ConfigError
from opboost_ops.setup.bounds import TEMPLATE, write_template
from opboost_ops.setup.columns import FirstColumns, first_columns
from opboost_ops.setup.tables import read_table, require_sound


@dataclass(frozen=True)
class Drafted:
    """A federation whose files have been written.

    Attributes:
        folder: Where they are.
        left_out: Why a column is no feature, by ``party.column``.
        read_anew: Parties whose table is read by each run from where it is.
        blanks: How many lines of ``bounds.csv`` are to be filled in.
    """

    folder: Path
    left_out: Mapping[str, str]
    read_anew: tuple[str, ...]
    blanks: int

    @property
    def file(self) -> Path:
        """The new ``federation.yaml``."""
        return self.folder / "federation.yaml"


def draft_federation(
    folder: Path,
    tables: Mapping[str, str],
    label: str,
    identities: Mapping[str, str],
    *,
    public_id: str | None = None,
    name: str = "federation",
    epsilon: float = 1.0,
    policies: Mapping[str, Path] | None = None,
    queries: Mapping[str, str] | None = None,
    positive: str | None = None,
    ask: Callable[[str, list[str]], str | None] | None = None,
) -> Drafted:
    """Write ``federation.yaml``, and each party's site, policy and keys, from their tables.

    Bounds of numeric features are left blank: they are public facts, and are never read off the
    data.

    Args:
        folder: A new or empty folder.
        tables: By party: a Parquet or CSV file, a pattern, a URL, or ``env:NAME`` of one.
        label: The label as ``party.column``.
        identities: By party, the column that names a person.
        public_id: That column's name in the federation file; the label holder's when absent.
        name: Of the federation.
        epsilon: Of every protected feature.
        policies: By party, a ``policy.yaml`` that pins columns of its table already.
        queries: By party, what a database is asked.
        positive: Which of two classes of the label is the positive one.
        ask: Returns the positive class of a label, by its name and classes; None if nobody
            answers.

    Raises:
        ConfigError: All faults of the tables at once; nothing was written.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"The folder {folder} is not empty.", "Name a new one.")
    holder, _, column = label.partition(".")
    queries = queries or {}
    pinned = {party: _pinned(party, path) for party, path in (policies or {}).items()}
    for option, named in (("policy", pinned), ("query", queries), ("id", identities)):
        for party in named:
            if party not in tables:
                raise ConfigError(f"The {option} of {party}: no table is given for that party.")
    if holder not in tables or not column:
        raise ConfigError(
            f"The label {label} names no party that has a table.", "Write it as PARTY.COLUMN."
        )
    frames, places = {}, {}
    for party, at in tables.items():
        frames[party], places[party] = read_table(party, at, queries.get(party), identities[party])
    kind = require_sound(frames, places, identities, holder, column)
    target = _label(frames[holder].get_column(column), positive, ask)
    drafts = {
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
    public = public_id or identities[holder]
    data = {
        "version": 1,
        "name": name,
        "learning": "vertical",
        "id": {"column": public, "type": kind},
        "domain": {"lower": 1, "upper": 10},
        "parties": parties,
        "training": {"trees": 80, "learning_rate": 0.1, "depth": 3, "holdout": 0.2},
    }
    dump(folder / "federation.yaml", data)
    (folder / "exchange").mkdir()
    for party, draft in drafts.items():
        own = identities[party] if identities[party] != public else None
        asked = 2 * frames[holder].height
        _write_party(folder / party, party, data, draft, places[party], own, asked)
    blanks = {party: draft.blank for party, draft in drafts.items()}
    return Drafted(
        folder,
        {f"{p}.{raw}": why for p, draft in drafts.items() for raw, why in draft.left_out.items()},
        tuple(party for party, place in places.items() if isinstance(place, dict)),
        write_template(folder / TEMPLATE, blanks, data),
    )


def _write_party(
    folder: Path,
    party: str,
    data: Mapping[str, Any],
    draft: FirstColumns,
    place: Path | dict[str, Any],
    id_column: str | None,
    queries: int,
) -> None:
    name = data["name"]
    site = site_data(party, name, Path())
    site["tables"][name]["train"] = place if isinstance(place, dict) else str(place)
    dump(folder / "site.yaml", site)
    policy = policy_data(party, data, queries=queries)
    if id_column is not None:
        policy["id_column"] = id_column
    for feature, raw in draft.columns.items():
        rule = policy.setdefault("features", {}).setdefault(feature, {})
        rule |= {"uuid": draft.features[feature]["uuid"], "column": raw}
    dump(folder / POLICY, policy)
    make_private(folder)


def _label(
    values: pl.Series, positive: str | None, ask: Callable[[str, list[str]], str | None] | None
) -> dict[str, Any]:
    """The label's entry, with the positive class last."""
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
        positive = ask(values.name, known) if ask else None
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


def _pinned(party: str, path: Path) -> dict[str, tuple[str, str]]:
    """Feature and UUID by raw column, of what a policy pins."""
    policy = load_policy(path)
    if policy.party != party:
        raise ConfigError(f"{path.name} is of {policy.party}, not of {party}.")
    return {
        rule.column or name: (name, str(rule.uuid))
        for name, rule in policy.features.items()
        if rule.uuid is not None
    }
