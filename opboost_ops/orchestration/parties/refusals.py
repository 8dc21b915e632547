"""Shows that a party gets at nothing of another: everything is tried, really, as each of them."""

import os
from collections.abc import Iterator
from pathlib import Path

import yaml

from opboost_ops.orchestration.parties import federations
from opboost_ops.orchestration.parties.outcomes import ATTEMPTS, Attempt, Orders, Target
from opboost_ops.orchestration.parties.topology import Topology

_ATTEMPTS = "opboost_ops.orchestration.parties.attempts"

#: Makes a token as every task gets one with its orders; which task it is of is not looked at.
_ISSUE = """
from uuid import uuid4
from airflow.executors.base_executor import BaseExecutor
print(BaseExecutor().jwt_generator.generate({"sub": str(uuid4())}))
"""

#: What the coordinator alone may read.
_COORDINATOR = {
    "the topology's passwords": "secrets.json",
    "who may log in to Airflow": "coordinator/airflow/passwords.json",
    "Airflow's settings": "coordinator/airflow/airflow.cfg",
    "Redis's settings": "coordinator/redis/redis.conf",
    "Redis's data": "coordinator/redis/appendonlydir/appendonly.aof.manifest",
    "PostgreSQL's data": "coordinator/postgres/PG_VERSION",
    "the scheduler's log": "coordinator/scheduler.log",
}


def refusals(topology: Topology) -> Iterator[Attempt]:
    """Try everything as each party in turn: on others, on the coordinator, and on its own.

    What is a party's own must be reached: that shows that the attempts are real.

    Args:
        topology: It is up.
    """
    python = str(topology.commands / "python")
    topology.check()
    token = topology.call("scheduler", python, "-c", _ISSUE).strip().splitlines()[-1]
    temporary = {p: topology.call(f"worker-{p}", "/bin/mktemp").strip() for p in topology.parties}
    try:
        targets = [_target(topology, party, temporary[party]) for party in topology.parties]
        for party in topology.parties:
            orders = Orders(
                party=party,
                url=topology.url,
                database=topology.ports.database,
                token=token,
                targets=(*targets, _coordinator(topology)),
            )
            printed = topology.call(
                f"worker-{party}", python, "-m", _ATTEMPTS, given=orders.model_dump_json()
            )
            yield from ATTEMPTS.validate_json(printed.strip().splitlines()[-1])
    finally:
        for file in temporary.values():
            Path(file).unlink(missing_ok=True)


def _target(topology: Topology, party: str, temporary: str) -> Target:
    home = topology.places.home(party)
    site = yaml.safe_load((home / "site.yaml").read_text())
    tables = next(iter(site["tables"].values()))
    files = {
        "the raw table": home / tables["train"],
        "the noise secret": home / site["secret"],
        "the signing key": home / site["signing_key"],
        "the policy": home / "policy.yaml",
        "the site file": home / "site.yaml",
        "the file of Connections": home / "secrets" / "connections.json",
        "the ledger": home / "ledger.sqlite",
        "a file of a run at home": _first(home / site["home"]),
        "a temporary file": Path(temporary),
        "a task's log": _first(home / "airflow" / "logs", "*.log"),
        "the worker's log": topology.log(f"worker-{party}"),
    }
    if "alignment_key" in site:
        files["the alignment key"] = home / site["alignment_key"]
    worker = f"worker-{party}"
    return Target(
        whose=party,
        files={what: str(path) if path and path.exists() else "" for what, path in files.items()},
        processes={"the worker": topology.components[worker]},
        queues=tuple(sorted(federations.queues(topology.places.federations)[party])),
        site=str(home / "site.yaml"),
        artifact=_artifact(topology, party),
    )


def _coordinator(topology: Topology) -> Target:
    root = topology.places.root
    running = topology.components
    return Target(
        whose="coordinator",
        files={
            what: str(root / name) if (root / name).exists() else ""
            for what, name in _COORDINATOR.items()
        },
        processes={f"the {name}": running[name] for name in ("scheduler", "api-server")},
    )


def _first(folder: Path, pattern: str = "*") -> Path | None:
    return next((path for path in sorted(folder.rglob(pattern)) if path.is_file()), None)


def _artifact(topology: Topology, party: str) -> str:
    uid = topology.account(party).uid
    for folder, folders, names in os.walk(topology.places.exchange):
        if "manifest.json" in names and Path(folder).stat().st_uid == uid:
            return folder
        folders[:] = [name for name in folders if not name.startswith(".")]
    return ""
