"""The image that the project's own files build: its size, and what it says is in it."""

import csv
import io
import json
import re

import pytest

from tests.containers.engine import Engine
from tests.containers.images import ROOT, Images

pytestmark = pytest.mark.deployment

#: Bytes over its base: with an official slim one, about 0.15 GB, all is under 1.2 GB.
MOST = 1_000_000_000

SHARE = "/usr/local/opboost/share"

#: What no package in it may ask of anyone who passes the image on, unless it leaves the choice.
STRONG = re.compile(r"\bA?GPL\b|(?<!Lesser )General Public License")
CHOICE = {"text-unidecode"}  # The Artistic License, or this.

INSTALLED = """
import importlib.metadata as m, json
print(json.dumps({d.metadata["Name"]: d.version for d in m.distributions()}))
"""


def inside(engine: Engine, images: Images, *command: str) -> str:
    program, *rest = command
    whole = ["run", "--rm", "--network", "none", "--entrypoint", program]
    return engine.ask(*whole, images.own, *rest)


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_it_is_small(engine: Engine, images: Images) -> None:
    form = ["image", "inspect", "--format", "{{.Size}}"]
    whole, base = (int(engine.ask(*form, name)) for name in (images.own, images.base))
    layers = engine.ask(
        "history", "--human=false", "--format", "{{.Size}} {{.CreatedBy}}", images.own
    )
    assert whole - base < MOST, layers


def test_its_lists_name_every_package_with_its_licence(engine: Engine, images: Images) -> None:
    python = ("/usr/local/opboost/bin/python", "-I", "-c", INSTALLED)
    installed = {plain(n): v for n, v in json.loads(inside(engine, images, *python)).items()}
    assert installed.pop("opboost-ops")
    bill = json.loads(inside(engine, images, "cat", f"{SHARE}/sbom.cdx.json"))
    assert bill["bomFormat"] == "CycloneDX"
    assert {plain(part["name"]): part["version"] for part in bill["components"]} == installed
    text = inside(engine, images, "cat", f"{SHARE}/licences.csv")
    lines = list(csv.DictReader(io.StringIO(text)))
    assert {plain(line["package"]): line["version"] for line in lines} == installed
    assert [line["package"] for line in lines if not line["licence"]] == []
    strong = {plain(line["package"]) for line in lines if STRONG.search(line["licence"])}
    assert strong == CHOICE
    # Nothing came but by the lock.
    lock = (ROOT / "requirements.lock").read_text()
    pairs = re.findall(r"^([\w.-]+)(?:\[.*?\])?==([^\s;]+)", lock, re.M)
    # Some packages have a version for each Python.
    locked = {(plain(name), version) for name, version in pairs}
    assert set(installed.items()) - locked == set()


def test_it_runs_as_nobody_who_may_change_it(engine: Engine, images: Images) -> None:
    assert inside(engine, images, "id", "-u") == "10001"
    find = "find /usr /etc /bin -writable -not -type l 2>/dev/null; true"
    assert inside(engine, images, "sh", "-c", find) == ""


def test_airflow_runs_as_a_user_without_an_account(engine: Engine, images: Images) -> None:
    # Podman makes one for a user that is a number; Docker does not.
    engine.ask(
        *("run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp"),
        *(["--passwd=false"] if engine.program == "podman" else []),
        *("--user", "10099:10099", "--env", "AIRFLOW_HOME=/tmp/airflow"),
        *(images.own, "db", "check"),
    )
