"""Compose files, keys and maps, without starting anything."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from opboost_ops.datasets import load
from opboost_ops.datasets.workspace import dump, write_workspace
from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.sites.keys import write_sites
from opboost_ops.orchestration.sites.maps import write_maps
from tests.commands import printed
from tests.programs import program
from tests.sites import compose
from tests.sites.conftest import PARTIES

ROOT = Path(__file__).parents[2]
FILES = {name: compose.FOLDER / f"compose.{name}.yaml" for name in ("coordinator", "site")}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_compose_files_are_read_by_docker_compose(name: str) -> None:
    values = {"COORDINATOR": "proxy", "QUEUE": "bank", "WORKER": "bank", "PARTY": "BANK"}
    command = [program("docker-compose"), "-f", FILES[name], "config"]
    done = subprocess.run(command, capture_output=True, text=True, env={**compose.bare(), **values})
    assert done.returncode == 0, done.stderr
    read = yaml.safe_load(done.stdout)["services"]
    assert set(read) == set(compose.services(name))
    if name == "site":
        # What its reader is told it must set, it must.
        done = subprocess.run(command, capture_output=True, text=True, env=compose.bare())
        assert done.returncode != 0


def test_a_site_listens_to_nobody_and_its_worker_cannot_be_the_party() -> None:
    services = compose.services("site")
    assert set(services) == {"tunnel", "worker"}
    assert [name for name, declared in services.items() if "ports" in declared] == []
    worker = services["worker"]
    assert worker["network_mode"] == "service:tunnel"
    assert "--queues" in worker["command"]
    assert worker["secrets"] == ["edge.secret"]
    environment = compose.environment(worker)
    assert environment["AIRFLOW__EDGE__PUSH_LOGS"] == "False"
    assert not [name for name in environment if "SQL" in name or "PRIVATE_KEY" in name]
    assert "token.key" not in FILES["site"].read_text()
    config = (compose.FOLDER / "site" / "haproxy.cfg").read_text()
    assert len(re.findall(r"^\s+bind ", config, re.MULTILINE)) == 1
    assert compose.environment(services["tunnel"])["TUNNEL_ADDRESS"].startswith("127.0.0.1:")


def test_only_the_proxy_of_the_coordinator_faces_sites() -> None:
    services = compose.services("coordinator")
    facing = {name: declared.get("ports", []) for name, declared in services.items()}
    assert {name: ports for name, ports in facing.items() if ports} == {
        "api-server": ["127.0.0.1:8080:8080"],
        "proxy": ["8443:8443"],
    }
    assert [name for name, s in services.items() if "sites" in s["networks"]] == ["proxy"]
    holders = [name for name, s in services.items() if "token.key" in s["secrets"]]
    assert holders == ["api-server", "scheduler"]


def test_documented_settings_are_those_of_the_files() -> None:
    page = (ROOT / "docs" / "sites.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    texts = "".join(path.read_text() for path in FILES.values())
    lines = [line for block in blocks for line in block.splitlines() if "AIRFLOW__" in line]
    assert len(lines) == 5
    assert [line for line in lines if line not in texts.splitlines()] == []


def test_keys_are_private_and_name_their_party(tmp_path: Path) -> None:
    out = tmp_path / "keys"
    printed("sites", "keys", "--out", out, "--host", "proxy.example", "bank", "shop")
    ca = x509.load_pem_x509_certificate((out / "authority" / "ca.pem").read_bytes())
    for folder, file in (
        ("bank", "client.pem"),
        ("shop", "client.pem"),
        ("coordinator", "server.pem"),
    ):
        certificate = x509.load_pem_x509_certificate((out / folder / file).read_bytes())
        certificate.verify_directly_issued_by(ca)
        name = "proxy.example" if folder == "coordinator" else folder
        assert certificate.subject.rfc4514_string() == f"CN={name}"
    public = {
        path.name for path in out.rglob("*") if path.is_file() and path.stat().st_mode & 0o077
    }
    assert public == {"ca.pem"}
    secrets = {
        (out / folder / "edge.secret").read_text() for folder in ("bank", "shop", "coordinator")
    }
    assert len(secrets) == 1
    assert not (out / "bank" / "token.key").exists()

    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    write_sites(out, ["credit"])
    assert {path: path.read_bytes() for path in before} == before
    for wrong, words in (("bank", "certificate"), ("coordinator", "cannot"), ("../x", "cannot")):
        with pytest.raises(ConfigError, match=words):
            write_sites(out, [wrong])
    with pytest.raises(ConfigError, match="--host"):
        write_sites(tmp_path / "fresh", ["bank"])


def test_maps_know_every_task_and_refuse_shared_queues(tmp_path: Path) -> None:
    file = write_workspace(load("credit", rows=60), tmp_path / "credit")
    data: dict[str, Any] = yaml.safe_load(file.read_text())
    with pytest.raises(ConfigError, match="share the queue default"):
        write_maps(tmp_path, tmp_path / "maps")
    for party, spec in data["parties"].items():
        spec["queue"] = f"queue.{party}"
    data["schedule"] = {"on_tables": "0 3 * * *"}
    dump(file, data)
    assert write_maps(tmp_path, tmp_path / "maps") == {f"queue.{p}": p for p in PARTIES}
    assert (tmp_path / "maps" / "parties.lst").read_text() == "bank\ncredit\nshop\n"
    lines = (tmp_path / "maps" / "tasks.map").read_text().splitlines()
    tasks = dict(line.split(" ") for line in lines)
    assert tasks["credit_scoring_train/credit_open.open_run"] == "credit"
    assert tasks["credit_scoring_score/bank_release.desensitize"] == "bank"
    assert tasks["credit_scoring_tables/shop_table"] == "shop"
    assert all(key.partition("/")[2].startswith(f"{party}_") for key, party in tasks.items())
    dump(file, {**data, "parties": {"bank": {**data["parties"]["bank"], "queue": "a queue"}}})
    with pytest.raises(ConfigError):
        write_maps(tmp_path, tmp_path / "maps")
