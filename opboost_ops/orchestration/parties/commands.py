"""How each component of a topology is started."""

from pathlib import Path

from opboost_ops.orchestration.parties import federations, servers
from opboost_ops.orchestration.parties.places import Places
from opboost_ops.orchestration.parties.records import State

#: Components that are no part of Airflow.
SERVERS = ("postgres", "redis")

#: Components of Airflow that are the coordinator's.
AIRFLOW = ("api-server", "scheduler", "dag-processor")

#: How a line of a component's log begins that says that it ended by itself.
ENDED = "opboost: ended with"

#: Starts a component again when it has ended by itself, as systemd or a container engine does, for
#: as long as it is wanted: Airflow's scheduler ends at once, again and again, while its database or
#: Redis is away. After quick ends the pause grows, up to half a minute; one that has run for a
#: minute is started again at once.
_KEEP = f"""pause=1
while :; do
  begin=$(date +%s)
  "$@"
  code=$?
  lasted=$(($(date +%s) - begin))
  if [ $lasted -ge 60 ]; then pause=1; fi
  echo "{ENDED} $code after $lasted s, is started again in $pause s"
  sleep $pause
  pause=$((pause * 2)); if [ $pause -gt 30 ]; then pause=30; fi
done
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
    queues = federations.queues(places.federations)[name.removeprefix("worker-")]
    return [
        *(*airflow, "celery", "worker", "--queues", ",".join(sorted(queues))),
        *("--skip-serve-logs", "--without-mingle", "--without-gossip"),
    ]
