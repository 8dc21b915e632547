"""Fill /usr/local/opboost: the lock's packages of some extras, and lists of them.

Usage: build.py EXTRAS, parted by commas, beside pyproject.toml and the two locks. Every file is one
whose hash a lock knows: what a resolver says only chooses among the lock's names.
"""

import csv
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = Path("requirements.lock")
TOOLS, MADE = Path("/usr/local/tools"), Path("/usr/local/opboost")
WORK = Path(tempfile.gettempdir()) / "build"

#: A line of the lock, or of a resolver's answer, that begins a package.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def main() -> None:
    """Make the tools, then what they are for."""
    extras = [part for name in sys.argv[1].split(",") for part in ("--extra", name)]
    WORK.mkdir()
    run(sys.executable, "-m", "venv", TOOLS)
    pip = [TOOLS / "bin/python", "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    run(*pip, "--require-hashes", "--requirement", "tools.lock")

    run(sys.executable, "-m", "venv", "--without-pip", MADE)
    uv = [TOOLS / "bin/uv", "pip", "sync", "--quiet", "--no-cache", "--link-mode", "copy"]
    lock = some_of_lock(needed(extras))
    run(*uv, "--python", MADE / "bin/python", "--require-hashes", lock)
    # Packages' own tests are a tenth of all.
    for folder in sorted(MADE.rglob("tests")):
        shutil.rmtree(folder, ignore_errors=True)
    # Containers are read-only: what is not compiled now is compiled at every start.
    subprocess.run([MADE / "bin/python", "-m", "compileall", "-q", MADE / "lib"], check=False)
    lists()


def needed(extras: list[str]) -> set[str]:
    """Names of the packages that these extras need, where versions are the lock's."""
    found = WORK / "needed.txt"
    uv = [TOOLS / "bin/uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    run(*uv, "--constraint", LOCK, "--output-file", found, "pyproject.toml", *extras)
    return {match[0] for line in found.read_text().splitlines() if (match := NAME.match(line))}


def some_of_lock(names: set[str]) -> Path:
    """The lock's lines of some packages, with their hashes.

    Raises:
        SystemExit: It lacks one of them.
    """
    kept: list[str] = []
    found: set[str] = set()
    keep = False
    for line in LOCK.read_text().splitlines(keepends=True):
        if match := NAME.match(line):
            keep = match[0] in names
            found |= {match[0]} if keep else set()
        kept += [line] if keep else []
    if lacking := names - found:
        sys.exit(f"requirements.lock lacks {', '.join(sorted(lacking))}: make lock.")
    path = WORK / "some.lock"
    path.write_text("".join(kept))
    return path


def lists() -> None:
    """What is in it: a bill of materials as CycloneDX, and a line a package with its licence."""
    bill = MADE / "share/sbom.cdx.json"
    bill.parent.mkdir(exist_ok=True)
    tool = [TOOLS / "bin/cyclonedx-py", "environment", "--output-reproducible"]
    run(*tool, "--output-format", "JSON", "--output-file", bill, MADE / "bin/python")
    parts = json.loads(bill.read_text())["components"]
    with (bill.parent / "licences.csv").open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("package", "version", "licence"))
        for part in sorted(parts, key=lambda part: str(part["name"]).lower()):
            lines.writerow((part["name"], part["version"], licence(part)))


def licence(part: dict[str, list[dict[str, object]]]) -> str:
    """What a package says its licence is."""
    found = []
    for entry in part.get("licenses", ()):
        held = entry.get("license")
        said = held if isinstance(held, dict) else entry
        found.append(str(said.get("id") or said.get("expression") or said.get("name")))
    return "; ".join(dict.fromkeys(found)) or "not said"


def run(*command: str | Path) -> None:
    """Run a command, or end with its status."""
    done = subprocess.run([str(part) for part in command], check=False)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
