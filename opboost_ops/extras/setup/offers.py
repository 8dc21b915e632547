"""A party's first files, which `opboost init` writes from the party's own table."""

import copy
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from opboost_ops.config.agreement import STANDARD_EDGES, inline_tables
from opboost_ops.config.documents import read_yaml
from opboost_ops.config.federation import LearningTask
from opboost_ops.config.loading import POLICY, load_policy
from opboost_ops.config.public_keys import fingerprint
from opboost_ops.config.schema import Name
from opboost_ops.errors import ConfigError
from opboost_ops.extras.datasets.workspace import (
    dump,
    make_private,
    require_empty,
    site_data,
    write_keys,
)
from opboost_ops.extras.setup.bounds import DOMAIN, TEMPLATE, write_template
from opboost_ops.extras.setup.columns import FirstColumns, first_columns, label_entry
from opboost_ops.extras.setup.tables import read_table, require_no_password, require_sound, with_id
from opboost_ops.mechanisms.parameters import Epsilon
from opboost_ops.privacy.consent.compliance import MONTHS, all_features_limit, limits
from opboost_ops.tables.columns import column_form
from opboost_ops.tables.spill.files import replace_text

#: Default cap on the label holder's queries per month, as a multiple of the feature holder's rows,
#: because the feature holder does not know how many rows the label holder has.
QUERIES_PER_ROW = 2

#: Minimum rows for which edges at `STANDARD_EDGES` are accurate enough.
EDGES_FROM = 4_000

#: Comment above the caps on queries.
_CAPS = f"""\
# max_new_queries: {QUERIES_PER_ROW} times the rows of this table, because the size of the label
# holder's table is unknown here. Each query tests whether a person is in this table: lower the cap
# to what the label holder needs. max_queries_total: {MONTHS} such months.
"""

#: Default store: beside the party's folder, for a trial on one machine.
STORE = "../exchange"


@dataclass(frozen=True)
class Offered:
    """The result of `init`.

    Attributes:
        folder: The party's folder, with its site, policy and keys.
        party: Name of the party.
        left_out: Reasons by columns that are not features.
        read_anew: Whether each run reads the table from its source.
        blanks: Number of lines of ``bounds.csv`` to fill in.
        fingerprint: Fingerprint of its public keys.
        task: Learning task at the label holder; empty at other parties.
    """

    folder: Path
    party: str
    left_out: Mapping[str, str]
    read_anew: bool
    blanks: int
    fingerprint: str
    task: str = ""

    @property
    def offer(self) -> Path:
        """Path of the public offer."""
        return offer_file(self.folder, self.party)


def offer_file(folder: Path, party: str) -> Path:
    """Return the path of a party's offer."""
    return folder / f"{party}-offer.yaml"


def init(
    folder: str | Path,
    party: str,
    table: str | Path,
    identity: str,
    *,
    label: str | None = None,
    name: str = "federation",
    store: str = STORE,
    epsilon: float | None = None,
    private_edges: float | None = None,
    policy: Path | None = None,
    query: str | None = None,
    dialect: Mapping[str, Any] | None = None,
    positive: str | None = None,
    task: LearningTask | None = None,
    queries: int | None = None,
    ask: Callable[[str, list[str]], str | None] | None = None,
) -> Offered:
    """Write a party's keys, site, policy and public offer from its own table.

    Bounds of numeric features are left blank: they are public facts, and are never derived from
    the data.

    Args:
        folder: The party's folder, new or empty.
        party: Name of the party.
        table: A Parquet or CSV file, a pattern, a URL, or ``env:NAME`` of one.
        identity: The ID column, or several columns separated by commas.
        label: The label's column, at the label holder only.
        name: Name of the federation.
        store: URL or folder of the store.
        epsilon: Epsilon of every protected feature, by Global-map. Default: numbers get the
            standard channel, and categories epsilon 1.
        private_edges: Epsilon of private edges of numbers, which are drawn after ``bounds.csv`` is
            filled in; 0 for none. Default: `STANDARD_EDGES` if the table has enough rows.
        policy: A ``policy.yaml`` that already pins columns of the table.
        query: Query of a database.
        dialect: Dialect of a CSV file, as in ``site.yaml``; missing entries are detected.
        positive: The positive one of two classes of the label.
        task: Learning task; guessed from the label's values if None.
        queries: Maximum people that the label holder may query per month. Default: twice the
            table's rows.
        ask: Asks a person for the positive class, by the label's name and classes; returns None
            without an answer.

    Raises:
        ConfigError: Lists all faults of the table; nothing was written.
    """
    folder, table = Path(folder), str(table)
    identity, label = column_form(identity), None if label is None else column_form(label)
    for what, named in (("party", party), ("federation", name)):
        _require_name(what, named)
    _require_options(label, identity, task, queries, epsilon, private_edges or None)
    require_empty(folder)
    pinned = {} if policy is None else _pinned(party, policy)
    require_no_password(party, table=table, store=store)
    frame, place, unusable = read_table(party, table, query, identity, dialect)
    id_column, frame = with_id(frame, identity)
    column = identity if id_column is None else id_column.column
    types = require_sound(party, frame, place, column, label)
    for option, value in (("--positive", positive), ("--task", task)):
        if label is None and value is not None:
            raise ConfigError(f"{option} needs a label.", "Name its column with --label.")
    if label is not None and queries is not None:
        raise ConfigError("--queries is for feature holders.", "Use it without --label.")
    target = None if label is None else label_entry(frame.get_column(label), positive, task, ask)
    draft = first_columns(frame, column, label, epsilon, pinned, unusable)
    public = write_keys(folder / "keys")
    site = site_data(party, name, Path(), store)
    site["tables"][name]["train"] = place if isinstance(place, dict) else str(place)
    dump(folder / "site.yaml", site)
    most = QUERIES_PER_ROW * frame.height if queries is None else queries
    released = most if label is None else None
    if private_edges is None and label is None and epsilon is None:
        private_edges = STANDARD_EDGES if frame.height >= EDGES_FROM else 0.0
    own = identity if id_column is None else None
    dump(folder / POLICY, _policy(party, own, draft, released, private_edges or 0.0))
    if queries is None:
        _explain(folder / POLICY)
    data: dict[str, Any] = {"version": 1, "federation": name, "party": party}
    declared: dict[str, Any] = (
        {"column": identity} if id_column is None else {"columns": list(id_column.columns)}
    )
    data["id"] = {**declared, "types": sorted(types)}
    data |= public
    if target is not None:
        data["label"] = target
    data["features"] = draft.features
    dump(offer_file(folder, party), data)
    edges = private_edges or None
    blanks = write_template(folder / TEMPLATE, draft.blank, data, edges, draft.whole)
    make_private(folder)
    fingerprint_text = fingerprint(public["signing_key"], public["encryption_key"])
    fresh, learnt = isinstance(place, dict), "" if target is None else target["task"]
    return Offered(folder, party, draft.left_out, fresh, blanks, fingerprint_text, learnt)


def _policy(
    party: str, identity: str | None, draft: FirstColumns, queries: int | None, edges: float
) -> dict[str, Any]:
    """Return a policy that allows only what is offered; `agree` pins receivers.

    Args:
        party: Name of the party.
        identity: The ID column; None if there are several.
        draft: The party's columns.
        queries: Maximum people queried per month; None at the label holder.
        edges: Epsilon of private edges of numbers, drawn once.
    """
    rules: dict[str, Any] = {}
    features = copy.deepcopy(draft.features)
    inline_tables({"parties": {party: {"features": features}}}, Path())
    for name, feature in features.items():
        rule: dict[str, Any] = {}
        if name in draft.columns:
            rule["column"] = draft.columns[name]
        if queries is not None:
            rule |= _allowed(feature, edges)
        rules[name] = rule
    data: dict[str, Any] = {
        "version": 1,
        "party": party,
        **({} if identity is None else {"id_column": identity}),
        "require_encryption": True,
    }
    if queries is not None:
        data["alignment"] = {
            "seal_everybody": True,
            "max_new_queries": queries,
            "max_queries_total": MONTHS * queries,
        }
        # A person must approve a federation's first run before anything is released.
        data["approve"] = "first"
        whole = all_features_limit(rule.get("budget") for rule in rules.values())
        if whole is not None:
            data["all_features"] = {"budget": whole}
    return {**data, "features": rules}


def _allowed(feature: Mapping[str, Any], edges: float = 0.0) -> dict[str, Any]:
    return {"mechanisms": [feature["mechanism"]["name"]], **limits(feature, DOMAIN, edges)}


def allow(folder: Path, declared: Mapping[str, Any], features: Collection[str]) -> None:
    """Update mechanisms and budgets in a party's policy for features whose domain has changed.

    Budgets are never raised, because a person may have lowered them.

    Args:
        folder: The party's folder.
        declared: The new features of the offer.
        features: Names of features whose domain has changed.
    """
    explained = _CAPS in (folder / POLICY).read_text(encoding="utf-8")
    policy = read_yaml(folder / POLICY)
    rules = policy["features"]
    for name in rules.keys() & set(features):
        before = rules[name].get("budget")
        rules[name] |= _allowed(declared[name])
        if before is not None:
            rules[name]["budget"] = min(before, rules[name].get("budget", before))
    whole = all_features_limit(rule.get("budget") for rule in rules.values())
    before = (policy.get("all_features") or {}).get("budget")
    if before is not None and whole is not None:
        policy["all_features"]["budget"] = min(before, whole)
    dump(folder / POLICY, policy)
    if explained:
        _explain(folder / POLICY)


def _explain(policy: Path) -> None:
    """Add a comment that explains the caps on queries."""
    text = policy.read_text(encoding="utf-8")
    replace_text(policy, text.replace("\nalignment:\n", f"\n{_CAPS}alignment:\n"))


def _require_name(what: str, name: str) -> None:
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        usable = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_0123456789")
        example = f", such as {usable}" if usable else ""
        raise ConfigError(
            f"{name!r} is not a valid name of a {what}.",
            f"Use lowercase letters, digits and _, beginning with a letter{example}.",
        ) from None


def _require_options(
    label: str | None, identity: str, task: str | None, queries: int | None, *epsilons: float | None
) -> None:
    if label is not None and label in (identity, *identity.split(",")):
        raise ConfigError(f"The label {label} is the ID.", "Name another column with --label.")
    if task is not None and task not in get_args(LearningTask):
        raise ConfigError(
            f"There is no task {task}.", f"Choose one of {', '.join(get_args(LearningTask))}."
        )
    if queries is not None and queries < 1:
        raise ConfigError(f"--queries {queries} allows none.", "Give 1 or more.")
    try:
        TypeAdapter(list[Epsilon | None]).validate_python(list(epsilons))
    except ValidationError:
        raise ConfigError("An epsilon is a number above 0, at most 1000.") from None


def _pinned(party: str, path: Path) -> dict[str, str]:
    """Return a policy's features by raw column."""
    policy = load_policy(path)
    if policy.party != party:
        raise ConfigError(f"{path.name} is the policy of {policy.party}, not of {party}.")
    return {rule.column or name: name for name, rule in policy.features.items()}
