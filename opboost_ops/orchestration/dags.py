"""Federation files become DAGs. This is read at every parse, so it imports little."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from airflow.sdk import (
    DAG,
    AssetOrTimeSchedule,
    CronTriggerTimetable,
    Param,
    TaskGroup,
    task,
)

from opboost_ops.config.federation import Federation, Training
from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError, Fault
from opboost_ops.mechanisms.global_map import GlobalMap
from opboost_ops.orchestration import tasks
from opboost_ops.orchestration.notifications import CALLBACKS
from opboost_ops.orchestration.phases import DESCRIPTIONS, STAGES_OF, TITLES
from opboost_ops.orchestration.pools import TAG
from opboost_ops.orchestration.table_dag import table_assets, tables_dag

_START = datetime(2026, 1, 1, tzinfo=UTC)

#: Only network faults are raised as retryable; `tasks.execute` fails everything else at once.
_RETRIES = {
    "retries": 3,
    "retry_delay": timedelta(seconds=15),
    "retry_exponential_backoff": 2,
    "max_retry_delay": timedelta(minutes=10),
    **CALLBACKS,
}


def build_dags(folder: Path) -> dict[str, DAG]:
    """A DAG for each federation file; a faulty file becomes a DAG that says so.

    Args:
        folder: Searched for ``*.yaml`` and ``*/federation.yaml``.

    Returns:
        DAGs by id. Those of faulty files are tagged ``invalid``.
    """
    dags: dict[str, DAG] = {}
    if not folder.is_dir():
        problem = f"OPBOOST_FEDERATIONS names no folder: {folder}. Create it, or set it right."
        return {"opboost_invalid": _invalid("opboost_invalid", problem, TAG)}
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*/federation.yaml")]):
        dags |= {dag.dag_id: dag for dag in _build(path, dags)}
    return dags


def _build(path: Path, others: dict[str, DAG]) -> list[DAG]:
    stem = path.parent.name if path.name == "federation.yaml" else path.stem
    name = re.sub(r"[^a-z0-9_]+", "_", stem.lower()).strip("_") or "federation"
    try:
        federation = load_federation(path)
        if f"{federation.name}_train" in others:
            name = f"{name}_{len(others)}"
            fault = Fault("name", f"another file has the name {federation.name} too", "rename one")
            raise ConfigError("cannot become a DAG", file=path.name, faults=[fault])
        made = [train_dag(federation, path)]
        if federation.schedule.on_tables is not None:
            made.append(tables_dag(federation, _RETRIES))
        return made
    except ConfigError as error:
        problem = str(error)
    except Exception as error:
        problem = f"{path.name}: cannot become a DAG ({type(error).__name__})."
    dag_id = f"{name}_train" if f"{name}_train" not in others else f"{name}_{len(others)}_train"
    return [_invalid(dag_id, problem, name)]


def _invalid(dag_id: str, problem: str, owner: str) -> DAG:
    with DAG(
        dag_id=dag_id,
        description="Its federation file is faulty.",
        doc_md=f"The federation file is faulty:\n\n```\n{problem}\n```\n",
        schedule=None,
        start_date=_START,
        catchup=False,
        tags=[TAG, "invalid"],
        default_args={"owner": owner},
    ) as dag:
        task(task_id="federation_file", multiple_outputs=False)(tasks.invalid)(problem)
    return dag


def train_dag(federation: Federation, path: Path) -> DAG:
    """The training DAG of a federation.

    Args:
        federation: What its file says.
        path: The file, as the label holder's worker finds it.

    Raises:
        ConfigError: Its schedule is no cron expression.
    """
    with DAG(
        dag_id=f"{federation.name}_train",
        description=f"Vertical federated training of {federation.name}.",
        doc_md=_documentation(federation),
        schedule=_schedule(federation, path),
        start_date=_START,
        catchup=False,
        max_active_runs=1,
        tags=[TAG, "train", federation.name, *federation.parties],
        params=_form(federation),
        default_args=_RETRIES,
    ) as dag:
        phases = _Phases(federation)
        opened = phases.group("open", federation.label_holder, first=str(path))
        aligned = phases.group("align", federation.label_holder)
        trained = phases.group("train", federation.label_holder)
        published = phases.group("publish", federation.label_holder)
        opened[-1] >> aligned[0]
        trained[-1] >> published[0]
        for party in federation.feature_holders:
            ids = phases.group("ids", party)
            release = phases.group("release", party)
            answer = phases.group("answer", party)
            opened[0] >> ids[0]
            ids[-1] >> aligned[0]
            aligned[-1] >> release[0]
            release[-1] >> trained[0]
            trained[-1] >> answer[0]
            answer[-1] >> published[0]
    return dag


class _Phases:
    """Makes the task groups: one for each phase of each party, acyclic among themselves."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation

    def group(self, phase: str, party: str, first: str = "") -> list[Any]:
        """A chain of tasks in a group of their own; ``first`` is the file that `open_run` reads."""
        title, tooltip = TITLES[phase]
        with TaskGroup(f"{party}_{phase}", group_display_name=f"{party}: {title}", tooltip=tooltip):
            chain = list(self._tasks(phase, party, first))
        for before, after in pairwise(chain):
            before >> after
        return chain

    def _tasks(self, phase: str, party: str, first: str) -> Iterator[Any]:
        federation = self._federation
        spec = federation.parties[party]
        common: dict[str, Any] = {"owner": party, "queue": spec.queue, "multiple_outputs": False}
        if first:
            # In default_pool, which always exists: it is the task that reports missing pools.
            yield task(task_id="open_run", doc_md=DESCRIPTIONS["open_run"], **common)(
                tasks.open_run
            )(first)
        for stage in STAGES_OF[phase]:
            yield task(task_id=stage, pool=spec.pool, doc_md=DESCRIPTIONS[stage], **common)(
                tasks.run_stage
            )(party, stage, federation.name, federation.label_holder)


def _schedule(federation: Federation, path: Path) -> Any:
    schedule = federation.schedule
    faults = []
    for name, cron in (("cron", schedule.cron), ("on_tables", schedule.on_tables)):
        if cron is None:
            continue
        try:
            CronTriggerTimetable(cron, timezone="UTC").validate()
        except Exception:
            faults.append(
                Fault(f"schedule.{name}", "is no cron expression", "for example 0 3 * * 1")
            )
    if faults:
        raise ConfigError("cannot become a DAG", file=path.name, faults=faults)
    if schedule.on_tables is None:
        return schedule.cron
    assets = list(table_assets(federation).values())
    if schedule.cron is None:
        return assets
    return AssetOrTimeSchedule(
        timetable=CronTriggerTimetable(schedule.cron, timezone="UTC"), assets=assets
    )


def _form(federation: Federation) -> dict[str, Param]:
    """The trigger form, with the ranges that the configuration itself has."""
    fields = Training.model_json_schema()["properties"]
    training = federation.training
    epsilon = GlobalMap.model_json_schema()["properties"]["epsilon"]
    return {
        "epsilon": _field("Epsilon of all protected features", epsilon, ""),
        "trees": _field("Trees", fields["trees"], f" ({training.trees})"),
        "learning_rate": _field(
            "Learning rate", fields["learning_rate"], f" ({training.learning_rate:g})"
        ),
        "depth": _field("Depth of a tree", fields["depth"], f" ({training.depth})"),
    }


def _field(title: str, schema: dict[str, Any], declared: str) -> Param:
    limits = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    return Param(
        None,
        title=title,
        description=f"Empty: as declared{declared}.",
        type=["null", schema["type"]],
        **{name: schema[name] for name in limits if name in schema},
    )


def _documentation(federation: Federation) -> str:
    domain = federation.domain
    summary = (
        f"**{federation.name}** trains a gradient-boosted tree model on columns of "
        f"{len(federation.parties)} parties. No party shows its columns to another: feature "
        "holders randomise theirs at home and publish only ranks, signed."
    )
    form = (
        "An empty field of the trigger form means as declared. A value for epsilon applies to "
        "every protected feature; a party's own policy may refuse it."
    )
    lines = [
        summary,
        "",
        f"Domain of protected features: [{domain.lower}, {domain.upper}].",
        "",
        "| party | role | feature | leaves the party as |",
        "| --- | --- | --- | --- |",
    ]
    for party, spec in federation.parties.items():
        role = spec.role.replace("_", " ")
        for name, feature in spec.features.items():
            leaves = feature.mechanism.label() if feature.mechanism else "never leaves"
            lines.append(f"| {party} | {role} | `{name}` | {leaves} |")
        if not spec.features:
            lines.append(f"| {party} | {role} | | |")
    return "\n".join([*lines, "", form])
