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

from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.compose import write_compose
from tests.commands import opboost
from tests.deployments import write_deployment

DOCKER = Path(__file__).parents[2] / "docker"
PARTIES = ("bank", "credit", "shop")

#: What all parties see: artifacts, which are signed and encrypted, and the public files.
SHARED = {"exchange:/exchange", "./federations:/federations:ro"}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_deployment(tmp_path_factory.mktemp("deployment"), "/exchange", rows=200)
    return folder / "credit_scoring.yaml"


@pytest.fixture(scope="module")
def file(federation: Path) -> Path:
    """What the command writes for a federation of three parties."""
    folder = federation.parents[1] / "compose"
    opboost("compose", federation, "--out", folder)
    return folder / "compose.yaml"


@pytest.fixture(scope="module")
def compose(file: Path) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(file.read_text())
    return read


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
        assert worker["networks"] == [f"party-{party}"]
        assert not [name for name in worker["environment"] if re.search("SQL|JWT|FERNET", name)]
        sites = [name for name in worker["environment"] if name.startswith("OPBOOST_SITE_")]
        assert sites == [f"OPBOOST_SITE_{party.upper()}"]
        assert worker["command"][:4] == ["celery", "worker", "--queues", party]
        for kind in ("unacked", "unacked_index", "unacked_mutex"):
            name = f"AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__{kind.upper()}_KEY"
            assert worker["environment"][name] == f"{party}.{kind}"
        on = {name for name, s in compose["services"].items() if f"party-{party}" in s["networks"]}
        assert on == {"redis", "api-server", f"worker-{party}"}


def test_the_keys_are_those_that_it_names(file: Path, compose: dict[str, Any]) -> None:
    made = {path.name: path for path in (file.parent / "keys").iterdir()}
    named = {Path(secret["file"]).name for secret in compose["secrets"].values()}
    assert set(made) == named | {"passwords.json"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.values()} == {0o600}
    words = [re.search(":([^:@]+)@", made[f"{p}-broker.url"].read_text()) for p in PARTIES]
    assert len({word[1] for word in words if word}) == len(PARTIES)
    # Redis knows digests alone.
    assert not [word for word in words if word and word[1] in made["redis.conf"].read_text()]


def test_another_federation_joins_and_nobody_gets_other_secrets(
    federation: Path, tmp_path: Path
) -> None:
    first = write_compose(federation, tmp_path / "compose")
    keys = tmp_path / "compose" / "keys"
    before = {path.name: path.read_bytes() for path in keys.iterdir()}
    declared = yaml.safe_load(federation.read_text())
    # A name before all others, which takes no other party's user.
    parties = {"acme" if name == "bank" else name: p for name, p in declared["parties"].items()}
    parties["acme"]["queue"] = "acme"
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump({**declared, "name": "other", "parties": parties}))
    second = write_compose(other, tmp_path / "compose")
    assert second.federations == ("credit_scoring", "other")
    users = {member.name: member.user for member in second.members}
    assert {m.name: m.user for m in first.members} == {n: users[n] for n in PARTIES}
    assert users["acme"] not in {users[party] for party in PARTIES}
    after = {path.name: path.read_bytes() for path in keys.iterdir()}
    assert {n for n in before if before[n] != after[n]} == {"redis.conf"}
    assert set(after) - set(before) == {"acme-broker.url"}
    services = yaml.safe_load(second.file.read_text())["services"]
    assert {f"worker-{party}" for party in users} <= set(services)


def test_parties_that_share_a_queue_and_queues_that_are_no_names_are_refused(
    federation: Path, tmp_path: Path
) -> None:
    declared = yaml.safe_load(federation.read_text())
    file = tmp_path / "federation.yaml"
    for queue, words in (("shop", "bank shares the queue shop"), ('b" ~* &* +@all', "queue")):
        declared["parties"]["bank"]["queue"] = queue
        file.write_text(yaml.safe_dump(declared))
        with pytest.raises(ConfigError, match=words):
            write_compose(file, tmp_path / "compose")
        assert not (tmp_path / "compose").exists()


def sources(service: dict[str, Any]) -> set[str]:
    return {s if isinstance(s, str) else s["source"] for s in service.get("secrets", ())}


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ("queue: bank", "queue: shop.unacked", "queue shop.unacked is named like a key"),
        ("queue: bank", "queue: shop.unacked_index", "is named like a key"),
        ("queue: bank", "queue: celery-task-meta-1", "is named like a key"),
        ("bank", "coordinator", "coordinator's user"),
    ],
)
def test_no_name_gives_a_party_the_rights_of_another(
    before: str, after: str, word: str, federation: Path, tmp_path: Path
) -> None:
    changed = tmp_path / "federation.yaml"
    changed.write_text(federation.read_text().replace(before, after))
    with pytest.raises(ConfigError, match=word):
        write_compose(changed, tmp_path / "compose")
    assert not (tmp_path / "compose").exists()
