"""Checks of a party's own table for its people: filled domains, size, and changes over time."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

import polars as pl

from opboost_ops.config.feature import Feature, canonical
from opboost_ops.config.federation import Federation, IdColumn, Purpose
from opboost_ops.config.loading import site_of
from opboost_ops.config.source import Source
from opboost_ops.config.training import DPBoostTraining
from opboost_ops.errors import ContractError, OpBoostError, PolicyError
from opboost_ops.exchange.party_state import agreements_of, open_state
from opboost_ops.learning.private.leaf_sums import noise_error, sums_of
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.own_copy import borrowed
from opboost_ops.pipeline.inputs.raw_blocks import blocks, undeclared_table, whole_table
from opboost_ops.pipeline.inputs.rehearsal import common_people
from opboost_ops.pipeline.party import clock
from opboost_ops.pipeline.party.agreement import require_taking_part
from opboost_ops.pipeline.party.site_faults import Parties
from opboost_ops.pipeline.runner.disclosures import enter, name_of
from opboost_ops.pipeline.stage import COPY, Home, PartyContext, table_of
from opboost_ops.quality.domain_filling import Filling, filling
from opboost_ops.tables.columns import Expected
from opboost_ops.tables.copies import content_fingerprint, copy
from opboost_ops.tables.parquet import files_of
from opboost_ops.tables.people import people_of
from opboost_ops.tables.raw_values import category_texts
from opboost_ops.tables.spill.files import working_folder

#: Held-out rows of the rarer class that detect a loss of 0.05 AUC in 80% of tables.
_TELLING = 100

_SEEN: dict[Purpose, str] = {"train": "table_version", "score": "new_rows_version"}

DISCLOSES = (
    "that other people are in the party's table than at the last look, or that another year has "
    "begun (a bit per look); of the label holder's table, also that a declared column has changed"
)


def domain_fillings(context: PartyContext) -> list[Filling]:
    """Return how the protected numbers of a feature holder's training table fill their domains.

    Args:
        context: The party's context. Unreadable tables give an empty list; other checks report
            them.
    """
    party = context.federation.parties[context.party]
    if party.role != "feature_holder":
        return []
    domain = context.federation.domain.to_domain()
    fillings = []
    try:
        with borrowed(replace(context, purpose="train")) as lent:
            for name, feature in party.features.items():
                if feature.type != "nominal":
                    column = whole_table(lent, [name]).get_column(name)
                    fillings.append(
                        filling(name, raw_table.numbers(column, feature), feature, domain)
                    )
    except OpBoostError:
        return []
    return fillings


def category_notes(context: PartyContext) -> list[str]:
    """Return notes on a party's declared categories in its training table, one per feature.

    A note has the number of rows in the feature's `rest` category and the declared categories
    that no row has; features without either have no note.

    Args:
        context: The party's context. Unreadable tables give an empty list; other checks report
            them.
    """
    features = context.federation.parties[context.party].features
    notes = []
    try:
        with borrowed(replace(context, purpose="train")) as lent:
            for name, feature in features.items():
                if feature.categories:
                    column = undeclared_table(lent, [name]).get_column(name)
                    notes.append(_category_note(name, category_texts(column), feature))
    except OpBoostError:
        return []
    return [note for note in notes if note]


def _category_note(name: str, texts: pl.Series, feature: Feature) -> str:
    category_of = {canonical(category): category for category in feature.categories or ()}
    category_of |= {canonical(raw): category for raw, category in feature.mapping.items()}
    counts = dict(texts.drop_nulls().value_counts().iter_rows())
    rest = sum(count for text, count in counts.items() if text not in category_of)
    there = {category_of[text] for text in counts if text in category_of}
    if rest and feature.rest is not None:
        there.add(feature.rest)
    absent = [category for category in feature.categories or () if category not in there]
    parts = []
    if rest and feature.rest is not None:
        parts.append(f"{rest:,} of {len(texts):,} rows count as {feature.rest}, its rest")
    if absent:
        parts.append(f"no row has {', '.join(absent)}")
    return f"{name}: {'; '.join(parts)}." if parts else ""


def few_held_out(federation: Federation, parties: Parties) -> list[str]:
    """Return a sentence for each party with too few held-out rows for any gate rule.

    Regression labels are not checked.

    Args:
        federation: The federation as declared.
        parties: Context and folder of ``site.yaml`` by party.
    """
    share, label, notes = federation.training.holdout, federation.label, []
    if label is None or label.task == "regression":
        return []
    for party, (context, _) in parties.items():
        if federation.learning == "vertical" and party != federation.label_holder:
            continue
        try:
            with borrowed(replace(context, purpose="train")) as table:
                labels = pl.concat([block.to_series() for block in blocks(table, [label.column])])
        except OpBoostError:
            continue
        rarer = labels.drop_nulls().value_counts()["count"].min()
        if isinstance(rarer, int) and rarer * share < _TELLING:
            notes.append(
                f"About {rarer * share:.0f} rows of {party}'s rarest class would be held out: too "
                f"few for any gate to tell a model that is 0.05 AUC worse, which takes "
                f"{_TELLING}. Compare models over several runs, and promote by hand."
            )
    return notes


def small_table(federation: Federation, parties: Parties) -> str | None:
    """Return a warning if a model with a delta has too few rows for its delta or its noise.

    It depends only on declarations and the number of common people, which every run discloses
    exactly. In horizontal learning no exact row count is disclosed, so there is no warning.

    Args:
        federation: The federation as declared.
        parties: Context and folder of ``site.yaml`` by party.

    Returns:
        The warning; None if there are enough rows, the model has no delta, or a party is missing.
    """
    training = federation.training
    if not isinstance(training, DPBoostTraining) or training.private.delta is None:
        return None
    if parties.keys() < federation.parties.keys():
        return None
    label = federation.parties[federation.label_holder].label
    assert label is not None and label.task != "multiclass"
    try:
        with ExitStack() as stack:
            contexts = [replace(context, purpose="train") for context, _ in parties.values()]
            people = common_people([stack.enter_context(borrowed(each)) for each in contexts])
    except OpBoostError:
        return None
    if not people:
        return None
    # With a holdout column, the number of held-out rows would depend on the table.
    share = 1.0 - training.holdout
    rows, private = round(people * share), training.private
    assert private.delta is not None
    if private.delta * rows >= 1:
        return (
            f"training.private.delta is {private.delta:g}, which is not below 1 / {rows:,} "
            "training rows: the training would be refused. Declare a smaller one."
        )
    sums = sums_of(label.task, training.trees, private.epsilon, private.delta)
    error = noise_error(rows, sums, training.learning_rate)
    if error is None:
        return None
    unit = "in log odds"
    if label.bounds is not None:
        error, unit = error * (label.bounds[1] - label.bounds[0]) / 2, "in the label's unit"
    return (
        f"{rows:,} training rows are too few for epsilon {private.epsilon:g} and delta "
        f"{private.delta:g}: noise alone moves a score by about {error:.2g} ({unit}). Train on "
        "more rows, or declare a larger training.private.epsilon."
    )


def changed(party: str, federation: str, look: str, purpose: Purpose = "train") -> bool:
    """Return True if the table's keyed fingerprint differs from that of the last poll.

    A feature holder's fingerprint depends on its IDs and the calendar year alone, so that no
    person's value decides when a run starts. Another party's depends on all columns that it has
    agreed to use. Row order, file format and number of files change nothing.

    Args:
        party: The party whose table is checked.
        federation: Name of the federation.
        look: Name of this poll: its retries give the same answer.
        purpose: The training table or the table of new rows; a party without new rows returns
            False.

    Raises:
        ConfigError: ``site.yaml`` names no table for the federation.
        ContractError: The table cannot be read.
        PolicyError: The party has no agreement in force or has stopped taking part.
    """
    site, policy = site_of(party)
    tables = site.tables.get(federation)
    if purpose == "score" and (tables is None or tables.score is None):
        return False
    agreed = agreements_of(site).newest(federation)
    if agreed is None:
        # The answer is a disclosure, and no plan is needed to ask for it.
        raise PolicyError(
            f"{party} has not agreed to {federation}.",
            "Its own people may: `opboost agree SITE FEDERATION`.",
        )
    require_taking_part(site, federation)
    key = noise.keyed_by(site.read_secret(), ":table")
    identity, names = _compared_columns(agreed.content["federation"], party, purpose)
    wanted = [policy.raw_column(name, identity.column) for name in names]
    path = table_of(site, federation, identity, purpose)
    home = Home(site.home / federation)
    fingerprint: str | None = None
    if isinstance(path, Source):
        with working_folder(home.folder, ".look-") as folder:
            looked = folder / COPY
            people = people_of(site, policy, federation, identity)
            columns = {
                raw: Expected(name, "text", is_id=True) for name, raw in people.parts.items()
            }
            copy(path, party, looked, columns, people)
            fingerprint = content_fingerprint((looked,), wanted, key)
    else:
        with suppress(OSError):
            if files := files_of(path):
                fingerprint = content_fingerprint(files, wanted, key)
    if fingerprint is None:
        raise ContractError(
            f"The table of {party} cannot be read.",
            "Check tables in its site.yaml, and the job that writes what it names.",
        )
    if agreed.content["federation"]["parties"][party]["role"] == "feature_holder":
        fingerprint = f"{clock.today().year}:{fingerprint}"
    name = _SEEN[purpose]
    last = home.json(name) if home.has(name) else {}
    if last.get("fingerprint") == fingerprint:
        return bool(last.get("look") == look)
    with open_state(site) as state:
        artifact_name = name_of(f"{federation}/{party}/{look}/{name}")
        enter(state, party, federation, "look_at_table", artifact_name, DISCLOSES)
    home.write_json(name, {"fingerprint": fingerprint, "look": look})
    return True


def _compared_columns(
    declared: Mapping[str, Any], party: str, purpose: Purpose
) -> tuple[IdColumn, list[str]]:
    """Return the ID column and the declared names of the columns to compare."""
    own = declared["parties"].get(party, {})
    identity = IdColumn.model_validate(declared["id"])
    if own.get("role") == "feature_holder":
        return identity, [identity.column]
    names = [identity.column, *own.get("features", ())]
    if purpose == "train":
        label = own.get("label")
        names += [str(label["column"])] if label else []
    return identity, list(dict.fromkeys(names))
