"""Runs on named tables, and what a run gave: what `opboost run --json` prints."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opboost_ops.config.loading import load_federation, load_site
from opboost_ops.errors import ConfigError
from opboost_ops.extras.datasets import lenders, load
from opboost_ops.extras.datasets.workspace import write_workspace
from opboost_ops.extras.lab import centralised
from opboost_ops.learning.boosters.trainer import format_of
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.pipeline.party.form_values import with_form
from opboost_ops.pipeline.party.party_sites import site_files
from opboost_ops.pipeline.runner.artifact_sizes import artifact_sizes
from opboost_ops.pipeline.runner.local import Finished
from opboost_ops.reports.run_outcome import outcome


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
    if dataset == lenders.NAME:
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
        usual = lenders.SMALL if model_epsilon is None else lenders.private_training(model_epsilon)
        declared = {name: value for name, value in form.items() if value is not None}
        return lenders.write_lenders(folder, seed=seed, training={**usual, **declared}), {}
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
