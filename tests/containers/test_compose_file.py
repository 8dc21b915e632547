"""The compose files: valid, and each party's container apart from the others'. No engine runs."""

import os
import re
import stat
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.containers.parties import DOCKER, make_keys
from tests.deployments import PARTIES

FILES = {name: DOCKER / name / "compose.yaml" for name in ("one-airflow", "party")}

#: What all parties see: artifacts, which are signed and encrypted, and the public files.
SHARED = {"exchange:/exchange", "./federations:/federations:ro"}


def declared(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(FILES[name].read_text())
    return read


@pytest.mark.parametrize("name", FILES)
def test_every_container_is_hardened(name: str) -> None:
    linter = [sys.executable, "-m", "check_jsonschema"]
    command = [*linter, "--builtin-schema", "vendor.compose-spec", str(FILES[name])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    for service in declared(name)["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["user"].partition(":")[0] not in ("", "0", "root")
        assert "/tmp" in service["tmpfs"]
        assert not {"privileged", "cap_add", "pid", "ipc", "devices"} & set(service)


@pytest.mark.parametrize("name", FILES)
def test_what_listens_listens_on_this_machine(name: str) -> None:
    for service in declared(name)["services"].values():
        assert "network_mode" not in service
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


@pytest.mark.parametrize("name", FILES)
def test_every_container_has_limits_and_lasting_ones_say_whether_they_are_well(name: str) -> None:
    for service in declared(name)["services"].values():
        assert {"mem_limit", "pids_limit"} <= set(service)
        if service["restart"] == "no":
            continue
        # One word: some engines split what has blanks.
        kind, program = service["healthcheck"]["test"]
        assert kind == "CMD"
        assert " " not in program
        known = DOCKER / program.strip("/")
        assert program.startswith("healthy-") or os.access(known, os.X_OK)


def test_no_party_shares_anything_with_another_but_the_exchange() -> None:
    services = declared("one-airflow")["services"]
    workers = {party: services[f"worker-{party}"] for party in PARTIES}
    for one, other in combinations(workers.values(), 2):
        assert one["user"] != other["user"]
        assert not set(one["networks"]) & set(other["networks"])
        assert set(one["volumes"]) & set(other["volumes"]) == SHARED
        assert not sources(one) & sources(other)
    for party, worker in workers.items():
        # Nothing of the coordinator's but the way to its own queue.
        assert sources(worker) == {f"{party}-broker.url"}
        assert worker["networks"] == [f"party-{party}"]
        assert not [name for name in worker["environment"] if re.search("SQL|JWT|FERNET", name)]
        sites = [name for name in worker["environment"] if name.startswith("OPBOOST_SITE_")]
        assert sites == [f"OPBOOST_SITE_{party.upper()}"]
        assert worker["command"][:4] == ["celery", "worker", "--queues", party]
        for kind in ("unacked", "unacked_index", "unacked_mutex"):
            name = f"AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__{kind.upper()}_KEY"
            assert worker["environment"][name] == f"{party}.{kind}"
        on = {name for name, s in services.items() if f"party-{party}" in s["networks"]}
        assert on == {"redis", "api-server", f"worker-{party}"}


def test_only_what_runs_a_partys_tasks_reaches_the_store() -> None:
    compose = declared("party")
    outside = {name for name, network in compose["networks"].items() if not network}
    reaching = {n: outside & set(s["networks"]) for n, s in compose["services"].items()}
    assert {n: to for n, to in reaching.items() if to} == {
        "api-server": {"people"},
        "scheduler": {"store"},
    }


@pytest.mark.parametrize(
    ("name", "parties"),
    [
        ("one-airflow", tuple(f"{name}:{10011 + n}" for n, name in enumerate(PARTIES))),
        ("party", ()),
    ],
)
def test_the_keys_are_those_that_it_names(
    name: str, parties: tuple[str, ...], tmp_path: Path
) -> None:
    make_keys(tmp_path, parties)
    keys = {path.name: path for path in tmp_path.iterdir()}
    named = {Path(secret["file"]).name for secret in declared(name)["secrets"].values()}
    assert set(keys) == named | {"passwords.json"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys.values()} == {0o600}
    urls = [path.read_text() for file, path in keys.items() if file.endswith("-broker.url")]
    words = {match[1] for url in urls if (match := re.search(":([^:@]+)@", url))}
    assert len(words) == len(urls)
    # Redis knows digests alone.
    assert not [word for word in words if word in keys["redis.conf"].read_text()]


def test_another_party_joins_and_nobody_gets_other_secrets(tmp_path: Path) -> None:
    make_keys(tmp_path, ["bank:10011", "shop:10013"])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    make_keys(tmp_path, ["bank:10011", "shop:10013", "acme:10014"])
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {n for n in before if before[n] != after[n]} == {"redis.conf"}
    assert set(after) - set(before) == {"acme-broker.url"}
    users = re.findall(rb"^user (\w+) on ", after["redis.conf"], re.MULTILINE)
    assert users == [b"coordinator", b"bank", b"shop", b"acme"]


@pytest.mark.parametrize("name", ["coordinator", "", 'b" ~* &* +@all', "shop.unacked", "../shop"])
def test_no_name_gives_a_party_the_rights_of_another(name: str, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        make_keys(tmp_path / "keys", ["bank:10011", f"{name}:10012"])
    assert not (tmp_path / "keys").exists()


def sources(service: dict[str, Any]) -> set[str]:
    return {s if isinstance(s, str) else s["source"] for s in service.get("secrets", ())}
