"""A named table in one place, with declared candidate splits and folds: for experiments alone."""

import hashlib
from typing import Any
from uuid import UUID

import numpy as np
import polars as pl

from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import Label
from opboost_ops.domain import Domain
from opboost_ops.extras.datasets.tables import ID, Dataset
from opboost_ops.learning.boosters.backend import Frame
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.model_columns import category_codes, encode_label

#: What a dataset's label holder need not declare, and DPBoost asks of it.
_MORE: dict[str, dict[str, dict[str, Any]]] = {
    "adult": {"capital-loss": {"bounds": [0, 5000]}},
    "credit_default": {
        "X2": {"bounds": [1, 2]},
        "X3": {"bounds": [0, 6]},
        "X4": {"bounds": [0, 3]},
        "X5": {"bounds": [18, 90]},
    },
    "give_me_some_credit": {
        "age": {"bounds": [18, 110]},
        "NumberOfDependents": {"bounds": [0, 20], "missing": {"fill": 0}},
    },
    "credit_scoring": {
        "age": {"bounds": [18, 90]},
        "amount": {"bounds": [0, 50_000]},
        "term_months": {"bounds": [0, 84]},
        "earlier_loans": {"bounds": [0, 10], "missing": {"fill": 0}},
        "delinquencies": {"bounds": [0, 10]},
    },
}
_UUID = UUID("0d0b6a51-6a52-4b53-8a0a-1d3c1b0f7a11")


class OneTable:
    """All columns of a dataset, each with fixed candidate thresholds.

    Args:
        dataset: Any; two classes or a number.
        domain: On whose codes numbers are laid; each edge between two codes is a candidate.
        folds: How many folds rows fall into, by a hash of their ID.

    Attributes:
        task: What is learnt.
        label: Numbers or class indices, shape (n,).
        frame: All rows.
        fold: Of each row.
    """

    def __init__(self, dataset: Dataset, domain: Domain, folds: int) -> None:
        declared = Label.model_validate(dataset.label)
        own = dataset.tables[dataset.label_holder]
        whole = own
        for party, table in dataset.tables.items():
            if party != dataset.label_holder:
                whole = whole.join(table, on=ID, how="inner", maintain_order="left")
        self.task = declared.task
        self.label, _ = encode_label(whole.get_column(declared.column), declared, whole.height)
        columns: dict[str, np.ndarray] = {}
        thresholds: dict[str, tuple[float, ...]] = {}
        categories: dict[str, int] = {}
        for party, features in dataset.features.items():
            for name, entry in features.items():
                more = _MORE.get(dataset.name, {}).get(name, {})
                feature = Feature.model_validate({"uuid": _UUID, **entry, **more})
                if feature.type == "nominal":
                    text = whole.get_column(name).cast(pl.String)
                    # The tables' documentations list them.
                    found = list(feature.categories or text.drop_nulls().unique().sort())
                    columns[name] = category_codes(text, found)
                    categories[name] = len(found)
                elif feature.bounds is None and feature.type == "numeric":
                    raise ValueError(f"{party}.{name} of {dataset.name} has no declared bounds")
                else:
                    mapping = feature.domain_map(domain)
                    columns[name] = raw_table.numbers(whole.get_column(name), feature)
                    thresholds[name] = mapping.boundaries()
        names = tuple(columns)
        self.frame = Frame(
            names,
            np.asfortranarray(np.column_stack(list(columns.values()))),
            tuple(categories),
            (),
            thresholds,
            categories,
        )
        digest = hashlib.sha256(b"folds").digest()
        keys = noise.person_keys(digest, whole.get_column(ID).to_arrow(), "string")
        order = np.argsort(keys[:, :8].copy().view(np.uint64).reshape(-1), kind="stable")
        self.fold = np.empty(len(order), dtype=np.int64)
        self.fold[order] = np.arange(len(order)) % folds
