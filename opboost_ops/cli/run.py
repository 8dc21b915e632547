"""`opboost run`: a federation without Airflow, a process a party."""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from opboost_ops.errors import ConfigError


def command(
    federation: Annotated[Path | None, typer.Argument(help="federation.yaml")] = None,
    dataset: Annotated[str | None, typer.Option(help="A named table instead.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="For all protected features.")] = None,
    lower: Annotated[int | None, typer.Option(help="L of the domain (dataset only).")] = None,
    upper: Annotated[int | None, typer.Option(help="R of the domain (dataset only).")] = None,
    model_epsilon: Annotated[
        float | None, typer.Option(help="Noise in all sums of horizontal learning (dataset only).")
    ] = None,
    trees: Annotated[int | None, typer.Option(help="Boosting rounds.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Shrinkage.")] = None,
    depth: Annotated[int | None, typer.Option(help="Depth of a tree.")] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="One of the booster's own; may stand repeatedly."),
    ] = None,
    denoise: Annotated[
        str | None,
        typer.Option(help="none, joint or auto; a dataset is then scored routed."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Predictable split, booster and noise (dataset only).")
    ] = None,
    alignment: Annotated[
        str | None,
        typer.Option(help="private (when absent) or keyed, how people are found (dataset only)."),
    ] = None,
    quantile_edges: Annotated[
        bool, typer.Option(help="Cells from the private tables: no guarantee (dataset only).")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the parties' things (dataset only).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """Train a federation here: every party in its own process, meeting only at the store."""
    from opboost_ops.cli.progress import Progress
    from opboost_ops.run import local

    if (federation is None) == (dataset is None):
        raise ConfigError(
            "Give either a federation file or --dataset.", "See `opboost run --help`."
        )
    form: dict[str, Any] = {"trees": trees, "learning_rate": learning_rate, "depth": depth}
    form["denoise"] = denoise
    form["parameters"] = _parameters(parameter) if parameter else None
    if dataset is not None:
        from opboost_ops.datasets import lenders

        folder = out or Path("runs") / f"{dataset}-{secrets.token_hex(4)}"
        options: dict[str, Any] = {"epsilon": epsilon, "lower": lower, "upper": upper}
        options["quantile_edges"] = quantile_edges
        if denoise not in (None, "none") and dataset != lenders.NAME:
            # What is drawn back makes a model of clear rows: desensitised scoring never has any.
            options["scoring"] = {"mode": "routed"}
        if dataset == lenders.NAME:
            # Its training is part of what the parties agree on, and no form changes it.
            options["training"] = {name: v for name, v in form.items() if v is not None}
            form = {}
        options["alignment"] = _way(alignment)
        federation = _written(dataset, folder, options, seed, model_epsilon)
    else:
        only_dataset = {"--lower": lower, "--upper": upper, "--seed": seed, "--out": out,
                        "--model-epsilon": model_epsilon, "--alignment": alignment}  # fmt: skip
        given = [name for name, value in only_dataset.items() if value is not None]
        given += ["--quantile-edges"] if quantile_edges else []
        if given:
            raise ConfigError(
                f"{', '.join(given)} goes with --dataset only.",
                "The domain is part of a federation file, and a seed would make noise predictable.",
            )
        form["epsilon"] = epsilon
    assert federation is not None
    with Progress() as progress:
        finished = local.run_federation(federation, form, progress)
    report(federation, finished, experiment=dataset is not None, as_json=as_json)


def _parameters(given: Sequence[str]) -> dict[str, Any]:
    """What ``--parameter`` gives, by name; a name without a value is refused with the others."""
    from opboost_ops.config.yaml_text import parse_yaml

    names = [entry.partition("=")[0].strip() for entry in given]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"--parameter gives {', '.join(twice)} more than once.", "Give it once.")
    found: dict[str, Any] = {}
    for name, entry in zip(names, given, strict=True):
        text = entry.partition("=")[2].strip()
        try:
            found[name] = float(text) if "e" in text.lower() else parse_yaml(text, "--parameter")
        except ValueError:
            found[name] = parse_yaml(text, "--parameter")
    return found


def _way(alignment: str | None) -> str | None:
    from typing import get_args

    from opboost_ops.config.federation import AlignmentMode

    if alignment is not None and alignment not in get_args(AlignmentMode):
        raise ConfigError(
            f"--alignment {alignment} is no way to find the common people.",
            "It is private or keyed.",
        )
    return alignment


def _written(
    dataset: str,
    folder: Path,
    options: dict[str, Any],
    seed: int | None,
    model_epsilon: float | None,
) -> Path:
    from opboost_ops.datasets import lenders, load
    from opboost_ops.datasets.workspace import write_workspace

    if dataset != lenders.NAME and model_epsilon is not None:
        raise ConfigError(
            f"--model-epsilon is not for {dataset}, whose learning is vertical.",
            "It goes with --dataset lenders; DPBoost has training.private in federation.yaml.",
        )
    if dataset != lenders.NAME:
        options["alignment"] = options["alignment"] or "private"
        return write_workspace(load(dataset, seed=seed or 0), folder, seed=seed, **options)
    training = options.pop("training")
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
    if given:
        raise ConfigError(
            f"{', '.join(given)} is not for {dataset}, whose learning is horizontal.",
            "Nothing is randomised there: leave it out.",
        )
    usual = lenders.SMALL if model_epsilon is None else lenders.private_training(model_epsilon)
    training = {**usual, **training}
    return lenders.write_lenders(folder, seed=seed, training=training)


def report(federation_file: Path, finished: Any, *, experiment: bool, as_json: bool) -> None:
    """Print what a finished run gave.

    Args:
        federation_file: Its ``federation.yaml``.
        finished: A `local.Finished`.
        experiment: Whether the tables were generated or public, so that clear metrics exist.
        as_json: One JSON line instead of tables.
    """
    from opboost_ops.boosting.trainer import format_of
    from opboost_ops.cli import horizontal_report, tables
    from opboost_ops.config.loading import load_site
    from opboost_ops.datasets import centralised
    from opboost_ops.run.artifact_sizes import artifact_sizes
    from opboost_ops.run.party_sites import site_files

    declared = finished.federation
    owner = declared.label_holder
    sites = site_files(federation_file, declared)
    if declared.learning == "horizontal":
        horizontal_report.show(finished, load_site(sites[owner]).models, as_json)
        return
    if experiment:
        metrics = centralised.metrics(sites, declared.name, owner, finished.run)
    else:
        metrics = {
            "centralised": None,
            "federated": None,
            **finished.summaries[owner]["evaluate"]["metrics"],
        }
    file = format_of(declared.training.trainer).file
    model = load_site(sites[owner]).models / declared.name / finished.run / file
    quality = finished.seconds("quality_seconds")
    result = {
        "federation": declared.name,
        "run": finished.run,
        "metrics": metrics,
        "bytes": artifact_sizes(sites[owner], declared.name, finished.run),
        "seconds": finished.seconds(),
        "quality_seconds": round(sum(quality.values()), 6),
        "model": str(model),
    }
    if as_json:
        print(json.dumps(result, sort_keys=True))
    else:
        tables.show(result)
