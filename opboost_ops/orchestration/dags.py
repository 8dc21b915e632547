"""Federation files become DAGs. This is read at every parse, so it imports little."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk import (  # type: ignore[attr-defined]
    DAG,
    Asset,
    AssetAll,
    AssetAny,
    AssetOrTimeSchedule,
    ParamsDict,
    task,
)

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError, Fault
from opboost_ops.orchestration import tasks
from opboost_ops.orchestration.acts_dag import acts_dag
from opboost_ops.orchestration.assets import champion_asset, scores_asset, table_assets
from opboost_ops.orchestration.documentation import documentation
from opboost_ops.orchestration.form import scoring_form, training_form
from opboost_ops.orchestration.groups import add_groups
from opboost_ops.orchestration.halves import MARGIN, add_half, here_of, join_dag, takes_part
from opboost_ops.orchestration.kept_dags import KeptDags
from opboost_ops.orchestration.lineage import leave_out, mark
from opboost_ops.orchestration.listened import TAG
from opboost_ops.orchestration.notifications import CALLBACKS
from opboost_ops.orchestration.remnants import Remnants, remnants
from opboost_ops.orchestration.table_dag import tables_dag
from opboost_ops.orchestration.task_defaults import task_defaults, timeout
from opboost_ops.orchestration.times import at

_AT_HOME = (
    "What is not asked through Airflow goes on at home: `opboost models promote`, `opboost models "
    "rollback` and `opboost stop` need no federation file."
)


def build_dags(
    folder: Path,
    parties: Sequence[str] | None = None,
    only: str | None = None,
    kept: KeptDags | None = None,
) -> dict[str, DAG]:
    """A DAG for each federation file; a faulty file becomes a DAG that says so.

    Args:
        folder: Searched for ``*.yaml`` and ``*/federation.yaml``.
        parties: Whose tasks this Airflow runs; all when absent. Where others run theirs in other
            Airflows, the DAGs meet those at the store.
        only: The DAG that is needed, where a task is about to run: others are left out, as each
            task would build the DAGs of all federations.
        kept: Where those of files that have not changed are found again; all are built when absent.

    Returns:
        DAGs by id. Those of faulty files are tagged ``invalid``.
    """
    dags: dict[str, DAG] = {}
    if not folder.is_dir():
        problem = f"OPBOOST_FEDERATIONS names no folder: {folder}. Create it, or set it right."
        return {"opboost_invalid": _invalid("opboost_invalid", problem, TAG)}
    faulty: list[tuple[Path, str]] = []
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*/federation.yaml")]):
        if only is None or _names(path, only):
            try:
                found = None if kept is None else kept.find(path)
                if found is None or not found.keys().isdisjoint(dags):
                    found = {dag.dag_id: dag for dag in _build(path, dags, parties, only)}
                    if kept is not None:
                        kept.keep(path, found)
                dags |= found
            except ConfigError as error:
                faulty.append((path, str(error)))
            except Exception as error:
                name = type(error).__name__
                faulty.append((path, f"{path.name}: cannot become a DAG ({name})."))
    # Last, so that they displace none of the others.
    for path, problem in faulty:
        dags = {dag.dag_id: dag for dag in _faulty(path, dags, problem, parties)} | dags
    if only is not None:
        # The id of a faulty file's DAG may come from the file's name or number.
        return dags if only in dags else build_dags(folder, parties)
    if kept is not None:
        kept.tidy()
    known = {tag for dag in dags.values() for tag in dag.tags}
    unknown = [name for name in parties or () if name not in known]
    if unknown and "invalid" not in known:
        problem = f"OPBOOST_PARTIES names {', '.join(unknown)}, of no federation in the folder."
        dags["opboost_parties"] = _invalid("opboost_parties", problem, TAG)
    return dags


def _names(path: Path, dag_id: str) -> bool:
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
    _check_crons(federation, path)
    here = here_of(federation, parties)
    if here == ():
        return []
    joined = None if here is None or federation.label_holder in here else here
    defaults = task_defaults(federation)
    makers = {f"{name}_train": partial(train_dag, federation, path, here)}
    if joined is None or takes_part(federation, "score", joined):
        makers[f"{name}_score"] = partial(score_dag, federation, path, here)
    makers[f"{name}_acts"] = partial(acts_dag, federation, defaults, here)
    if joined is not None:
        makers[f"{name}_join"] = partial(join_dag, federation, joined, defaults)
    elif federation.schedule.on_tables is not None:
        makers[f"{name}_tables"] = partial(tables_dag, federation, defaults, here)
    if not makers.keys().isdisjoint(others):
        fault = Fault("name", f"another file has the name {name} too", "rename one")
        raise ConfigError("cannot become a DAG", file=path.name, faults=[fault])
    if only in makers:
        makers = {only: makers[only]}
    made = [make() for make in makers.values()]
    for dag in made:
        leave_out(dag)
    return made


def _faulty(
    path: Path, others: Mapping[str, DAG], problem: str, parties: Sequence[str] | None
) -> list[DAG]:
    """DAGs of a faulty file: under its name and at its times, so that its absence is noticed."""
    left = remnants(path)
    name = left.name
    if name is not None and f"{name}_train" not in others:
        made = [
            _invalid(f"{name}_train", problem, name, left.train),
            _invalid(f"{name}_score", problem, name, left.score),
            # Who wants to act is told why nothing can be done here; at home everything can.
            _invalid(f"{name}_acts", f"{problem}\n{_AT_HOME}", name),
        ]
        # Training fails at the times of the tables, too: one alarm is enough.
        if _joins(left, parties):
            made.append(_invalid(f"{name}_join", problem, name))
        elif left.tables is not None:
            made.append(_invalid(f"{name}_tables", problem, name))
        return made
    stem = path.parent.name if path.name == "federation.yaml" else path.stem
    name = re.sub(r"[^a-z0-9_]+", "_", stem.lower()).strip("_") or "federation"
    dag_id = f"{name}_train" if f"{name}_train" not in others else f"{name}_{len(others)}_train"
    return [_invalid(dag_id, problem, name)]


def _joins(left: Remnants, parties: Sequence[str] | None) -> bool:
    """Whether the label holder of a broken file is in another Airflow than some of its parties."""
    if parties is None or left.label_holder is None or left.label_holder in parties:
        return False
    return any(party in parties for party in left.parties)


def _invalid(dag_id: str, problem: str, owner: str, cron: str | None = None) -> DAG:
    with DAG(
        auto_register=False,
        dag_id=dag_id,
        description="Its federation file is faulty.",
        doc_md=f"The federation file is faulty:\n\n```\n{problem}\n```\n",
        schedule=None if cron is None else at(cron),
        catchup=False,
        max_active_runs=1,
        tags=[TAG, "invalid"],
        # It fails as the federation's own runs do: in red, and to the worker's notifiers.
        default_args={"owner": owner, **CALLBACKS},
    ) as dag:
        task(task_id="federation_file", multiple_outputs=False)(tasks.invalid)(problem)
    mark(dag, *dag.tasks)
    return dag


def train_dag(federation: Federation, path: Path, here: Sequence[str] | None = None) -> DAG:
    """The training DAG of a federation.

    Args:
        federation: What its file says.
        path: The file, as the label holder's worker finds it.
        here: The parties of this Airflow; all when absent.
    """
    schedule = federation.schedule
    tables = AssetAll(*table_assets(federation, "train", here).values())
    return _run_dag(
        federation,
        "train",
        path,
        here,
        schedule=_when(schedule.cron, tables if schedule.on_tables else None),
        description=f"{federation.learning.capitalize()} federated training of {federation.name}.",
        params=training_form(federation),
        outlets={"announce_champion": champion_asset(federation)},
    )


def score_dag(federation: Federation, path: Path, here: Sequence[str] | None = None) -> DAG:
    """The scoring DAG of a federation: on a new champion, on new rows, by cron or by hand.

    Args:
        federation: What its file says.
        path: The file, as the label holder's worker finds it.
        here: The parties of this Airflow; all when absent.
    """
    assets: Any = champion_asset(federation)
    if federation.schedule.on_tables:
        assets = AssetAny(assets, AssetAll(*table_assets(federation, "score", here).values()))
    return _run_dag(
        federation,
        "score",
        path,
        here,
        schedule=_when(federation.scoring.cron, assets),
        description=f"Scores new rows with the champion of {federation.name}.",
        params=scoring_form(),
        outlets={"write_scores": scores_asset(federation)},
    )


def _run_dag(
    federation: Federation,
    purpose: Purpose,
    path: Path,
    here: Sequence[str] | None,
    *,
    schedule: Any,
    description: str,
    params: dict[str, Any],
    outlets: dict[str, Asset],
) -> DAG:
    joins = here is not None and federation.label_holder not in here
    with DAG(
        auto_register=False,
        dag_id=f"{federation.name}_{purpose}",
        description=description,
        doc_md=documentation(federation, purpose, here),
        # Runs that are joined are started by another DAG, and the form is the label holder's.
        schedule=None if joins else schedule,
        catchup=False,
        max_active_runs=1,
        # In horizontal learning the tasks of all parties run at the same time.
        max_active_tasks=max(16, 2 * len(federation.parties)),
        dagrun_timeout=timeout(federation) + (timedelta() if here is None else MARGIN),
        tags=[TAG, purpose, federation.name, *(federation.parties if here is None else here)],
        default_args=task_defaults(federation),
    ) as dag:
        if here is None:
            add_groups(federation, purpose, path, outlets)
        else:
            add_half(federation, purpose, path, outlets, here)
    # Set last: each operator would make four copies of them, a third of the time of a parse. A task
    # that runs gets the DAG's own.
    dag.params = ParamsDict({} if joins else params)
    return dag


def _when(cron: str | None, assets: Any) -> Any:
    if cron is None or assets is None:
        return assets if cron is None else at(cron)
    return AssetOrTimeSchedule(timetable=at(cron), assets=assets)


def _check_crons(federation: Federation, path: Path) -> None:
    crons = {
        "schedule.cron": federation.schedule.cron,
        "schedule.on_tables": federation.schedule.on_tables,
        "scoring.cron": federation.scoring.cron,
    }
    faults = []
    for name, cron in crons.items():
        if cron is None:
            continue
        try:
            at(cron).validate()
        except Exception:
            faults.append(Fault(name, "is no cron expression", "for example 0 3 * * 1"))
    if faults:
        raise ConfigError("cannot become a DAG", file=path.name, faults=faults)
