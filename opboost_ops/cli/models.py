"""`opboost models`: the label holder's versions, and which one is champion."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from opboost_ops.cli.forms import AsCsv, AsJson, one_form, print_csv
from opboost_ops.errors import ConfigError, ContractError

if TYPE_CHECKING:
    from collections.abc import Callable

    from opboost_ops.models.registry import Registry

app = typer.Typer(help="Model versions, and which one is champion.", no_args_is_help=True)

Site = Annotated[Path, typer.Argument(help="Folder of the label holder's site.yaml.")]
Federation = Annotated[
    str | None, typer.Option(help="Whose models; needed where there are several.")
]
Because = Annotated[str, typer.Option(help="Why; it is kept in the history.")]


@app.callback()
def _commands() -> None:
    """Commands are always named, also while there is only one."""


@app.command("list")
def list_(
    site: Site,
    federation: Federation = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List versions, oldest first, with metrics and what was decided about each."""
    import json

    one_form(as_json, as_csv)
    registry = _registry(site, federation)
    damages: list[str] = []

    def read(what: "Callable[[], Any]", otherwise: Any) -> Any:
        try:
            return what()
        except ContractError as error:
            damages.append(str(error))
            return otherwise

    champion, lines = read(registry.champion, None), []
    decisions = {entry.version: entry for entry in registry.history()}
    for version in registry.versions():
        files = read(partial(registry.files, version), None)
        evaluation = json.loads(files["evaluation.json"]) if files else {}
        last = decisions.get(version)
        lines.append(
            {
                "version": version,
                "champion": version == champion,
                "damaged": files is None,
                "mode": evaluation.get("mode"),
                "metrics": evaluation.get("metrics", {}),
                "decision": last.model_dump() if last else None,
            }
        )
    for damage in damages:
        typer.secho(damage, fg="yellow", err=True)
    if as_json:
        print(json.dumps(lines))
        return
    if as_csv:
        _print_csv(lines)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Model versions")
    for head in ("version", "champion", "federated, in the mode of scoring", "decided", "why"):
        # A name that is cut can be given to no other command.
        table.add_column(head, no_wrap=head == "version", min_width=16 if head == "version" else 1)
    for line in lines:
        metrics: dict[str, float] = line["metrics"].get(f"federated_{line['mode']}", {})
        told = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        told = "damaged" if line["damaged"] else f"{line['mode']}: {told}"
        decision: dict[str, Any] = line["decision"] or {"event": "", "at": "", "why": ""}
        table.add_row(
            line["version"],
            "yes" if line["champion"] else "",
            told,
            f"{decision['event']} {decision['at']}",
            decision["why"],
        )
    Console().print(table)


def _print_csv(lines: "list[dict[str, Any]]") -> None:
    """A row a version, and a column for each metric of each mode that any of them has."""
    rows: list[dict[str, Any]] = []
    measured: dict[str, None] = {}
    for line in lines:
        of = {f"{m} {n}": value for m, by in line["metrics"].items() for n, value in by.items()}
        measured |= dict.fromkeys(of)
        decision = line["decision"] or {}
        told = {"decided_at": decision.get("at"), "decision": decision.get("event")}
        known = {name: line[name] for name in ("version", "champion", "damaged", "mode")}
        rows.append({**known, **told, "why": decision.get("why"), **of})
    heads = ("version", "champion", "damaged", "mode", "decided_at", "decision", "why")
    print_csv((*heads, *measured), rows)


@app.command("show")
def show(
    site: Site,
    version: Annotated[str | None, typer.Argument(help="The champion when absent.")] = None,
    federation: Federation = None,
) -> None:
    """Print a version's card as JSON, and where its files are."""
    print(_files(site, version, federation)["card.json"].decode())


@app.command("export")
def export(
    site: Site,
    out: Annotated[Path, typer.Option(help="The new file.")],
    version: Annotated[str | None, typer.Argument(help="The champion when absent.")] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="text (LightGBM's file) or json; the model's own if absent."),
    ] = None,
    federation: Federation = None,
) -> None:
    """Write a model for other programs, and beside it how its columns must be mapped."""
    from opboost_ops.models.export import export_model, model_columns

    files = _files(site, version, federation)
    columns = out.with_name(f"{out.name}.columns.json")
    made = {columns: model_columns(files).json_bytes(), out: export_model(files, form)}
    for path in made:
        if path.exists():
            raise ConfigError(
                f"{path.name} exists already; nothing was written.", "Name another file."
            )
    try:
        for path, content in made.items():
            path.write_bytes(content)
    except OSError as error:
        raise ConfigError(f"{out.name} cannot be written: {error.strerror}.") from None
    print(f"Model: {out}\nRead before use, how its columns are mapped: {columns}")


@app.command("promote")
def promote(
    site: Site,
    version: Annotated[str, typer.Argument(help="The version.")],
    because: Because = "by hand",
    federation: Federation = None,
) -> None:
    """Make a version champion, whatever the gate said."""
    print(f"{_put_into_use(site, federation, 'promote', because, version)} is champion.")


@app.command("rollback")
def rollback(
    site: Site,
    version: Annotated[
        str | None, typer.Argument(help="A former champion; the one before when absent.")
    ] = None,
    because: Because = "by hand",
    federation: Federation = None,
) -> None:
    """Make a former champion champion again: the one before the present one, or the one named."""
    now = _put_into_use(site, federation, "roll_back", because, version)
    print(f"{now} is champion again.")


def _put_into_use(
    site: Path,
    federation: str | None,
    act: Literal["promote", "roll_back"],
    because: str,
    version: str | None,
) -> str:
    import getpass

    from opboost_ops.config.loading import load_site
    from opboost_ops.run.acts import Asked, do

    declared = load_site(site / "site.yaml")
    name = _named(declared.models, federation)
    return do(declared, name, Asked(act, because, getpass.getuser(), version))


def _files(site: Path, version: str | None, federation: str | None) -> "dict[str, bytes]":
    registry = _registry(site, federation)
    wanted = version or registry.champion()
    if wanted is None:
        raise ConfigError("There is no champion yet.", "Name a version.")
    return registry.files(wanted)


def _registry(site: Path, federation: str | None) -> "Registry":
    from opboost_ops.config.loading import load_site
    from opboost_ops.models.registry import Registry

    models = load_site(site / "site.yaml").models
    return Registry(models, _named(models, federation))


def _named(models: Path, federation: str | None) -> str:
    found = sorted(p.name for p in models.iterdir() if p.is_dir()) if models.is_dir() else []
    if federation is None and len(found) == 1:
        return found[0]
    if federation is None or federation not in found:
        told = f"They are {', '.join(found)}." if found else "There are none yet."
        raise ConfigError("Name a federation that has models with --federation.", told)
    return federation
