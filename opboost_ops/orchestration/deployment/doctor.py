"""Checks an Airflow deployment for problems with its federations, each with its fix.

It reads this process's configuration and environment, so it must run on the component to check: for
a worker, with that worker's settings.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from opboost_ops.config.loading import load_site
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError, OpBoostError
from opboost_ops.exchange.store.store import open_store
from opboost_ops.learning.boosters.lightgbm_backend import require_lightgbm
from opboost_ops.orchestration.deployment.capacity import start_problems
from opboost_ops.orchestration.deployment.installation import PRELOADS
from opboost_ops.orchestration.settings import adopt_section
from opboost_ops.pipeline.party.party_sites import site_variable
from opboost_ops.pipeline.party.trust import require_keeps_first

#: Tested versions of Airflow, and the date of the test suite's last success.
TESTED = {"3.3.2": "2026-11-29"}

#: A refresh interval of the DAG processor, in seconds, above which a note explains the delay.
_SLOW_REFRESH = 60


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        state: ``blocks`` if no run can succeed, ``note`` if runs are slow or wait for a person.
        text: The result.
        fix: A configuration line or command that fixes the problem, if any.
    """

    state: Literal["ok", "note", "blocks"]
    text: str
    fix: str = ""


def examine() -> list[Finding]:
    """Check this Airflow: package, preloading, DAGs, parties, slots and queues."""
    adopt_section()
    findings = [*_installed(), _preloading()]
    dags, faults = _dags()
    findings += faults
    findings += _parties(dags)
    findings += _database(dags)
    return findings


def _installed() -> Iterator[Finding]:
    from airflow import __version__

    yield version_finding(__version__)
    try:
        require_lightgbm()
        yield Finding("ok", "LightGBM loads.")
    except ConfigError as error:
        yield Finding("blocks", error.problem, error.remedy)
    from airflow.configuration import conf

    has_entry_point = any(
        point.name == "opboost" for point in entry_points(group="airflow.plugins")
    )
    plugins = Path(conf.get("core", "plugins_folder", fallback="") or ".")
    if has_entry_point or (plugins / "opboost.py").is_file():
        yield Finding("ok", "The plugin is registered.")
    else:
        yield Finding(
            "blocks",
            "The plugin is not registered: slots are not checked, and the pages are missing.",
            "Install the package: pip install 'opboost-ops[airflow]'.",
        )


def version_finding(version: str) -> Finding:
    """Compare Airflow's version with the tested ones."""
    if version in TESTED:
        return Finding("ok", f"Airflow {version}: the test suite passed on {TESTED[version]}.")
    from packaging.version import Version

    tested = ", ".join(TESTED)
    too_old = Version(version) < min(map(Version, TESTED))
    return Finding(
        "blocks" if too_old else "note",
        f"The test suite has passed on Airflow {tested}, but was not run on {version}.",
        f"Install apache-airflow=={max(TESTED, key=Version)}, or try a run before you rely on it.",
    )


def _preloading() -> Finding:
    # Importing Airflow has added its `config` folder to the path.
    spec = find_spec("airflow_local_settings")
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    if origin is not None and PRELOADS in origin.read_text(encoding="utf-8"):
        return Finding("ok", f"{origin} preloads the libraries.")
    return Finding(
        "note",
        "The libraries are not preloaded: each task imports them again, which takes seconds.",
        "Run `opboost airflow install AIRFLOW_HOME FEDERATION`; restart scheduler and workers.",
    )


def _dags() -> tuple[dict[str, Any], list[Finding]]:
    """Return the federations' DAGs as Airflow parses them, and the problems of their files."""
    from airflow.configuration import conf
    from airflow.dag_processing.dagbag import DagBag

    folder = Path(conf.get("core", "dags_folder"))
    files = [path for path in sorted(folder.rglob("*.py")) if _is_ours(path)]
    if not files:
        fix = "Run `opboost airflow install AIRFLOW_HOME FEDERATION`."
        return {}, [Finding("blocks", f"No DAG file in {folder} builds federations' DAGs.", fix)]
    dags: dict[str, Any] = {}
    findings = []
    for path in files:
        bag = DagBag(path, collect_dags=True)
        dags |= bag.dags
        for error in bag.import_errors.values():
            last = (error.strip().splitlines() or [""])[-1]
            findings.append(Finding("blocks", f"{path} fails: {last}", "Correct or remove it."))
    for name, dag in list(dags.items()):
        if "invalid" in dag.tags:
            findings.append(
                Finding(
                    "blocks",
                    f"{name} is invalid: its federation file has faults.",
                    f"Run `opboost check FEDERATION`; `airflow dags details {name}` shows them.",
                )
            )
            del dags[name]
    if dags:
        findings.append(Finding("ok", f"DAGs: {', '.join(sorted(dags))}."))
    elif not findings:
        fix = "Set `[opboost] federations` in airflow.cfg to the folder of the federation files."
        findings.append(Finding("blocks", "The DAG files name no federation.", fix))
    return dags, findings


def _is_ours(path: Path) -> bool:
    try:
        return "federation_dags" in path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def _parties(dags: dict[str, Any]) -> Iterator[Finding]:
    from airflow.configuration import conf

    local = "LocalExecutor" in conf.get("core", "executor")
    queues = {
        task.owner: task.queue
        for name, dag in dags.items()
        if name.endswith("_train")
        for task in dag.tasks
    }
    for party, queue in sorted(queues.items()):
        variable = site_variable(party)
        line = f"`[opboost] site_{party} = /path/to/site.yaml` in airflow.cfg, or {variable}"
        place = os.environ.get(variable)
        if not place:
            fix = (
                f"Set {line}, on the workers of queue {queue} and nowhere else. If another Airflow "
                "runs it, name this one's parties in OPBOOST_PARTIES."
            )
            text = f"{variable} is not set here, for party {party} on queue {queue}."
            yield Finding("blocks" if local else "note", text, fix)
            continue
        try:
            site = load_site(Path(place))
            yield Finding("ok", f"{variable}, for queue {queue}: the site is readable.")
        except ConfigError as error:
            yield Finding("blocks", f"{variable}: {error}", f"Correct it, or set {line}.")
            continue
        yield _store(site)


def _store(site: Site) -> Finding:
    """Check that a party's store keeps the first of several concurrent writes to one place."""
    try:
        require_keeps_first(open_store(site.store), min(site.tables, default="probe"))
    except OpBoostError as error:
        return Finding("blocks", f"The store of {site.party}: {error.problem}", error.remedy)
    except ConnectionError as error:
        return Finding("blocks", f"The store of {site.party}: {error}", "Run this again later.")
    return Finding("ok", f"The store of {site.party} keeps the first of several writers.")


def _database(dags: dict[str, Any]) -> Iterator[Finding]:
    from airflow.configuration import conf
    from sqlalchemy import select
    from sqlalchemy.exc import SQLAlchemyError

    from opboost_ops.orchestration.pages.airflow_tables import DagModel, create_session

    try:
        with create_session() as session:
            problems = start_problems(session, [dag.tasks for dag in dags.values()])
            columns = select(DagModel.dag_id, DagModel.is_paused, DagModel.is_stale)
            states = {name: (bool(p), bool(s)) for name, p, s in session.execute(columns)}
    except SQLAlchemyError:
        yield Finding("blocks", "Airflow's database has no tables.", "Run `airflow db migrate`.")
        return
    for problem in problems:
        yield Finding("blocks", problem)
    if not problems:
        yield Finding("ok", "There are enough slots.")
    seconds = conf.getint("dag_processor", "refresh_interval", fallback=300)
    missing = sorted(name for name in dags if name not in states or states[name][1])
    if missing:
        yield Finding(
            "note",
            f"The DAG processor has not parsed {', '.join(missing)} yet.",
            f"Start `airflow dag-processor`, or wait: it checks for new files every {seconds} s.",
        )
    if seconds > _SLOW_REFRESH:
        yield Finding(
            "note",
            f"A new DAG file takes up to {seconds} s to appear.",
            "Set `[dag_processor] refresh_interval = 30` in airflow.cfg.",
        )
    paused = sorted(name for name in set(dags) - set(missing) if states[name][0])
    for federation in sorted({name.rpartition("_")[0] for name in paused}):
        names = [name for name in paused if name.rpartition("_")[0] == federation]
        verb = "is" if len(names) == 1 else "are"
        yield Finding(
            "note", f"{', '.join(names)} {verb} paused.", f"Run `{unpause_command(federation)}`."
        )
    yield _triggerer(sorted({task.queue for dag in dags.values() for task in dag.tasks}))


def unpause_command(federation: str) -> str:
    """Return the command that unpauses all DAGs of a federation."""
    return f"airflow dags unpause --yes --treat-dag-id-as-regex '^{federation}_[a-z]+$'"


def _triggerer(queues: list[str]) -> Finding:
    from airflow.configuration import conf
    from sqlalchemy import select

    from opboost_ops.orchestration.pages.airflow_tables import Job, create_session

    if not conf.getboolean("triggerer", "queues_enabled", fallback=False):
        return Finding("ok", "Waiting tasks start again for each check; no triggerer is needed.")
    since = datetime.now(UTC) - timedelta(
        seconds=conf.getint("triggerer", "triggerer_health_check_threshold", fallback=30)
    )
    alive = select(Job.id).where(
        Job.job_type == "TriggererJob", Job.state == "running", Job.latest_heartbeat >= since
    )
    with create_session() as session:
        if session.scalars(alive.limit(1)).first() is not None:
            return Finding("ok", "A triggerer runs, for waiting tasks.")
    return Finding(
        "note",
        "No triggerer runs, so waiting tasks poll by themselves, and only after an hour.",
        f"Start `airflow triggerer --queues {','.join(queues)}`, or unset `[triggerer] "
        "queues_enabled`.",
    )
