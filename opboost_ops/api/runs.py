"""Training and scoring, all parties on this machine."""

import getpass
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from opboost_ops.api.models import models
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import load_federation, load_site
from opboost_ops.errors import ApprovalError, ConfigError
from opboost_ops.extras.datasets import generated, load
from opboost_ops.extras.datasets.workspace import write_workspace
from opboost_ops.extras.lab import centralised
from opboost_ops.learning.boosters.trainer import format_of
from opboost_ops.learning.registry.card import Card
from opboost_ops.learning.registry.registry import Registry, model_in
from opboost_ops.pipeline.party import approval
from opboost_ops.pipeline.party.form_values import with_form
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.party.party_sites import federation_file, site_files
from opboost_ops.pipeline.runner.facts import artifact_sizes
from opboost_ops.pipeline.runner.local import AtWait, Finished, Listener, run_federation
from opboost_ops.reports.outcomes import outcome


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


def write_named(
    dataset: str,
    folder: Path,
    form: Mapping[str, Any],
    *,
    seed: int | None = None,
    epsilon: float | None = None,
    upper: int | None = None,
    model_epsilon: float | None = None,
) -> tuple[Path, dict[str, Any]]:
    """Write all parties of a federation that is made from a named table.

    Args:
        dataset: One of `datasets.NAMES`.
        folder: An empty or new one.
        form: As in the trigger form.
        seed: Makes split and noise predictable.
        epsilon: Of all protected features.
        upper: R of the domain.
        model_epsilon: Of noise in all sums of horizontal learning.

    Returns:
        ``federation.yaml``, and the form that its run takes: that of horizontal learning is empty,
        since its training is part of what the parties agree on.

    Raises:
        ConfigError: An option is not for this table, or the folder is in use.
    """
    if dataset == generated.NAME:
        vertical = {
            "--epsilon": epsilon,
            "--upper": upper,
            "--denoise": form.get("denoise"),
            "--parameter": form.get("parameters"),
        }
        if named := [option for option, value in vertical.items() if value is not None]:
            raise ConfigError(
                f"{', '.join(named)} is not for {dataset}, whose learning is horizontal.",
                "No column is randomised there, and FederBoost trains: leave it out.",
            )
        usual = (
            generated.SMALL if model_epsilon is None else generated.private_training(model_epsilon)
        )
        declared = {name: value for name, value in form.items() if value is not None}
        return generated.write_lenders(folder, seed=seed, training={**usual, **declared}), {}
    if model_epsilon is not None:
        raise ConfigError(
            f"--model-epsilon is not for {dataset}, whose learning is vertical.",
            "It goes with --dataset lenders; DPBoost has training.private in federation.yaml.",
        )
    # Imputed values make a model of clear rows: desensitised scoring never has any.
    imputed = form.get("denoise") not in (None, "none")
    file = write_workspace(
        load(dataset, seed=seed or 0),
        folder,
        seed=seed,
        epsilon=epsilon,
        upper=upper,
        scoring={"mode": "routed"} if imputed else None,
    )
    return file, dict(form)


def run_document(file: Path, finished: Finished, *, experiment: bool = False) -> dict[str, Any]:
    """Return a finished training run's results as JSON.

    Args:
        file: Its ``federation.yaml``.
        finished: The run.
        experiment: Whether the tables were generated or public, so that metrics of clear rows
            exist.
    """
    declared = finished.federation
    owner = declared.label_holder
    sites = site_files(file, declared)
    models = load_site(sites[owner]).models
    horizontal = declared.learning == "horizontal"
    results = (
        _horizontal(finished) if horizontal else _vertical(finished, sites, models, experiment)
    )
    name = format_of(declared.training.trainer).file
    return {
        **results,
        "federation": declared.name,
        "run": finished.run,
        "seconds": finished.seconds(),
        "quality_seconds": round(sum(finished.seconds("quality_seconds").values()), 6),
        "model": str(models / declared.name / finished.run / name),
    }


def described_run(
    federation_file: str,
    run: str,
    form: Mapping[str, Any],
    summaries: dict[str, dict[str, dict[str, Any]]],
    spent: dict[str, dict[str, dict[str, float]]],
    experiment: bool,
) -> dict[str, Any]:
    """`run_document` of a run whose parts are JSON values.

    Args:
        federation_file: ``federation.yaml``.
        run: The run's id.
        form: As in the trigger form.
        summaries: See `Finished`.
        spent: See there.
        experiment: See `run_document`.
    """
    file = Path(federation_file)
    finished = Finished(run, with_form(load_federation(file), form), summaries, spent)
    return run_document(file, finished, experiment=experiment)


def _vertical(
    finished: Finished, sites: Mapping[str, Path], models: Path, experiment: bool
) -> dict[str, Any]:
    declared = finished.federation
    owner = declared.label_holder
    summaries = finished.summaries[owner]
    metrics = {"centralised": None, "federated": None, **summaries["evaluate"]["metrics"]}
    if experiment:
        metrics = centralised.metrics(sites, declared.name, owner, finished.run)
    files = Registry(models, declared.name).files(finished.run)
    return {
        "metrics": metrics,
        "outcome": outcome(declared, files, summaries["register"]),
        "bytes": artifact_sizes(sites[owner], declared.name, finished.run),
    }


def _horizontal(finished: Finished) -> dict[str, Any]:
    summaries = finished.summaries
    boosted = {party: stages["boost"] for party, stages in summaries.items()}
    spent = {party: finished.spent[party]["boost"] for party in summaries}
    active = boosted[finished.federation.label_holder]
    private = {"private": active["private"]} if "private" in active else {}
    return {
        **private,
        "metrics": {
            party: stages["evaluate_own"]["metrics"] for party, stages in summaries.items()
        },
        "rows": active["rows"],
        "messages": max(summary["messages"] for summary in boosted.values()),
        "bytes": sum(summary["bytes"] for summary in boosted.values()),
        "sums": active["sums"],
        # Waiting for one another is part of it here.
        "training": round(max(s["seconds"] + s["waited"] for s in spent.values()), 6),
        "cpu": {party: used["cpu"] for party, used in spent.items()},
    }
