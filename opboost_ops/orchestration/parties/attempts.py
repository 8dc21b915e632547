"""What one party tries to get from another and from the coordinator: run as that party's user.

`refusals` runs this with everything that the party's worker has. It prints outcomes and never
what it got; nothing that it does changes anything, also where it is not refused.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from uuid import uuid4

from opboost_ops.config.loading import site_of
from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.parties.outcomes import ATTEMPTS, Attempt, Orders, Outcome, Target
from opboost_ops.orchestration.parties.servers import USER, unacknowledged


class _RefusedError(Exception):
    """Refused, by something that raises no PermissionError."""


def attempts(orders: Orders) -> Iterator[Attempt]:
    """Try everything.

    Args:
        orders: What.
    """
    for target in orders.targets:
        works = {**_of_files(target), **_of_processes(target)}
        if target.whose == "coordinator":
            works |= _of_coordinator(orders)
        else:
            works |= _of_airflow(target) | _of_queues(target)
            if target.whose != orders.party:
                works |= _of_others(orders, target)
        for what, work in works.items():
            outcome, reason = _tried(work)
            yield Attempt(
                party=orders.party, other=target.whose, what=what, outcome=outcome, reason=reason
            )


def forged(url: str) -> int:
    """The HTTP status for an administrator's token that is signed with what is to hand here.

    Args:
        url: Where Airflow listens.
    """
    from airflow.api_fastapi.auth.tokens import JWTGenerator, get_signing_args
    from airflow.configuration import conf

    audience = conf.get_mandatory_list_value("api_auth", "jwt_audience", fallback="apache-airflow")
    issuer = conf.get("api_auth", "jwt_issuer", fallback=None)
    generator = JWTGenerator(
        valid_for=600, audience=audience[0], issuer=issuer, **get_signing_args()
    )
    return _status(url, "/api/v2/variables", generator.generate({"sub": "admin", "role": "ADMIN"}))


def _of_files(target: Target) -> dict[str, Callable[[], object]]:
    return {f"read {what}": _reader(path) for what, path in target.files.items()}


def _of_processes(target: Target) -> dict[str, Callable[[], object]]:
    works: dict[str, Callable[[], object]] = {}
    for what, pid in target.processes.items():
        works[f"read the environment of {what}"] = _reader(f"/proc/{pid}/environ")
        works[f"send a signal to {what}"] = lambda pid=pid: os.kill(pid, 0)  # type: ignore[misc]
    return works


def _of_airflow(target: Target) -> dict[str, Callable[[], object]]:
    mark = f"opboost_{target.whose}"
    own = {f"OPBOOST_SITE_{target.whose.upper()}": target.site}
    return {
        "get a Variable": lambda: _secret("variable", mark),
        "get a Connection": lambda: _secret("connection", mark),
        "work as this party, by its name": lambda: _site(target.whose, os.environ),
        "work as this party, by its site file": lambda: _site(target.whose, own),
    }


def _of_queues(target: Target) -> dict[str, Callable[[], object]]:
    works: dict[str, Callable[[], object]] = {}
    for queue in target.queues:
        # Each is what it says, and leaves the queue as it was if it is allowed.
        works[f"read the queue {queue}"] = _asked("LRANGE", queue, "0", "-1")
        works[f"take from the queue {queue}"] = _asked("LMOVE", queue, queue, "RIGHT", "RIGHT")
        works[f"write to the queue {queue}"] = _asked("LTRIM", queue, "0", "-1")
    taken = unacknowledged(target.whose)["unacked_key"]
    return {**works, "read which tasks its worker has": _asked("HGETALL", taken)}


def _of_others(orders: Orders, target: Target) -> dict[str, Callable[[], object]]:
    mark = f"opboost_{target.whose}"
    return {
        "get a Variable with a task's token": lambda: _fetched(
            orders, f"/execution/variables/{mark}"
        ),
        "get a Connection with a task's token": lambda: _fetched(
            orders, f"/execution/connections/{mark}"
        ),
        "write into its artifact": lambda: _written(target.artifact),
    }


def _of_coordinator(orders: Orders) -> dict[str, Callable[[], object]]:
    def forge() -> None:
        _judged(forged(orders.url))

    return {
        "list Airflow's Variables with a task's token": lambda: _fetched(
            orders, "/api/v2/variables"
        ),
        "list Airflow's Variables with a forged token": forge,
        "log in to Airflow": lambda: _logged_in(orders),
        "open Airflow's database": lambda: _database(orders.database),
        "list everybody's keys in Redis": _asked("KEYS", "*"),
        "listen to everybody's results in Redis": _asked("PSUBSCRIBE", "celery-task-meta-*"),
        "change who may do what in Redis": _asked("ACL", "LIST"),
    }


def _tried(work: Callable[[], object]) -> tuple[Outcome, str]:
    try:
        work()
    except (FileNotFoundError, ProcessLookupError):
        return "absent", ""
    except PermissionError:
        return "refused", "PermissionError"
    except _RefusedError as refused:
        return "refused", str(refused)
    except Exception as error:
        # Its text may show what was got.
        return "failed", type(error).__name__
    return "allowed", ""


def _reader(path: str) -> Callable[[], object]:
    def read() -> None:
        if not path:
            raise FileNotFoundError
        Path(path).read_bytes()

    return read


def _secret(kind: str, name: str) -> None:
    from airflow.sdk import Connection, Variable
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    try:
        (Variable if kind == "variable" else Connection).get(name)
    except (AirflowRuntimeError, AirflowNotFoundException):
        raise _RefusedError("not found") from None


def _site(party: str, environ: Mapping[str, str]) -> None:
    # As every stage begins.
    try:
        site_of(party, environ)
    except ConfigError:
        raise _RefusedError("ConfigError") from None


def _asked(*command: str) -> Callable[[], object]:
    def ask() -> None:
        import redis
        from airflow.configuration import conf

        with redis.Redis.from_url(conf.get_mandatory_value("celery", "broker_url")) as client:
            try:
                client.execute_command(*command)
            except redis.exceptions.NoPermissionError:
                raise _RefusedError("NOPERM") from None

    return ask


def _status(url: str, path: str, token: str) -> int:
    import httpx

    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{url}{path}", headers=headers, trust_env=False, timeout=60).status_code


def _fetched(orders: Orders, path: str) -> None:
    _judged(_status(orders.url, path, orders.token))


def _logged_in(orders: Orders) -> None:
    import httpx

    tried = {"username": "admin", "password": "admin"}
    reply = httpx.post(f"{orders.url}/auth/token", json=tried, trust_env=False, timeout=60)
    _judged(reply.status_code)


def _judged(status: int) -> None:
    if status in (401, 403, 404):
        raise _RefusedError(f"HTTP {status}")
    if status >= 400:
        raise ValueError(f"HTTP {status} says nothing")


def _database(port: int) -> None:
    import psycopg

    try:
        psycopg.connect(
            host="127.0.0.1", port=port, user=USER, password=USER, dbname="postgres"
        ).close()
    except psycopg.OperationalError as error:
        if "password authentication failed" in str(error):
            raise _RefusedError("wrong password") from None
        raise


def _written(artifact: str) -> None:
    if not artifact:
        raise FileNotFoundError
    new = Path(artifact, f".{uuid4().hex}")
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    new.unlink()


if __name__ == "__main__":
    found = tuple(attempts(Orders.model_validate_json(sys.stdin.read())))
    sys.stdout.write(ATTEMPTS.dump_json(found).decode() + "\n")
