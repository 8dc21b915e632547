"""What a worker may do in the Redis of docker/one-airflow, by a real one with its settings."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.containers.parties import make_keys
from tests.programs import program
from tests.servers.conftest import free_port
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator["redis.Redis"]:
    """A client with the password of bank's worker."""
    redis_server = program("redis-server")
    root, port = tmp_path_factory.mktemp("broker"), free_port()
    keys = root / "keys"
    make_keys(keys, ["bank:10011", "shop:10013"])
    settings = (keys / "redis.conf").read_text()
    for before, after in (("0.0.0.0", "127.0.0.1"), ("6379", port), ("/data", root)):
        settings = settings.replace(before, str(after))
    (root / "redis.conf").write_text(settings)
    url = (keys / "bank-broker.url").read_text().replace("redis:6379", f"127.0.0.1:{port}")
    with (
        subprocess.Popen([redis_server, Path(root, "redis.conf")], stdout=-3) as server,
        redis.Redis.from_url(url) as client,
    ):
        until(lambda: _answers(client), "Redis", 30)
        yield client
        server.terminate()


def _answers(client: "redis.Redis") -> bool:
    try:
        return bool(client.execute_command("PING"))
    except redis.exceptions.ConnectionError:
        return False


@pytest.mark.parametrize(
    "command",
    [
        ("LRANGE", "{}", "0", "-1"),
        ("LMOVE", "{}", "{}", "RIGHT", "RIGHT"),
        ("LPUSH", "{}", "order"),
        ("HGETALL", "{}.unacked"),
    ],
)
def test_its_own_queue_is_open_and_anothers_is_not(
    bank: "redis.Redis", command: tuple[str, ...]
) -> None:
    bank.execute_command(*(part.format("bank") for part in command))
    with pytest.raises(redis.exceptions.NoPermissionError):
        bank.execute_command(*(part.format("shop") for part in command))


@pytest.mark.parametrize(
    "command",
    ["KEYS *", "SCAN 0", "PSUBSCRIBE celery-task-meta-*", "ACL LIST", "FLUSHALL", "CONFIG GET *"],
)
def test_nobody_lists_what_is_everybodys(bank: "redis.Redis", command: str) -> None:
    with pytest.raises(redis.exceptions.NoPermissionError):
        bank.execute_command(*command.split())
