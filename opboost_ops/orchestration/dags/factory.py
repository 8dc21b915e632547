"""Builds DAGs from federation files. DAG files import it at every parse, so it imports little."""

import gc
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Any

from airflow.sdk import (  # type: ignore[attr-defined]
    DAG,
    AssetAll,
    AssetAny,
    AssetOrTimeSchedule,
    ParamsDict,
    get_parsing_context,
)

from opboost_ops.config.documents import read_yaml
from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import load_federation
from opboost_ops.config.terms import cron_problem
from opboost_ops.errors import ConfigError, Fault
from opboost_ops.orchestration.dags import tasks
from opboost_ops.orchestration.dags.admin_dag import admin_dag
from opboost_ops.orchestration.dags.assets import table_assets, tables_dag
from opboost_ops.orchestration.dags.documentation import documentation, scoring_form, training_form
from opboost_ops.orchestration.dags.groups import add_groups, asset, task_defaults, timeout
from opboost_ops.orchestration.dags.lineage import disable_lineage, mark
from opboost_ops.orchestration.dags.notifications import CALLBACKS, late_alert
from opboost_ops.orchestration.dags.operators import FaultyFileOperator
from opboost_ops.orchestration.dags.party_dags import (
    MARGIN,
    add_own_groups,
    join_dag,
    local_parties_of,
    names_in,
    takes_part,
)
from opboost_ops.orchestration.dags.times import at
from opboost_ops.orchestration.pages.airflow import TAG
from opboost_ops.orchestration.settings import adopt_section

#: Schedule of the DAG of a faulty file without a valid schedule of its own.
_DAILY = "0 0 * * *"

_USE_COMMANDS = (
    "A party can still act on its own machine: `opboost models promote`, `opboost models rollback` "
    "and `opboost stop` need no federation file."
)


def build_dags(
    place: Path, parties: Sequence[str] | None = None, only: str | None = None
) -> dict[str, DAG]:
    """Return the DAGs of federation files; a faulty file becomes a DAG that reports its faults.

    Args:
        place: A federation file, or a folder that is searched for ``*.yaml`` and
            ``*/federation.yaml``.
        parties: The parties whose tasks this Airflow runs; all by default. Other parties' tasks
            run in other Airflows, and the DAGs exchange artifacts with them through the store.
        only: Id of the only DAG to build, for a process that runs one task; otherwise each task
            would build the DAGs of all federations.

    Returns:
        DAGs by id. Those of faulty files are tagged ``invalid``.
    """
    dags: dict[str, DAG] = {}
    files = federation_files(place)
    if not place.is_dir():
        files = [place]
        if not place.is_file():
            problem = f"There is no federation file, and no folder of them: {place}."
            return {"opboost_invalid": _invalid("opboost_invalid", problem, TAG, None)}
    faulty: list[tuple[Path, str]] = []
    for path in files:
        if only is None or _may_define(path, only):
            try:
                dags |= {dag.dag_id: dag for dag in _build(path, dags, parties, only)}
            except ConfigError as error:
                faulty.append((path, str(error)))
            except Exception as error:
                name = type(error).__name__
                faulty.append((path, f"{path.name}: cannot become a DAG ({name})."))
    # Last, so that they replace no valid DAG.
    for path, problem in faulty:
        dag = _faulty(path, dags, problem)
        dags[dag.dag_id] = dag
    if only is not None:
        # The id of a faulty file's DAG may come from the file's name or number.
        return dags if only in dags else build_dags(place, parties)
    tags = {tag for dag in dags.values() for tag in dag.tags}
    unknown = [name for name in parties or () if name not in tags]
    if unknown and "invalid" not in tags and place.is_dir():
        names = ", ".join(unknown)
        problem = f"OPBOOST_PARTIES names {names}, which no federation in the folder has."
        dags["opboost_parties"] = _invalid("opboost_parties", problem, TAG, None)
    return dags


def federation_files(folder: Path) -> list[Path]:
    """Return the paths of a folder's federation files."""
    return sorted([*folder.glob("*.yaml"), *folder.glob("*/federation.yaml")])


def _may_define(path: Path, dag_id: str) -> bool:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return True
    return re.search(rf"\b{re.escape(dag_id.rpartition('_')[0])}\b", text) is not None


def _build(
    path: Path, others: Mapping[str, DAG], parties: Sequence[str] | None, only: str | None
) -> list[DAG]:
    federation = load_federation(path)
    name = federation.name
    local_parties = local_parties_of(federation, parties)
    if not local_parties:
        return []
    joins = federation.label_holder not in local_parties
    defaults = task_defaults(federation)
    makers = {f"{name}_train": partial(train_dag, federation, path, local_parties)}
    if not joins or takes_part(federation, "score", local_parties):
        makers[f"{name}_score"] = partial(score_dag, federation, path, local_parties)
    makers[f"{name}_admin"] = partial(admin_dag, federation, defaults, local_parties)
    if joins:
        makers[f"{name}_join"] = partial(join_dag, federation, local_parties, defaults)
    elif federation.schedule.on_tables is not None:
        makers[f"{name}_tables"] = partial(tables_dag, federation, defaults, local_parties)
    if not makers.keys().isdisjoint(others):
        fault = Fault("name", f"another file also has the name {name}", "rename one")
        raise ConfigError("cannot become a DAG", file=path.name, faults=[fault])
    if only in makers:
        makers = {only: makers[only]}
    built = [make() for make in makers.values()]
    for dag in built:
        disable_lineage(dag)
    return built


def _faulty(path: Path, others: Mapping[str, DAG], problem: str) -> DAG:
    """Return the DAG of a faulty file; it fails on the federation's schedule, to be noticed."""
    names, cron = [path.parent.name if path.name == "federation.yaml" else path.stem], None
    with suppress(ConfigError, AttributeError, TypeError):
        declared = read_yaml(path)
        names.insert(0, str(declared["name"]) if "name" in declared else names[0])
        schedule = declared.get("schedule") or {}
        cron = schedule.get("cron") or schedule.get("on_tables")
    names = [re.sub(r"[^a-z0-9_]+", "_", n.lower()).strip("_") or "federation" for n in names]
    names.append(f"{names[-1]}_{len(others)}")
    name = next(name for name in names if f"{name}_train" not in others)
    valid = isinstance(cron, str) and not cron_problem(cron)
    return _invalid(f"{name}_train", problem, name, cron if valid else _DAILY)


def _invalid(dag_id: str, problem: str, owner: str, cron: str | None) -> DAG:
    with DAG(
        auto_register=False,
        dag_id=dag_id,
        description="The federation file has faults.",
        # Indented, so that no text from the file can end the code block.
        doc_md=f"The federation file has faults:\n\n{indent(problem, '    ')}\n\n{_USE_COMMANDS}",
        schedule=None if cron is None else at(cron),
        catchup=False,
        max_active_runs=1,
        tags=[TAG, "invalid"],
        # It fails like the federation's own runs: shown in red, and reported to the notifiers.
        default_args={"owner": owner, **CALLBACKS},
    ) as dag:
        FaultyFileOperator(
            task_id="federation_file",
            python_callable=tasks.invalid,
            op_kwargs={"problem": problem},
        )
    mark(dag, *dag.tasks)
    return dag


def train_dag(federation: Federation, path: Path, local_parties: Sequence[str]) -> DAG:
    """Return the training DAG of a federation.

    Args:
        federation: The parsed federation file.
        path: Path of the file on the label holder's worker.
        local_parties: The parties whose tasks this Airflow runs.
    """
    schedule = federation.schedule
    tables = AssetAll(*table_assets(federation, "train", local_parties).values())
    return _run_dag(
        federation,
        "train",
        path,
        local_parties,
        schedule=_when(schedule.cron, tables if schedule.on_tables else None),
        description=f"{federation.learning.capitalize()} federated training of {federation.name}.",
        params=training_form(federation),
    )


def score_dag(federation: Federation, path: Path, local_parties: Sequence[str]) -> DAG:
    """Return the scoring DAG of a federation: it runs on a new champion, new rows, cron or by hand.

    Args:
        federation: The parsed federation file.
        path: Path of the file on the label holder's worker.
        local_parties: The parties whose tasks this Airflow runs.
    """
    assets: Any = asset(federation, "champion")
    if federation.schedule.on_tables:
        assets = AssetAny(
            assets, AssetAll(*table_assets(federation, "score", local_parties).values())
        )
    return _run_dag(
        federation,
        "score",
        path,
        local_parties,
        schedule=_when(federation.scoring.cron, assets),
        description=f"Scores new rows with the champion of {federation.name}.",
        params=scoring_form(),
    )


class _RunDag(DAG):
    def test(self, *args: Any, **kwargs: Any) -> Any:
        """Run once without a scheduler, as `airflow dags test` does, and without a deadline.

        Airflow 3.3 looks up the deadline by an id that only the scheduler sets.
        """
        self.deadline = None
        return super().test(*args, **kwargs)


def _run_dag(
    federation: Federation,
    purpose: Purpose,
    path: Path,
    local_parties: Sequence[str],
    *,
    schedule: Any,
    description: str,
    params: dict[str, Any],
) -> DAG:
    joins = federation.label_holder not in local_parties
    runs_all = len(local_parties) == len(federation.parties)
    with _RunDag(
        auto_register=False,
        dag_id=f"{federation.name}_{purpose}",
        description=description,
        doc_md=documentation(federation, purpose, local_parties),
        # Joined runs are started by another DAG, with the label holder's form.
        schedule=None if joins else schedule,
        catchup=False,
        max_active_runs=1,
        # In horizontal learning the tasks of all parties run concurrently.
        max_active_tasks=max(16, 2 * len(federation.parties)),
        dagrun_timeout=timeout(federation) + (timedelta() if runs_all else MARGIN),
        deadline=late_alert(),
        tags=[TAG, purpose, federation.name, *local_parties],
        default_args=task_defaults(federation),
    ) as dag:
        if runs_all:
            add_groups(federation, purpose, path)
        else:
            add_own_groups(federation, purpose, path, local_parties)
    # Set last: otherwise each operator copies them four times, a third of the parse time. A running
    # task reads the DAG's own.
    dag.params = ParamsDict({} if joins else params)
    return dag


def _when(cron: str | None, assets: Any) -> Any:
    if cron is None or assets is None:
        return assets if cron is None else at(cron)
    return AssetOrTimeSchedule(timetable=at(cron), assets=assets)


def federation_dags(place: str | Path | None = None) -> dict[str, DAG]:
    """Return the DAGs of federation files by id; reads the files at every call.

    Args:
        place: A federation file or a folder of them; by default the value of
            ``OPBOOST_FEDERATIONS``, and no DAGs if that is not set. ``OPBOOST_PARTIES`` names the
            parties whose tasks this Airflow runs; all if it is not set.
    """
    adopt_section()
    place = place or os.environ.get("OPBOOST_FEDERATIONS")
    if not place:
        return {}
    parties = names_in(os.environ.get("OPBOOST_PARTIES"))
    # All objects created here survive: garbage collection would take most of the parse time.
    gc_enabled = gc.isenabled()
    gc.disable()
    try:
        return build_dags(Path(place), parties, get_parsing_context().dag_id)
    finally:
        if gc_enabled:
            gc.enable()
