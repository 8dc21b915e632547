"""Kinds of run, each with the federation that it begins from and what is done with it."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from opboost_ops.config.federation import Purpose
from opboost_ops.extras.datasets.generated import write_lenders
from opboost_ops.learning.private import noise as model_noise
from opboost_ops.pipeline import catalogue
from opboost_ops.pipeline.inputs.raw_blocks import whole_table
from opboost_ops.pipeline.party.agreement import agree
from opboost_ops.pipeline.stage import Context, Outcome, Stage
from tests.federation import FIRST_RUN, SCORING_RUN, Workspace
from tests.integration.pipeline.scoring_data import dataset
from tests.noninterference.observation import Observation, Watch, here, observe
from tests.noninterference.rewriting import REWRITINGS, STRANGERS, read, tables, undeclared, write

#: The party whose table the failing runs are about.
PARTY = "b0"


@dataclass(frozen=True)
class Kind:
    """A kind of run.

    Attributes:
        prepare: Changes a federation that is made, before anything is rewritten.
        purpose: What the run is for.
        tries: How often each stage is run.
        everybody: Whether each row of a table counts, and not only those of people whom all share.
        lenders: Whether it is horizontal learning.
        breaks: Stage of `PARTY` that ends in a foreign error.
        ends: Step whose error ends the run; empty if it ends well.
        trained: Whether it begins from a federation that has a model.
        left: Whether all rows of the label holder are kept.
    """

    prepare: Callable[[Workspace], None] = lambda _: None
    purpose: Purpose = "train"
    tries: int = 1
    breaks: str = ""
    ends: str = ""
    trained: bool = False
    everybody: bool = False
    lenders: bool = False
    left: bool = False

    def names(self, names: Iterable[str]) -> list[str]:
        """Of some rewritings, those by which this kind of run may not change."""
        return [name for name in names if not self.everybody or name != STRANGERS]


def _scoring(mode: str) -> Callable[[Workspace], None]:
    def prepare(workspace: Workspace) -> None:
        workspace.declare("federation.yaml", scoring={"mode": mode})

    return prepare


def _edited(change: Callable[[pl.DataFrame], pl.DataFrame]) -> Callable[[Workspace], None]:
    def prepare(workspace: Workspace) -> None:
        for path in tables(workspace, PARTY):
            write(path, change(read(path)))

    return prepare


def _outside_bounds(table: pl.DataFrame) -> pl.DataFrame:
    outside = np.arange(table.height) % 7 == 0
    return table.with_columns(pl.when(pl.Series(outside)).then(999.25).otherwise("w").alias("w"))


def _an_enum(table: pl.DataFrame) -> pl.DataFrame:
    names = [f"value {i}" for i in range(table.height)]
    return table.with_columns(w=pl.Series(names, dtype=pl.Enum(names)))


def _over_budget(workspace: Workspace) -> None:
    workspace.declare(f"{PARTY}/policy.yaml", all_features={"budget": 0.001})


def _without_consent(workspace: Workspace) -> None:
    workspace.edit_yaml(f"{PARTY}/policy.yaml", lambda policy: policy["features"].pop("size"))


def _not_agreed(workspace: Workspace) -> None:
    wider = {PARTY: {"features": {"w": {"bounds": [0, 2]}}}}
    workspace.declare("federation.yaml", agree=False, parties=wider)
    for party in ("a", "b1"):
        agree(workspace.site(party), workspace.declared)


def _keep_all_rows(workspace: Workspace) -> None:
    workspace.declare("federation.yaml", alignment={"overlap": "left"})
    for party in ("b0", "b1"):
        workspace.declare(f"{party}/policy.yaml", alignment={"members": ["each"]})


def _private_model(workspace: Workspace) -> None:
    private = {"trainer": "dpboost", "trees": 4, "depth": 2, "private": {"epsilon": 3.0}}
    kinds = {"categories": ["one", "two", "three"], "missing": {"fill": "one"}}
    own = {"features": {"x": {"bounds": [0, 88]}, "kind": kinds}}
    workspace.declare("federation.yaml", training=private, parties={"a": own})


KINDS: Mapping[str, Kind] = {
    "training": Kind(),
    "training, every stage tried again": Kind(tries=2),
    "training, a private model": Kind(_private_model),
    "training, all rows": Kind(_keep_all_rows, everybody=True),
    "scoring, desensitised": Kind(_scoring("desensitised"), "score", trained=True),
    "scoring, routed": Kind(_scoring("routed"), "score", trained=True),
    "scoring, local": Kind(_scoring("local"), "score", trained=True, everybody=True),
    "scoring, desensitised, all rows": Kind(
        _scoring("desensitised"), "score", trained=True, everybody=True, left=True
    ),
    "scoring, routed, all rows": Kind(
        _scoring("routed"), "score", trained=True, everybody=True, left=True
    ),
    "scoring, every stage tried again": Kind(
        _scoring("desensitised"), "score", tries=2, trained=True
    ),
    "refused, over budget": Kind(_over_budget, ends=f"{PARTY}.check_table"),
    "refused, no consent": Kind(_without_consent, ends=f"{PARTY}.check_table"),
    "refused, not agreed": Kind(_not_agreed, ends=f"{PARTY}.check_table"),
    "failed, a check of the table": Kind(_edited(_outside_bounds), ends=f"{PARTY}.check_table"),
    "failed, a wrong type": Kind(_edited(_an_enum), ends=f"{PARTY}.check_table"),
    "failed, a column is missing": Kind(
        _edited(lambda table: table.drop("size")), ends=f"{PARTY}.check_table"
    ),
    "failed, a foreign error": Kind(breaks="rank", ends=f"{PARTY}.rank"),
    "failed, a foreign error in an answer": Kind(breaks="psi_answer", ends=f"{PARTY}.psi_answer"),
    "horizontal learning": Kind(everybody=True, lenders=True),
    "horizontal learning, scoring": Kind(
        purpose="score", trained=True, everybody=True, lenders=True
    ),
}


@dataclass(frozen=True)
class Beginnings:
    """Where runs begin from: each is copied, and never changed.

    Attributes:
        folder: Where copies are put.
        made: Three parties of 400 people, with columns of every type, and one that is undeclared.
        trained: The same with a model.
        left: The same with a model of all rows of the label holder.
        lenders: Three lenders of horizontal learning.
        lent: The same with a model.
    """

    folder: Path
    made: Workspace
    trained: Workspace
    left: Workspace
    lenders: Workspace
    lent: Workspace

    @classmethod
    def write(cls, folder: Path) -> "Beginnings":
        """New ones."""
        made = Workspace.write(
            folder / "made",
            dataset("binary"),
            training={"trees": 3, "depth": 2},
            scoring={"mode": "desensitised", "evaluate": ["desensitised", "routed", "local"]},
        )
        # It is told, as a metric, how many retrainings fit into it.
        made.allow(PARTY, budget=500.0)
        training = {"trees": 2, "depth": 2}
        # A whole number, too: there are several ways to keep one.
        for path in tables(made, "a"):
            whole = (pl.col("x") * 88).round().cast(pl.Int64)
            pl.read_parquet(path).with_columns(whole).write_parquet(path)
        write_lenders(folder / "lenders", rows=300, seed=0, training=training)
        lenders = Workspace(folder / "lenders")
        lenders.declare("federation.yaml", agree=False, schedule={"timeout_hours": 0.4})
        for workspace in (made, lenders):
            for party in workspace.declared.parties:
                for number, path in enumerate(tables(workspace, party)):
                    undeclared(pl.read_parquet(path), number).write_parquet(path)
        found = cls(
            folder, made, made.copy(folder / "trained", FIRST_RUN),
            made.copy(folder / "left", FIRST_RUN),
            lenders, lenders.copy(folder / "lent", FIRST_RUN),
        )  # fmt: skip
        _keep_all_rows(found.left)
        for workspace in (found.trained, found.left, found.lent):
            ended = seen(KINDS["training"], workspace)
            assert not [place for place in ended if place.startswith("error")], ended
        return found

    def begin(self, kind: Kind, *names: str) -> Workspace:
        """A federation that is about to begin a run of a kind, with its inputs rewritten.

        Args:
            kind: Which.
            names: Of rewritings.
        """
        run = SCORING_RUN if kind.purpose == "score" else FIRST_RUN
        whole = (self.lent if kind.trained else self.lenders) if kind.lenders else None
        trained = self.left if kind.left else self.trained
        from_ = whole or (trained if kind.trained else self.made)
        folder = self.folder / f"{len(list(self.folder.iterdir()))}"
        begun = Workspace(from_.copy(folder, run).folder, run, kind.purpose)
        kind.prepare(begun)
        for name in kind.names(names):
            for party in begun.declared.parties:
                REWRITINGS[name](begun, party)
        return begun


def seen(
    kind: Kind, begun: Workspace, work: Callable[[Watch], object] | None = None
) -> Observation:
    """What is seen of a run of a kind, with one tape of randomness.

    Args:
        kind: Which.
        begun: The federation.
        work: What is done; the whole run when absent.
    """
    with pytest.MonkeyPatch.context() as patch, tape(patch):
        begun.known_to(patch)
        if kind.breaks:
            _break(patch, kind.breaks)
        return observe(begun, work or (lambda watch: watch.all()), kind.tries)


def _break(patch: pytest.MonkeyPatch, name: str) -> None:
    stage: Stage = catalogue.STAGES[name]  # type: ignore[assignment]

    def broken(context: Context) -> Outcome:
        outcome = stage(context)
        if context.party != PARTY:
            return outcome
        # As polars does: an error whose text is the first cells that it stumbled over.
        raise pl.exceptions.ComputeError(f"conversion failed: {whole_table(context).head()}")

    patch.setitem(catalogue.STAGES, name, broken)  # type: ignore[arg-type]


@contextmanager
def tape(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Randomness that is fresh in every run comes from one recorded tape.

    Noise of features is keyed and needs none. That of private models is: keys, words, and integers
    that are added to integers.
    """
    drawn: dict[str, np.random.Generator] = {}

    def generator() -> np.random.Generator:
        # A part of the tape for each step: parties that draw side by side have no order.
        return drawn.setdefault(here(), np.random.default_rng(zlib.crc32(here().encode())))

    def laplace(values: Any, sensitivity: int, epsilon: Any) -> list[int]:
        scale = sensitivity / float(epsilon)
        return [int(v) + round(generator().laplace(scale=scale)) for v in values]

    def bytes_of(count: int) -> bytes:
        return generator().bytes(count)

    patch.setattr(model_noise, "laplace", laplace)
    # Both are those of the whole process: every draw from them is from the tape.
    patch.setattr(model_noise.secrets, "token_bytes", bytes_of)
    patch.setattr(model_noise.os, "urandom", bytes_of)
    yield
