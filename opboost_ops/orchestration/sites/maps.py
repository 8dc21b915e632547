"""Which party a queue and a task belong to, as files that the coordinator's proxy reads."""

import re
from pathlib import Path

from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.dags import build_dags

#: What the proxy's rules recognise as a queue.
_QUEUE = re.compile(r"[A-Za-z0-9_.-]+")


def write_maps(federations: Path, out: Path) -> dict[str, str]:
    """Write ``parties.lst``, ``queues.map`` and ``tasks.map`` for all federations of a folder.

    Args:
        federations: Folder of federation files, as Airflow reads it.
        out: Where to; made if it is absent. What is there is replaced.

    Returns:
        The party of each queue.

    Raises:
        ConfigError: A federation file is faulty, or a queue is that of two parties, or has a name
            that the proxy does not know to read.
    """
    queues: dict[str, str] = {}
    files = sorted([*federations.glob("*.yaml"), *federations.glob("*/federation.yaml")])
    if not files:
        raise ConfigError(f"{federations.name} has no federation file.", "Name the right folder.")
    for file in files:
        for party, spec in load_federation(file).parties.items():
            if queues.setdefault(spec.queue, party) != party:
                raise ConfigError(
                    f"{queues[spec.queue]} and {party} share the queue {spec.queue}.",
                    f"Give each party a queue of its own in {file.name}: a worker gets "
                    "all tasks of the queue that it asks for.",
                )
            if not _QUEUE.fullmatch(spec.queue):
                raise ConfigError(
                    f"The queue {spec.queue} cannot be that of a site.",
                    f"Use letters, digits, dot, hyphen and underscore in {file.name}.",
                )
    tasks = {
        f"{dag.dag_id}/{task.task_id}": queues[task.queue]
        for dag in build_dags(federations).values()
        for task in dag.tasks
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "parties.lst").write_text("".join(f"{p}\n" for p in sorted(set(queues.values()))))
    for name, entries in {"queues.map": queues, "tasks.map": tasks}.items():
        text = "".join(f"{key} {party}\n" for key, party in sorted(entries.items()))
        (out / name).write_text(text)
    return queues
