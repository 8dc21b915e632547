"""A PostgreSQL of the tests' own, from the system's package."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def created(server: str, template: str = "template1") -> str:
    """URL of a new database with what another one holds, which nobody may use meanwhile."""
    name = f"state_{uuid.uuid4().hex}"
    engine = sa.create_engine(f"{server}/postgres", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f'CREATE DATABASE {name} TEMPLATE "{template}"'))
    engine.dispose()
    return f"{server}/{name}"


@pytest.fixture
def postgres(postgres_server: str) -> str:
    """URL of an empty database."""
    return created(postgres_server)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a server, without a database."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.fail("PostgreSQL is missing: install the package postgresql.")
    binaries = found[-1].parent
    folder = Path(tempfile.mkdtemp(prefix="opboost-postgres-"))
    # It refuses to run as root; Debian's package brings a user for it.
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    if os.geteuid() == 0:
        shutil.chown(folder, user)
    port, data = free_port(), folder / "data"

    def run(*command: str | Path) -> None:
        done = subprocess.run(
            command, user=user, cwd=folder, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run(binaries / "initdb", "-A", "trust", "-U", "opboost", "-D", data)
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    log = folder / "log"
    run(binaries / "pg_ctl", "-D", data, "-o", options, "-l", log, "-w", "start")
    try:
        yield f"postgresql+psycopg://opboost@127.0.0.1:{port}"
    finally:
        run(binaries / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
