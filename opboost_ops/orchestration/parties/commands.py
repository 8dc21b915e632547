"""How each component of a topology is started."""

from pathlib import Path

from opboost_ops.orchestration.parties import federations, servers
from opboost_ops.orchestration.parties.places import Places
from opboost_ops.orchestration.parties.records import State

#: Components that are no part of Airflow.
SERVERS = ("postgres", "redis")

#: Components of Airflow that are the coordinator's.
AIRFLOW = ("api-server", "scheduler", "dag-processor")

#: Starts a component again when it has ended by itself, as systemd or a container engine does:
#: Airflow's scheduler ends when Redis is away. Five deaths within 30 s of a start are too many.
_KEEP = """quick=0
while [ $quick -lt 5 ]; do
  begin=$(date +%s)
  "$@"
  code=$?
  if [ $(($(date +%s) - begin)) -lt 30 ]; then quick=$((quick + 1)); else quick=0; fi
  echo "ended with $code and is started again"
  sleep 1
done
exit $code
"""


def command_of(name: str, places: Places, state: State, python: Path) -> list[str]:
    """The command of a component.

    Args:
        name: A server, a part of Airflow, or ``worker-<party>``.
        places: Where things lie.
        state: With the ports.
        python: Of the parties' environment.
    """
    if name == "postgres":
        return servers.database_command(places, state)
    if name == "redis":
        return servers.broker_command(places)
    airflow = ["/bin/sh", "-c", _KEEP, name, str(python), "-m", "airflow"]
    if not name.startswith("worker-"):
        # The log server listens on all addresses, and no log is there: workers keep theirs.
        return [*airflow, name, *(("--skip-serve-logs",) if name == "scheduler" else ())]
    queues = federations.queues(places)[name.removeprefix("worker-")]
    return [
        *(*airflow, "celery", "worker", "--queues", ",".join(sorted(queues))),
        *("--skip-serve-logs", "--without-mingle", "--without-gossip"),
    ]
