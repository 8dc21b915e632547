"""Workflows and the making of a release: what of them can be held without a forge."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: What is no code.
SHIPPED = (
    "schemas/federation.schema.json", "schemas/expectations/raw_table.json", "dags/federations.py",
    "reports/display/static/style.css", "reports/display/templates/page.html",
)  # fmt: skip
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("vendor.dependabot", [ROOT / ".github" / "dependabot.yml"]),
        ("vendor.github-issue-forms", [ROOT / ".github" / "ISSUE_TEMPLATE" / "fault.yml"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_forge_reads_is_of_its_schema(schema: str, files: list[Path]) -> None:
    assert files
    linter = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    done = subprocess.run([*linter, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_wheel_has_all_files_and_no_link_of_its_page_leads_nowhere(
    tmp_path: Path,
) -> None:
    """28 of them would have been broken on a package index."""
    for base in ("", "https://example.org/opboost-ops/blob/v1"):
        folder = tmp_path / (base and "with")
        done = subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", folder],
            env={**os.environ, "OPBOOST_PROJECT_URL": base},
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
            (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
            metadata = wheel.read(name).decode()
            shipped = {n for n in wheel.namelist() if not n.startswith(name.partition("/")[0])}
        assert {n.partition("/")[0] for n in shipped} == {"opboost_ops"}
        assert {f"opboost_ops/{file}" for file in SHIPPED} <= shipped
        links = re.findall(r"\]\(([^)]+)\)", metadata)
        assert all(link.startswith(("https://", "#")) for link in links)
        within = [link.removeprefix(f"{base}/") for link in links if base and base in link]
        assert len(within) > 20 if base else "[Airflow]" not in metadata
        assert all((ROOT / link.partition("#")[0]).exists() for link in within)
        assert ("Project-URL: Changelog" in metadata) == bool(base)


def _copy(folder: Path) -> Path:
    shutil.copytree(ROOT / ".ci", folder / ".ci")
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder)
    _git(folder, "init", "--quiet")
    _commit(folder)
    return folder


def _git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


def _commit(folder: Path) -> None:
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", "as it is")


def _refusal(folder: Path) -> str:
    done = subprocess.run([folder / ".ci" / "release"], capture_output=True, text=True)
    assert done.returncode == 1
    assert not (folder / "dist").exists()
    return done.stderr


def test_a_release_that_would_be_wrong_is_refused(tmp_path: Path) -> None:
    folder = _copy(tmp_path / "project")
    project, notes = folder / "pyproject.toml", folder / "CHANGELOG.md"
    project.write_text(re.sub(r'(?m)^version = ".*"', 'version = "9.9.9"', project.read_text()))
    assert "not committed" in _refusal(folder)
    _commit(folder)
    assert "nothing under '## [9.9.9]" in _refusal(folder)
    notes.write_text(notes.read_text() + "\n## [9.9.9] - 2026-01-01\n\n- Something.\n")
    _commit(folder)
    _git(folder, "tag", "v9.9.9")
    assert "the tag v9.9.9 is there already" in _refusal(folder)


@pytest.mark.slow
def test_a_release_is_made_whole_and_leaves_no_tag(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    tags = subprocess.check_output(["git", "-C", clone, "tag", "--list"])
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OPBOOST", "PYTHON"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    # The tools are this environment's, so none is made there.
    done = subprocess.run(
        ["make", "--assume-old=setup", "release", "TAG="],
        cwd=clone,
        env={**environment, "PATH": path, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2, done.stdout
    version = re.findall(r'(?m)^version = "(.*)"', (clone / "pyproject.toml").read_text())[0]
    names = {f"opboost_ops-{version}-py3-none-any.whl", f"opboost_ops-{version}.tar.gz"}
    assert {path.name for path in (clone / "dist").iterdir()} == {*names, "notes.md"}
    notes = (clone / "dist" / "notes.md").read_text().strip()
    assert notes and notes in (clone / "CHANGELOG.md").read_text()
    assert subprocess.check_output(["git", "-C", clone, "tag", "--list"]) == tags
