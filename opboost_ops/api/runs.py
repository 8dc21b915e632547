"""Train and score with all parties on this machine."""

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
        federation: The declaration with the form's values.
        version: Id of the model version, which is also the run's id.
        champion: True if the model became champion.
        why: The gate's decision.
        metrics: A row per way of training and scoring, named by ``model``.
        model: The model's text, as stock LightGBM or XGBoost loads it.
        card: The model's card.
        seconds: Duration by stage.
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
        run: Id of the run.
        version: Id of the model version.
        mode: Scoring mode.
        file: Path of the scores.
        scores: A row per person.
        new: False if an earlier run had scored the same rows and its file is reused.
        seconds: Duration by stage.
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
        """Return the JSON document of `opboost score --json`."""
        names = ("federation", "run", "version", "mode", "new")
        return {
            **{name: getattr(self, name) for name in names},
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
        because: The reason for approving all releases that await approval, recorded in each
            party's audit log. Without it, a run that needs approval fails.
        form: Fields of the trigger form: ``trees``, ``learning_rate``, ``depth``, ``parameters``,
            ``denoise``.

    Raises:
        OpBoostError: The run failed.
    """
    path = federation_file(Path(federation))
    finished = run_federation(path, form, listener, "train", approve_with(because))
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
        version: Id of a version; the champion by default.
        listener: Called with party and event for every stage.
        because: As for `run`.

    Raises:
        OpBoostError: The run failed.
    """
    path = federation_file(Path(federation))
    form = {"version": version}
    return scored(path, run_federation(path, form, listener, "score", approve_with(because)))


def scored(path: Path, finished: Finished) -> Scored:
    """Return the result of a finished scoring run.

    Args:
        path: ``federation.yaml``.
        finished: The run.
    """
    owner, name = finished.federation.label_holder, finished.federation.name
    summary = finished.summaries[owner]
    site = load_site(site_files(path, finished.federation)[owner])
    used_version, written = summary["score"]["version"], summary["write_scores"]
    file = site.scores / name / used_version / written["file"]
    # Read as bytes: polars would expand brackets in the path as a pattern.
    scores = pl.read_parquet(file.read_bytes())
    mode, new = summary["score"]["mode"], written["new"]
    return Scored(name, finished.run, used_version, mode, file, scores, new, finished.seconds())


def approve_with(because: str | None) -> AtWait:
    """Return a callback that approves a party's waiting releases, or raises without a reason."""

    def at_wait(site: Path, run: Run) -> None:
        loaded = load_site(site)
        if because is None or not because.strip():
            raise ApprovalError(
                f"{loaded.party} requires approval of its first release, and this call cannot "
                "wait for it.",
                "Approve for all parties with `because='...'`, or start the run with `opboost run` "
                "or `opboost score`, which wait for `opboost approve`.",
            )
        for request, decision in approval.waiting(loaded, run.run):
            # Requests of another federation may have the same run id.
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
    """Write the files of all parties of a federation that is made from a named data set.

    Args:
        dataset: One of `datasets.NAMES`.
        folder: An empty or new folder.
        form: Fields of the trigger form.
        seed: Makes split and noise reproducible.
        epsilon: Epsilon of all protected features.
        upper: R of the domain.
        model_epsilon: Epsilon of the noise in all sums of horizontal learning.

    Returns:
        ``federation.yaml``, and the form of its run. For horizontal learning the form is empty,
        since the parties agree on the training parameters.

    Raises:
        ConfigError: An option does not apply to this data set, or the folder is in use.
    """
    if dataset == generated.NAME:
        vertical = {
            "--epsilon": epsilon,
            "--upper": upper,
            "--denoise": form.get("denoise"),
            "--parameter": form.get("parameters"),
        }
        if inapplicable := [option for option, value in vertical.items() if value is not None]:
            raise ConfigError(
                f"{', '.join(inapplicable)} does not apply to {dataset}, whose learning is "
                "horizontal.",
                "Horizontal learning randomises no column and trains by FederBoost. Omit it.",
            )
        preset = (
            generated.SMALL if model_epsilon is None else generated.private_training(model_epsilon)
        )
        declared = {name: value for name, value in form.items() if value is not None}
        return generated.write_lenders(folder, seed=seed, training={**preset, **declared}), {}
    if model_epsilon is not None:
        raise ConfigError(
            f"--model-epsilon does not apply to {dataset}, whose learning is vertical.",
            "Use it with --dataset lenders; for DPBoost set training.private in federation.yaml.",
        )
    # Imputation trains a model of clear rows; desensitised scoring has only randomised ones.
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
        file: The run's ``federation.yaml``.
        finished: The run.
        experiment: True if the tables are generated or public, so that metrics of clear rows
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


def run_document_from_parts(
    federation_file: str,
    run: str,
    form: Mapping[str, Any],
    summaries: dict[str, dict[str, dict[str, Any]]],
    spent: dict[str, dict[str, dict[str, float]]],
    experiment: bool,
) -> dict[str, Any]:
    """Return `run_document` of a run whose parts are given as JSON values.

    Args:
        federation_file: Path of the ``federation.yaml``.
        run: Id of the run.
        form: Fields of the trigger form.
        summaries: As in `Finished`.
        spent: As in `Finished`.
        experiment: As in `run_document`.
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
        # Time spent waiting for the other parties counts as training.
        "training": round(max(s["seconds"] + s["waited"] for s in spent.values()), 6),
        "cpu": {party: cost["cpu"] for party, cost in spent.items()},
    }
