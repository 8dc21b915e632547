"""`opboost run` and `score`: run a federation without Airflow, with a process per party."""

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from opboost_ops.cli.arguments import AsJson, FederationFile
from opboost_ops.errors import ConfigError
from opboost_ops.pipeline.runner.fork_server import ForkServer, early_environment


def run_command(
    federation: Annotated[
        Path | None, typer.Argument(help="federation.yaml, or its folder.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="A named table instead of a federation file.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Epsilon of all protected features (dataset only)."),
    ] = None,
    upper: Annotated[int | None, typer.Option(help="R of the domain (dataset only).")] = None,
    model_epsilon: Annotated[
        float | None, typer.Option(help="Noise in all sums of horizontal learning (dataset only).")
    ] = None,
    trees: Annotated[int | None, typer.Option(help="Boosting rounds.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Shrinkage.")] = None,
    depth: Annotated[int | None, typer.Option(help="Depth of a tree.")] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A parameter of the booster; may be repeated."),
    ] = None,
    denoise: Annotated[
        str | None,
        typer.Option(help="none, joint or auto; a dataset is then scored in mode routed."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of split and noise, for experiments (dataset only)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the parties' files (dataset only).")
    ] = None,
    because: Annotated[
        str | None, typer.Option(help="Approve for all parties, with this reason.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a federation on this machine, each party in its own process."""
    if (federation is None) == (dataset is None):
        raise ConfigError(
            "Give either a federation file or --dataset.", "See `opboost run --help`."
        )
    if federation is not None:
        only_dataset = {"--epsilon": epsilon, "--model-epsilon": model_epsilon,
                        "--upper": upper, "--seed": seed, "--out": out}  # fmt: skip
        extra = [name for name, value in only_dataset.items() if value is not None]
        if extra:
            raise ConfigError(
                f"{', '.join(extra)} goes with --dataset only.",
                "Domain and epsilons are part of a federation file, and a seed would make noise "
                "predictable.",
            )
    form: dict[str, Any] = {"trees": trees, "learning_rate": learning_rate, "depth": depth}
    form["denoise"] = denoise
    form["parameters"] = _parameters(parameter) if parameter else None
    # The server preloads what the parties need while this process imports its own modules.
    with ForkServer(early_environment()) as server:
        from opboost_ops.cli.output import Progress
        from opboost_ops.pipeline.party.party_sites import federation_file
        from opboost_ops.pipeline.runner.local import call, run_federation

        if federation is not None:
            file = federation_file(federation)
        else:
            from opboost_ops.api.runs import write_named

            file, form = write_named(
                str(dataset),
                out or Path("runs") / f"{dataset}-{secrets.token_hex(4)}",
                form,
                seed=seed,
                epsilon=epsilon,
                upper=upper,
                model_epsilon=model_epsilon,
            )
        answer = None
        if because is not None:
            from opboost_ops.api.runs import approve_with

            answer = approve_with(because)
        with Progress() as progress:
            finished = run_federation(file, form, progress, at_wait=answer, server=server)
        parts = {
            "federation_file": str(file.resolve()),
            "run": finished.run,
            "form": form,
            "summaries": finished.summaries,
            "spent": finished.spent,
            "experiment": dataset is not None,
        }
        result = call(server, "opboost_ops.api.runs:run_document_from_parts", parts)
    if as_json:
        print(json.dumps(result, sort_keys=True))
    else:
        show_trained(result)


def show_trained(result: Mapping[str, Any]) -> None:
    """Print the result of a training run, as from `run_document`."""
    from opboost_ops.cli import output

    (output.print_horizontal if "sums" in result else output.print_vertical)(result)


def _parameters(entries: Sequence[str]) -> dict[str, Any]:
    """Parse ``--parameter NAME=VALUE``; a name without a value is refused later, by the form."""
    from opboost_ops.config.documents import parse_yaml

    names = [entry.partition("=")[0].strip() for entry in entries]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"--parameter sets {', '.join(repeated)} more than once.", "Set it once.")
    parameters: dict[str, Any] = {}
    for name, entry in zip(names, entries, strict=True):
        text = entry.partition("=")[2].strip()
        try:
            parameters[name] = (
                float(text) if "e" in text.lower() else parse_yaml(text, "--parameter")
            )
        except ValueError:
            parameters[name] = parse_yaml(text, "--parameter")
    return parameters


def score_command(
    federation: FederationFile,
    version: Annotated[
        str | None, typer.Option(help="A model version; default: the champion.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score the parties' tables of new rows (tables.*.score in their site.yaml)."""
    from opboost_ops.api.runs import scored
    from opboost_ops.cli.output import Progress
    from opboost_ops.pipeline.party.party_sites import federation_file
    from opboost_ops.pipeline.runner.local import run_federation

    file = federation_file(federation)
    with Progress() as progress:
        result = scored(file, run_federation(file, {"version": version}, progress, "score"))
    if as_json:
        print(json.dumps(result.document(), sort_keys=True))
        return
    show_scored(result.scores.height, result.version, result.mode, result.new, str(result.file))


def show_scored(rows: int, version: str, mode: str, new: bool, file: str) -> None:
    """Print a finished scoring run in a sentence."""
    note = "" if new else " (they were there already, and are unchanged)"
    sentence = f"{rows:,} new rows were scored by version {version} in mode {mode}{note}: {file}"
    Console().print(sentence, soft_wrap=True)
