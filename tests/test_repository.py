"""The project's own files keep their promises."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def output(*command: str | Path, given: str | None = None) -> str:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, input=given
    )
    return done.stdout


def tracked(*suffixes: str) -> Iterator[Path]:
    for name in output("git", "ls-files").splitlines():
        path = ROOT / name
        if path.is_file() and (not suffixes or path.suffix in suffixes):
            yield path


def pinned() -> list[Requirement]:
    """What the lock installs on this Python and this machine."""
    lock = (ROOT / "requirements.lock").read_text()
    lines = re.findall(r"^[a-z0-9][^\\\n]*", lock, re.MULTILINE | re.IGNORECASE)
    pins = [Requirement(line.strip()) for line in lines]
    return [pin for pin in pins if pin.marker is None or pin.marker.evaluate()]


def test_the_verifier_is_short_enough_to_read() -> None:
    files = (ROOT / "opboost_ops" / "verifier").glob("*.py")
    assert sum(len(path.read_text().splitlines()) for path in files) <= 2500


def test_lock_has_hashes_and_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    entries = re.split(r"\n(?=[a-z0-9])", lock, flags=re.IGNORECASE)
    assert len(entries) > 100
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in lock
    assert re.findall(r"--(?!hash=)\S+", lock) == []


def test_lock_satisfies_what_the_project_declares() -> None:
    versions = {pin.name: next(iter(pin.specifier)).version for pin in pinned()}
    project = PROJECT["project"]
    # It needs older packages than the others; tests/test_wheel.py installs it.
    extras = {n: of for n, of in project["optional-dependencies"].items() if n != "mlflow"}
    declared = chain(project["dependencies"], *extras.values())
    for requirement in map(Requirement, declared):
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue  # For another system.
        name = requirement.name.lower()
        assert requirement.specifier.contains(versions[name]), f"{requirement}: `make lock`"


@pytest.mark.parametrize(
    "module", ["mechanisms/noise.py", "pipeline/steps/desensitize.py", "pipeline/runner/runner.py"]
)
def test_linter_refuses_other_sources_of_noise(module: str) -> None:
    sources = ("import random", "from numpy import random", "import secrets",
               "from os import urandom")  # fmt: skip
    name = ("--stdin-filename", f"opboost_ops/{module}", "--output-format", "concise")
    found = output(BIN / "ruff", "check", "--no-cache", *name, "-", given="\n".join(sources))
    assert found.count("TID251") == len(sources)


def test_nothing_but_orchestration_and_command_line_may_know_airflow() -> None:
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    (contract,) = [c for c in contracts if c["name"].startswith("only the orchestration knows")]
    modules = {
        path.relative_to(ROOT / "opboost_ops").parts[0].removesuffix(".py")
        for path in tracked(".py")
        if path.is_relative_to(ROOT / "opboost_ops")
    }
    named = {module.removeprefix("opboost_ops.") for module in contract["source_modules"]}
    assert modules - named == {"__init__", "cli", "orchestration"}


def test_no_path_of_a_machine_is_committed() -> None:
    pattern = re.compile(rb"(?<![\w.])/(?:work|root|opt|home/[a-z]+|Users/[a-z]+)/")
    assert [str(path) for path in tracked() if pattern.search(path.read_bytes())] == []


def test_links_in_documents_lead_somewhere() -> None:
    broken = []
    for page in tracked(".md"):
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in link and not (page.parent / link).exists():
                broken.append(f"{page.name}: {link}")
    assert broken == []
