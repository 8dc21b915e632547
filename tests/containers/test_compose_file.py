"""The compose file: valid, and each party's container apart from the others'. No engine runs it."""

import os
import re
import shutil
import stat
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from opboost_ops.cli import app
from opboost_ops.datasets import load
from opboost_ops.datasets.workspace import write_workspace

DOCKER = Path(__file__).parents[2] / "docker"
COMPOSE = DOCKER / "compose.yaml"
PARTIES = ("bank", "credit", "shop")

#: What all parties see: artifacts, which are signed and encrypted, and the public files.
SHARED = {"exchange:/exchange", "${FEDERATIONS:-./federations}:/federations:ro"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return read


@pytest.mark.parametrize("file", sorted(DOCKER.glob("compose*.yaml")), ids=lambda f: f.name)
def test_every_container_is_hardened(file: Path) -> None:
    linter = [sys.executable, "-m", "check_jsonschema"]
    command = [*linter, "--builtin-schema", "vendor.compose-spec", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    for name, service in yaml.safe_load(file.read_text())["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["user"].partition(":")[0] not in ("", "0", "root"), name
        assert "/tmp" in service["tmpfs"], name
        assert not {"privileged", "cap_add", "pid", "ipc", "devices"} & set(service), name


@pytest.mark.slow
def test_docker_compose_reads_it() -> None:
    program = shutil.which("docker-compose")
    if program is None:
        pytest.fail("docker-compose is missing: install the package docker-compose.")
    done = subprocess.run(
        [program, "--file", str(COMPOSE), "config"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert set(yaml.safe_load(done.stdout)["services"]) >= {f"worker-{p}" for p in PARTIES}


def test_what_listens_listens_on_this_machine(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert "network_mode" not in service, name
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name


def test_every_container_has_limits_and_lasting_ones_say_whether_they_are_well(
    compose: dict[str, Any],
) -> None:
    for name, service in compose["services"].items():
        assert {"mem_limit", "pids_limit"} <= set(service), name
        if service["restart"] == "no":
            continue
        # One word: some engines split what has blanks.
        kind, program = service["healthcheck"]["test"]
        assert kind == "CMD", name
        assert " " not in program, name
        known = DOCKER / program.strip("/")
        assert program.startswith("healthy-") or os.access(known, os.X_OK), name


def test_no_party_shares_anything_with_another_but_the_exchange(compose: dict[str, Any]) -> None:
    workers = {party: compose["services"][f"worker-{party}"] for party in PARTIES}
    for one, other in combinations(workers.values(), 2):
        assert one["user"] != other["user"]
        assert not set(one["networks"]) & set(other["networks"])
        assert set(one["volumes"]) & set(other["volumes"]) == SHARED
        assert not sources(one) & sources(other)
    for party, worker in workers.items():
        # Nothing of the coordinator's but the way to its own queue.
        assert sources(worker) == {f"{party}-broker.url"}
        assert worker["networks"] == [party]
        assert not [name for name in worker["environment"] if re.search("SQL|JWT|FERNET", name)]
        sites = [name for name in worker["environment"] if name.startswith("OPBOOST_SITE_")]
        assert sites == [f"OPBOOST_SITE_{party.upper()}"]
        assert worker["command"][:4] == ["celery", "worker", "--queues", party]
        for kind in ("unacked", "unacked_index", "unacked_mutex"):
            name = f"AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__{kind.upper()}_KEY"
            assert worker["environment"][name] == f"{party}.{kind}"
        on = {name for name, s in compose["services"].items() if party in s["networks"]}
        assert on == {"redis", "api-server", f"worker-{party}"}


def test_the_keys_are_those_that_it_names(compose: dict[str, Any], tmp_path: Path) -> None:
    file = write_workspace(load("credit", rows=200), tmp_path / "federations")
    declared = yaml.safe_load(file.read_text())
    for party, spec in declared["parties"].items():
        spec["queue"] = party
    (file.parent / "credit.yaml").write_text(yaml.safe_dump(declared))
    file.unlink()
    federations = file.parent
    command = ["keys", "compose", str(tmp_path / "keys"), "--federations", str(federations)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    made = {path.name: path for path in (tmp_path / "keys").iterdir()}
    named = {Path(secret["file"].replace("}", "")).name for secret in compose["secrets"].values()}
    assert set(made) == named | {"passwords.json"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.values()} == {0o600}
    words = [re.search(":([^:@]+)@", made[f"{p}-broker.url"].read_text()) for p in PARTIES]
    assert len({word[1] for word in words if word}) == len(PARTIES)
    # Redis knows digests alone.
    assert not [word for word in words if word and word[1] in made["redis.conf"].read_text()]
    assert CliRunner().invoke(app, command).exit_code != 0  # They are never replaced.


def sources(service: dict[str, Any]) -> set[str]:
    return {s if isinstance(s, str) else s["source"] for s in service.get("secrets", ())}
