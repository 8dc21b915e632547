"""The first tutorial, run by its own commands: its output is what the document shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "tutorial.md"

#: Fingerprints, runs, dates and numbers; the first two are others at every site.
VARYING = re.compile(r"\d{5}( \d{5}){5}|\b[0-9a-f]{16}\b|\d{4}-\d\d-\d\dT[\d:+]+|-?\d[\d,]*\.?\d*")


def section(title: str) -> str:
    _, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(f"{title}\n")
    return rest.partition("\n## ")[0]


def shown(text: str) -> list[tuple[str, list[str]]]:
    """Commands of a section, each with the lines that the document shows of its output."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def words(line: str) -> str:
    return " ".join(line.split())


def is_in(line: str, output: list[str], exact: bool) -> bool:
    """Whether output has a line of the document, whose numbers may differ if it is not exact."""
    wanted = words(line).removesuffix(" ...")
    if exact:
        return any(wanted in printed for printed in output)
    numbers = [found[0] for found in VARYING.finditer(wanted)]
    texts = [re.escape(text) for text in VARYING.sub("\0", wanted).split("\0")]
    pattern = re.compile(f"({VARYING.pattern.replace('(', '(?:')})".join(texts))
    found = (match.groups() for printed in output if (match := pattern.search(printed)))
    return any(all(map(near, groups, numbers)) for groups in found)


def near(printed: str, wanted: str) -> bool:
    """Metrics and gains within 0.03, which is more than what other keys change."""
    if not re.fullmatch(r"-?0\.\d{4}", wanted):
        return True
    return abs(float(printed) - float(wanted)) < 0.03


@pytest.mark.deployment  # It downloads a public table, or finds it by OPBOOST_DATASETS.
def test_the_commands_print_what_the_tutorial_shows(tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", section("## 2. Make two tables"), re.DOTALL)
    (tmp_path / "tables.py").write_text(script)
    commands = [("python tables.py", [])]
    for title in ("3. Set up each party", "4. Declare public bounds", "5. Agree", "6. Train",
                  "7. Look at the results", "8. Score new people"):  # fmt: skip
        commands += shown(section(f"## {title}"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "300"}
    for command, lines in commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, input="y\ny\n",
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        # What is typed at a terminal ends a line; in a pipe it does not.
        output = (done.stdout + done.stderr).replace("[y/N]: ", "[y/N]: y\n")
        printed = [words(line) for line in output.splitlines()]
        assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
        for line in lines:
            # What a value is guessed by does not depend on keys.
            exact = command.startswith("opboost agree") and " agrees: " not in line
            assert line in ("", "...") or is_in(line, printed, exact), (command, line, printed)
