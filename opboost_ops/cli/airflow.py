"""`opboost airflow`, `demo`, `ui`: install into an Airflow, or run a local one."""

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from opboost_ops.cli.arguments import FederationFile
from opboost_ops.errors import ConfigError, OpBoostError

if TYPE_CHECKING:
    from opboost_ops.config.federation import Purpose
    from opboost_ops.orchestration.deployment.client import Client
    from opboost_ops.orchestration.deployment.standalone import Standalone
    from opboost_ops.pipeline.runner.local import Finished


airflow_app = typer.Typer(help="Install into an existing Airflow.", no_args_is_help=True)

Dataset = Annotated[str, typer.Option(help="credit (generated), or a public table such as adult.")]
Work = Annotated[Path, typer.Option(help="Folder for Airflow's and the parties' files.")]
#: Seconds between two polls of a run's tasks, whose states are shown.
_POLL_SECONDS = 0.9

_WORK = Path(".opboost")


@airflow_app.command("check")
def check() -> None:
    """Check this Airflow, and print a fix for each problem.

    Exits with 1 if a problem blocks runs.
    """
    require_airflow("opboost airflow check")
    from opboost_ops.orchestration.deployment.doctor import examine

    findings = examine()
    for finding in findings:
        print(f"{finding.state.upper():<7} {finding.text}")
        if finding.fix:
            print(f"        {finding.fix}")
    blocking = sum(finding.state == "blocks" for finding in findings)
    if blocking:
        problems = "1 problem blocks" if blocking == 1 else f"{blocking} problems block"
        raise OpBoostError(f"{problems} runs in this Airflow.", "Fix what is named above.")
    print("Nothing blocks runs in this Airflow.")


@airflow_app.command("install")
def install(
    airflow_home: Annotated[Path, typer.Argument(help="The AIRFLOW_HOME.")],
    federation: FederationFile,
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking.")] = False,
) -> None:
    """Show a diff, then write DAG file, preloading and site paths into an Airflow home."""
    require_airflow("opboost airflow install")
    from opboost_ops.orchestration.deployment.installation import plan
    from opboost_ops.pipeline.party.party_sites import federation_file

    changes = plan(airflow_home, federation_file(federation))
    for change in changes:
        print(change.diff())
    if not changes:
        print("All of it is there already.")
        return
    if not yes and not typer.confirm("Write this?"):
        raise OpBoostError("Nothing was written.")
    for change in changes:
        change.write()
    print("Restart scheduler, DAG processor, API server and workers, then: opboost airflow check")


class DemoError(OpBoostError):
    """The demonstrated run failed."""


def require_airflow(command: str) -> None:
    """Raise unless Airflow is installed; does not import it.

    Args:
        command: The command that needs it, for the message.

    Raises:
        ConfigError: Airflow is not installed.
    """
    from opboost_ops.config.resources import require_extra

    require_extra("airflow", "Airflow", f"`{command}` starts a real Airflow", "airflow")


def demo(dataset: Dataset = "credit", work: Work = _WORK) -> None:
    """Train and score in a real Airflow, show the progress, and print the results."""
    require_airflow("opboost demo")
    from opboost_ops.cli import run
    from opboost_ops.cli.output import Progress
    from opboost_ops.cli.run import show_scored
    from opboost_ops.config.loading import load_federation
    from opboost_ops.orchestration.deployment.standalone import Standalone

    end_on_signals()
    console = Console(stderr=True)
    begin = time.monotonic()
    file = workspace(dataset, work)
    federation = load_federation(file)
    dag = f"{federation.name}_train"
    console.print(f"Starting Airflow in {work / 'airflow'} ...")
    with Standalone(work / "airflow", file.parent, _site_files(file)) as airflow:
        client = airflow.client()
        _wait_for_dag(airflow, client, dag)
        up = time.monotonic()
        before = _run_ids(client, f"{federation.name}_score")
        console.print(f"Airflow runs at {airflow.url}; {dag} is triggered.")
        with Progress() as progress:
            finished = follow(airflow, client, file, progress)
        ended = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            # Metrics of clear rows are computed while new rows are scored.
            result = pool.submit(_run_result, file, finished)
            scoring = _scoring_run(airflow, client, file, finished, before)
            scores = None
            if scoring:
                console.print(f"The new champion has started {federation.name}_score.")
                with Progress() as progress:
                    scores = follow(airflow, client, file, progress, "score", scoring)
    run.show_trained(result.result())
    if scores:
        owner = scores.summaries[federation.label_holder]
        score, written = owner["score"], owner["write_scores"]
        show_scored(
            written["rows"], score["version"], score["mode"], written["new"], written["file"]
        )
    console.print(verified(file.parent))
    work_seconds = sum(finished.seconds().values()) + sum(
        finished.seconds("quality_seconds").values()
    )
    console.print(
        f"Airflow was up after {up - begin:.1f} s; training took {ended - up:.1f} s. Its stages "
        f"worked {work_seconds:.1f} s in all, those of different parties side by side. All ended "
        f"after {time.monotonic() - begin:.1f} s."
    )


def _run_result(file: Path, finished: "Finished") -> dict[str, Any]:
    from opboost_ops.api.runs import run_document

    return run_document(file, finished, experiment=True)


def verified(folder: Path) -> str:
    """Verify a federation with the independent verifier, and return the result as a sentence.

    Args:
        folder: Folder of the federation.

    Raises:
        DemoError: A guarantee is violated.
    """
    from opboost_ops.verifier import verify

    begin = time.monotonic()
    outcomes = verify([folder])
    if any(outcome.is_broken for outcome in outcomes):
        lines = [line for outcome in outcomes if outcome.is_broken for line in outcome.lines()]
        raise DemoError("\n".join(["Promises are broken.", *lines]))
    counts = Counter(promise.status for outcome in outcomes for promise in outcome.promises)
    return (
        f"`opboost verify {folder}`: {counts['held']} promises held, none broken, "
        f"{counts['not checkable']} not checkable, in {time.monotonic() - begin:.1f} s."
    )


def ui(
    dataset: Dataset = "credit",
    work: Work = _WORK,
    federations: Annotated[
        Path | None, typer.Option(help="Folder of your own federation files instead.")
    ] = None,
) -> None:
    """Run Airflow until Ctrl-C, and print its address and login."""
    require_airflow("opboost ui")
    from opboost_ops.config.loading import site_file
    from opboost_ops.orchestration.dags.party_dags import names_in
    from opboost_ops.orchestration.deployment.standalone import Standalone
    from opboost_ops.orchestration.pages.access import parties as known

    end_on_signals()
    console = Console(stderr=True)
    if federations is None:
        file = workspace(dataset, work)
        folder, sites, parties = file.parent, _site_files(file), None
    else:
        parties = names_in(os.environ.get("OPBOOST_PARTIES"))
        folder, sites = federations, {party: site_file(party) for party in known()}
        sites |= _sites_beside(federations, parties)
    console.print(f"Starting Airflow in {work / 'airflow'} ...")
    components = ("scheduler", "api-server", "dag-processor", "triggerer")
    try:
        with Standalone(work / "airflow", folder, sites, components, parties) as airflow:
            airflow.client()
            console.print(f"Airflow runs at {airflow.url}", soft_wrap=True)
            console.print(
                f"Log in as admin; the password is in {airflow.passwords}", soft_wrap=True
            )
            console.print("Ctrl-C ends it.")
            while True:
                airflow.check()
                time.sleep(1)
    except KeyboardInterrupt:
        console.print("Airflow has ended.")


def workspace(dataset: str, work: Path) -> Path:
    """Return the federation file of a data set's parties, and write it on first use.

    Args:
        dataset: Name of the data set.
        work: Folder of the workspaces.
    """
    folder = (work / dataset).resolve()
    file = folder / "federation.yaml"
    if file.is_file():
        return file
    from opboost_ops.api.runs import write_named

    # Written elsewhere and then moved, so that an interrupted demo leaves no partial workspace.
    temporary = folder.with_name(f".{dataset}.{time.time_ns()}")
    write_named(dataset, temporary, {})
    if folder.exists():
        raise ConfigError(
            f"{folder} is not a workspace.", "Remove it, or choose another by --work."
        )
    temporary.rename(folder)
    return file


def _scoring_run(
    airflow: "Standalone", client: "Client", file: Path, trained: "Finished", before: set[str]
) -> str:
    """Return the run that the new champion has started; empty if there are no new rows."""
    from opboost_ops.config.loading import load_site

    owner, name = trained.federation.label_holder, trained.federation.name
    table = load_site(_site_files(file)[owner]).tables[name].score
    if table is None or "announce_champion" not in trained.summaries[owner]:
        return ""
    while not (started := _run_ids(client, f"{name}_score") - before):
        airflow.check()
        time.sleep(0.2)
    return started.pop()


def _run_ids(client: "Client", dag: str) -> set[str]:
    return {run["dag_run_id"] for run in client.get(f"dags/{dag}/dagRuns", limit=100)["dag_runs"]}


def follow(
    airflow: "Standalone",
    client: "Client",
    file: Path,
    progress: Any,
    purpose: "Purpose" = "train",
    run: str = "",
) -> "Finished":
    """Follow a run of a DAG to its end.

    Args:
        airflow: The Airflow.
        client: A client of the Airflow.
        file: Path of the ``federation.yaml``.
        progress: Called with party and event.
        purpose: ``train`` or ``score``.
        run: Airflow's id of the run; triggers one by default.

    Raises:
        DemoError: A task failed; contains its error.
    """
    from opboost_ops.config.loading import load_federation
    from opboost_ops.exchange.manifest import run_id
    from opboost_ops.pipeline.party.party_sites import site_files
    from opboost_ops.pipeline.runner.local import Finished

    federation = load_federation(file)
    dag = f"{federation.name}_{purpose}"
    run = run or client.trigger(dag)
    finished = Finished(run_id(dag, run), federation)
    shown: set[tuple[str, str]] = set()
    last_poll = 0.0
    while True:
        airflow.check()
        state = client.run(dag, run)["state"]
        # Listing all tasks is more expensive for the API than reading the run.
        if state not in ("success", "failed") and time.monotonic() < last_poll + _POLL_SECONDS:
            time.sleep(_POLL_SECONDS / 3)
            continue
        last_poll, tasks = time.monotonic(), client.tasks(dag, run)
        for task in sorted(tasks, key=lambda t: t["start_date"] or "~"):
            _show_task(client, task, shown, finished, progress, purpose)
        if state == "success":
            # The demo runs all parties, so it may read their home folders.
            finished.read_homes(site_files(file, federation))
            return finished
        if state == "failed":
            raise DemoError(_failure_text(client, dag, run, tasks))


def _show_task(
    client: "Client",
    task: dict[str, Any],
    shown: set[tuple[str, str]],
    finished: "Finished",
    progress: Any,
    purpose: "Purpose",
) -> None:
    from opboost_ops.pipeline.phases import stages_by_task, stages_of

    name, state = task["task_id"], str(task["state"])
    event = {"running": "started", "success": "finished", "failed": "failed"}.get(state)
    if event is None or (name, event) in shown:
        return
    shown.add((name, event))
    group, own = name.split(".")
    party = group.rpartition("_")[0]
    federation = finished.federation
    stages = stages_of(federation, purpose, party)
    opens = party == federation.label_holder
    message: dict[str, Any] = {"event": event, "stage": own, "of": len(stages) + opens}
    if event != "finished":
        progress(party, message)
        return
    chain = stages_by_task(federation, purpose).get(name)
    for stage in chain or (own,):
        key = "return_value" if chain is None or stage == chain[-1] else stage
        message["stage"] = stage
        message["summary"] = client.summary(task["dag_id"], task["dag_run_id"], name, key)
        finished.summaries.setdefault(party, {})[stage] = message["summary"]
        progress(party, dict(message))


def _failure_text(client: "Client", dag: str, run: str, tasks: list[dict[str, Any]]) -> str:
    failed = [task for task in tasks if task["state"] == "failed"]
    lines = [f"{dag} failed."]
    for task in sorted(failed, key=lambda t: t["end_date"] or ""):
        message = client.error(dag, run, task["task_id"], task["try_number"])
        lines.append(f"{task['task_id']}: {message or 'no message; see its log'}")
    return "\n".join(lines)


def _wait_for_dag(airflow: "Standalone", client: "Client", dag: str) -> None:
    while not client.has_dag(dag):
        airflow.check()
        time.sleep(0.2)


def _site_files(file: Path) -> dict[str, Path]:
    from opboost_ops.config.loading import load_federation

    parties = load_federation(file).parties
    return {party: file.parent / party / "site.yaml" for party in parties}


def _sites_beside(folder: Path, parties: Collection[str] | None) -> dict[str, Path]:
    """Return the known sites of the parties in a folder's federation files.

    Args:
        folder: The folder.
        parties: The parties of this Airflow; None for all.
    """
    from opboost_ops.config.loading import load_federation
    from opboost_ops.orchestration.dags.factory import federation_files
    from opboost_ops.pipeline.party.party_sites import site_files

    sites: dict[str, Path] = {}
    for file in federation_files(folder):
        with contextlib.suppress(ConfigError):  # Its DAG reports the faults.
            sites |= site_files(file, load_federation(file), every=False)
    return {party: file for party, file in sites.items() if parties is None or party in parties}


def end_on_signals() -> None:
    """Make SIGTERM and SIGHUP exit the command like an error, with all its processes."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
