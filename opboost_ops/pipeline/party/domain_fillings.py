"""How a party's columns fill domains and categories: reported at home, and nowhere else."""

from dataclasses import replace

import polars as pl

from opboost_ops.config.feature import Feature, canonical
from opboost_ops.errors import OpBoostError
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.raw_blocks import undeclared_table, whole_table
from opboost_ops.pipeline.inputs.sources import borrowed
from opboost_ops.pipeline.stage import Context
from opboost_ops.quality.domain_filling import Filling, filling
from opboost_ops.tables.categories import category_texts


def domain_fillings(context: Context) -> list[Filling]:
    """How the protected numbers of a feature holder's training table fill their domains.

    Args:
        context: The party's; one whose table cannot be read has none, which others say.
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


def category_notes(context: Context) -> list[str]:
    """Notes on a party's declared categories in its training table, one sentence per feature.

    Args:
        context: The party's; one whose table cannot be read has none, which others say.

    Returns:
        How many rows are in a feature's `rest`, and which declared categories no row has; nothing
        of features where neither is so.
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
