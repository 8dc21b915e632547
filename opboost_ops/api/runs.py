"""Training and scoring, all parties on this machine."""

import getpass
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from opboost_ops.api.models import models
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import load_site
from opboost_ops.errors import ApprovalError
from opboost_ops.learning.registry.card import Card
from opboost_ops.learning.registry.registry import model_in
from opboost_ops.pipeline.party import approval
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.party.party_sites import federation_file, site_files
from opboost_ops.pipeline.runner.local import AtWait, Listener, run_federation


@dataclass(frozen=True, repr=False)
class Trained:
    """A finished training run.

    Attributes:
        federation: As it was run.
        version: The model's, which is also the run's id.
        champion: Whether it became champion.
        why: The gate's decision.
        metrics: A row for each way of training and scoring, named by ``model``.
        model: The model's text, as stock LightGBM or XGBoost loads it.
        card: Its card.
        seconds: By stage.
    """

    federation: Federation
    version: str
    champion: bool
    why: str
    metrics: pl.DataFrame
    model: str
    card: Card
    seconds: Mapping[str, float]

    def __repr__(self) -> str:
        champion = "champion" if self.champion else "not champion"
        return f"Trained({self.federation.name} {self.version}, {champion})"


@dataclass(frozen=True, repr=False)
class Scored:
    """A finished scoring run.

    Attributes:
        federation: Name of the federation.
        run: The run's id.
        version: Of the model.
        mode: Of scoring.
        file: Where the scores are.
        scores: A row per person.
        new: Whether the file is new; the same rows are scored once.
        seconds: By stage.
    """

    federation: str
    run: str
    version: str
    mode: str
    file: Path
    scores: pl.DataFrame
    new: bool
    seconds: Mapping[str, float]

    def __repr__(self) -> str:
        return f"Scored({self.scores.height:,} rows by {self.version}, {self.mode})"

    def document(self) -> dict[str, Any]:
        """As `opboost score --json` prints it."""
        named = ("federation", "run", "version", "mode", "new")
        return {
            **{name: getattr(self, name) for name in named},
            "rows": self.scores.height,
            "scores": str(self.file),
            "seconds": dict(self.seconds),
        }


def run(
    federation: str | Path,
    *,
    listener: Listener | None = None,
    because: str | None = None,
    **form: Any,
) -> Trained:
    """Train a federation on this machine, with all its parties.

    Args:
        federation: ``federation.yaml``, or its folder.
        listener: Called with party and event for every stage.
        because: Why the people of all parties approve what waits for them; it is kept in each
            party's audit log. Without, a run that waits for a person fails.
        form: As in the trigger form: ``trees``, ``learning_rate``, ``depth``, ``parameters``,
            ``denoise``.

    Raises:
        OpBoostError: What happened, where, and what to do.
    """
    path = federation_file(Path(federation))
    finished = run_federation(path, form, listener, "train", answering(because))
    summary = finished.summaries[finished.federation.label_holder]
    registered = models(path)
    card = registered.card(finished.run)
    lines = [{"model": name, **values} for name, values in card.metrics.items()]
    return Trained(
        federation=finished.federation,
        version=finished.run,
        champion=summary["register"]["champion"],
        why=summary["register"]["why"],
        metrics=pl.DataFrame(lines, infer_schema_length=None),
        model=model_in(registered.files(finished.run)),
        card=card,
        seconds=finished.seconds(),
    )


def score(
    federation: str | Path,
    version: str | None = None,
    *,
    listener: Listener | None = None,
    because: str | None = None,
) -> Scored:
    """Score the parties' tables of new rows.

    Args:
        federation: ``federation.yaml``, or its folder.
        version: A model; the champion when absent.
        listener: Called with party and event for every stage.
        because: As for `run`.

    Raises:
        OpBoostError: What happened, where, and what to do.
    """
    path = federation_file(Path(federation))
    finished = run_federation(path, {"version": version}, listener, "score", answering(because))
    owner, name = finished.federation.label_holder, finished.federation.name
    summary = finished.summaries[owner]
    site = load_site(site_files(path, finished.federation)[owner])
    used, written = summary["score"]["version"], summary["write_scores"]
    file = site.scores / name / used / written["file"]
    # By this path alone: polars would take brackets in a folder's name for a pattern.
    scores = pl.read_parquet(file.read_bytes())
    mode, new = summary["score"]["mode"], written["new"]
    return Scored(name, finished.run, used, mode, file, scores, new, finished.seconds())


def answering(because: str | None) -> AtWait:
    """Answer a party's approval request with a reason, or raise where there is none.

    Args:
        because: The reason; without one nobody can answer.
    """

    def at_wait(site: Path, run: Run) -> None:
        loaded = load_site(site)
        if because is None or not because.strip():
            raise ApprovalError(
                f"{loaded.party} requires approval of its first release, which this call cannot "
                "wait for.",
                "Approve for all parties with `because='...'`, or begin with `opboost run` or "
                "`opboost score`, which wait for `opboost approve`.",
            )
        for request, decision in approval.waiting(loaded, run.run):
            # Another federation's question with the same run id is not this call's to answer.
            if decision is None and request.place.startswith(f"{run.federation}/"):
                who, why = getpass.getuser(), because.strip()
                approval.answer(loaded, run.run, request.artifact, True, who, why)

    return at_wait
