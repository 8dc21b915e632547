"""The project's own files keep their promises."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from opboost_ops.config.schemas import schemas

ROOT = Path(__file__).parent.parent


def tracked() -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in names.stdout.splitlines()]


def test_lock_has_hashes_and_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert "--find-links" not in lock
    pinned = re.findall(r"^[a-z0-9._-]+(?:\[.*\])?==\S+", lock, re.MULTILINE | re.IGNORECASE)
    assert len(pinned) > 100
    assert lock.count("--hash=sha256:") >= len(pinned)


@pytest.mark.parametrize(
    "target",
    ["setup", "demo", "test", "test-slow", "lint", "type", "fmt", "ui", "bench", "docs", "clean"],
)
def test_help_lists_every_target(target: str) -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(rf"^  {target} +\S", done.stdout, re.MULTILINE)


def test_no_path_of_a_machine_is_committed() -> None:
    pattern = re.compile(r"(?<![\w.])/(?:work|root|home/[a-z]+)/")
    found = [
        str(path.relative_to(ROOT))
        for path in tracked()
        if path != Path(__file__)
        and path.suffix in {".py", ".md", ".toml", ".yml", ".yaml", ".lock", ""}
        if path.is_file() and pattern.search(path.read_text(encoding="utf-8", errors="ignore"))
    ]
    assert found == []


def test_schemas_are_those_of_the_models() -> None:
    for name, text in schemas().items():
        assert (ROOT / "schemas" / name).read_text() == text, "run `opboost schemas`"


def test_expectation_templates_are_well_formed() -> None:
    templates = sorted((ROOT / "schemas" / "expectations").glob("*.json"))
    assert len(templates) >= 6
    for path in templates:
        data = json.loads(path.read_text())
        assert data["boundary"] == path.stem
        assert all(set(e) == {"for", "type", "kwargs"} for e in data["expectations"])


def test_links_in_documents_lead_somewhere() -> None:
    broken = []
    for page in tracked():
        if page.suffix != ".md":
            continue
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in link and not (page.parent / link).exists():
                broken.append(f"{page.name}: {link}")
    assert broken == []


def test_commands_in_documents_exist() -> None:
    help_ = subprocess.run(["opboost", "--help"], capture_output=True, text=True, check=True).stdout
    for page in tracked():
        if page.suffix == ".md":
            for name in re.findall(r"(?:^\$ |`)opboost ([a-z]+)", page.read_text(), re.MULTILINE):
                assert re.search(rf"\b{name}\b", help_), f"{page.name}: opboost {name}"


def test_wheel_ships_schemas(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "opboost_ops/schemas/federation.schema.json" in names
    assert "opboost_ops/schemas/expectations/raw_table.json" in names
