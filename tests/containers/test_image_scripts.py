"""What fills the image, and how its containers say whether they are well."""

import importlib.util
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

IMAGE = Path(__file__).parents[2] / "docker" / "image"
LOCK = Path(__file__).parents[2] / "requirements.lock"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"image_{name}", IMAGE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_some_of_the_lock_keeps_versions_and_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = module("build")
    monkeypatch.setattr(build, "LOCK", LOCK)
    monkeypatch.setattr(build, "WORK", tmp_path)
    text = build.some_of_lock({"polars", "numpy"}).read_text()
    packages = [line for line in text.splitlines() if not line.startswith(" ")]
    assert {name.partition("==")[0] for name in packages} == {"numpy", "polars"}
    assert text.count("--hash=sha256:") > 2
    assert text.splitlines()[0] in LOCK.read_text().splitlines()
    with pytest.raises(SystemExit, match=r"requirements\.lock lacks no-such-package: make lock"):
        build.some_of_lock({"polars", "no-such-package"})


@pytest.mark.parametrize(
    ("licenses", "told"),
    [
        ([{"license": {"id": "MIT"}}], "MIT"),
        ([{"expression": "MIT OR Apache-2.0"}], "MIT OR Apache-2.0"),
        ([{"license": {"name": "BSD"}}, {"license": {"id": "MIT"}}], "BSD; MIT"),
        ([], "not said"),
    ],
)
def test_licences_as_packages_say_them(licenses: list[dict[str, object]], told: str) -> None:
    assert module("build").licence({"licenses": licenses}) == told


class Airflow(BaseHTTPRequestHandler):
    database: ClassVar[str] = "healthy"

    def do_GET(self) -> None:
        self.send_response(503 if self.database == "gone" else 200)
        self.end_headers()
        if "monitor" in self.path:
            self.wfile.write(json.dumps({"metadatabase": {"status": self.database}}).encode())

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    made = HTTPServer(("127.0.0.1", 0), Airflow)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.mark.parametrize("component", ["api-server", "scheduler"])
@pytest.mark.parametrize("state", ["healthy", "unhealthy", "gone"])
def test_a_server_is_well_when_its_own_page_says_so(
    component: str, state: str, server: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    health = module("health")
    port = server.server_address[1]
    for name in ("_API", "_DATABASE", "_SCHEDULER"):
        path = getattr(health, name).partition(":80")[2][2:]
        monkeypatch.setattr(health, name, f"http://127.0.0.1:{port}/{path.lstrip('/0123456789')}")
    monkeypatch.setattr(Airflow, "database", state)
    monkeypatch.setattr(sys, "argv", [f"/usr/local/lib/healthy-{component}"])
    well = state == "healthy" or (component == "scheduler" and state == "unhealthy")
    assert health.main() == (0 if well else 1)


def test_a_worker_is_well_while_it_is_connected() -> None:
    health = module("health")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not health._is_connected(port)
        with socket.create_connection(("127.0.0.1", port)):
            assert health._is_connected(port)


def test_a_component_is_found_by_its_command_line() -> None:
    health, word = module("health"), "a-component-of-this-test"
    assert not health._runs(word)
    command = [sys.executable, "-c", "input(1)", word]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.read(1) == b"1"  # It is there, and not only begun.
        assert health._runs(word)
        process.communicate(b"\n")
    assert not health._runs(word)
