"""The page on the architecture is true, and what it tells newcomers to do works."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.manifest import MANIFEST
from opboost_ops.pipeline.runner import opening, runner
from tests.federation import Workspace

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "opboost_ops"


def test_the_questions_are_answered_by_what_is_there() -> None:
    answers = re.findall(r"^\| .+\? \| `(opboost_ops/[^`]+)`: `(\w+)` \|$", PAGE, re.MULTILINE)
    assert len(answers) == 14
    for file, name in answers:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^(?:def |class )?{name}\b", text, re.MULTILINE), f"{file}: {name}"


def test_every_file_that_it_names_exists() -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|md))`", PAGE))
    assert len(named) > 20
    absent = [n for n in named if not (ROOT / n).is_file() and not (PACKAGE / n).is_file()]
    assert absent == []


def test_every_package_is_on_it() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    packages |= {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    table = PAGE.partition("| package |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z_]+)`", table)) == packages
    picture = (ROOT / "docs" / "figures" / "architecture.svg").read_text(encoding="utf-8")
    assert all(f">{package}<" in picture for package in packages)


def test_no_import_by_name_goes_upward() -> None:
    """import-linter sees no import by a string: where there is one, our names point downward."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (layers,) = [
        contract["layers"]
        for contract in declared["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]
    rank = {name: -n for n, layer in enumerate(layers) for name in layer.split(" | ")}
    upward = []
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"\b(import_module|__import__)\b", text):
            continue
        own = path.relative_to(PACKAGE).with_suffix("").parts[0]
        named = re.findall(r"[\"']opboost_ops\.(\w+)", text)
        upward += [f"{path}: {name}" for name in named if rank[name] > rank[own]]
    assert upward == []


@dataclass
class Memory:
    """A toy store."""

    places: dict[str, dict[str, bytes]] = field(default_factory=dict)
    throwaway: bool = True
    known: str | None = None

    def put_once(self, reference: str, files: Mapping[str, bytes], *, durable: bool = True) -> bool:
        assert MANIFEST in files
        known = self.places.setdefault(reference, dict(files))
        if known != dict(files):
            raise ArtifactError("Other content was already published there.")
        return known is not files

    def keeps_first(self, federation: str) -> bool:
        return True

    def identity(self) -> str | None:
        return self.known

    def set_identity(self, identity: str) -> None:
        self.known = self.known or identity

    def get(self, reference: str, admit: object = None) -> dict[str, bytes] | None:
        return self.places.get(reference)

    def wait(self, reference: str, timeout: float, admit: object = None) -> dict[str, bytes]:
        if reference not in self.places:
            raise ArtifactError("Nothing was published there in time.")
        return self.places[reference]

    def runs(self, federation: str) -> list[str]:
        found = {place.split("/")[1] for place in self.places if place.startswith(federation)}
        return sorted(found)

    def list(self, prefix: str) -> list[str]:
        return sorted(place for place in self.places if place.startswith(prefix))


def test_a_toy_store_carries_a_whole_run(fresh: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Memory()
    for module in (opening, runner):
        monkeypatch.setattr(module, "open_store", lambda _: store)
    summaries = fresh.all()
    assert "register" in " ".join(summaries)
    assert any("split_values" in place for place in store.places)
    assert not any((fresh.folder / "exchange").glob("*/*"))


#: A whole run, in a process that imports the copied package.
_RUN = """
import json, sys
from pathlib import Path
from opboost_ops.config.loading import site_of
from opboost_ops.pipeline.party.inbox import Run, accept_plan
from opboost_ops.pipeline.phases import phases, stages_by_task
from opboost_ops.pipeline.runner.exact_disclosures import exact_disclosures_of_run
from opboost_ops.pipeline.party.local_party import LocalParty
from tests.federation import Workspace
from tests.party_state import entries_of

workspace = Workspace(Path(sys.argv[1]))
summaries = workspace.all()
declared = workspace.declared
tasks = stages_by_task(declared, "train")
holder = LocalParty("credit", *site_of("credit"), workspace.store)
acceptance, _ = accept_plan(holder, Run(declared.name, workspace.run, "credit"), "train")
for party in declared.feature_holders:
    place = f"{declared.name}/{workspace.run}/column_count/{party}"
    assert workspace.store.get(place, acceptance.admit("column_count", party)) is not None
print(json.dumps({
    "tasks": [task for task, stages in tasks.items() if "count_columns" in stages],
    "sent": [workspace.artifact("column_count", p).document for p in declared.feature_holders],
    "consent": [r for r in exact_disclosures_of_run(declared) if r[2] == sys.argv[2]],
    "ledgers": [
        [e.party, e.receiver, e.discloses]
        for party in declared.feature_holders
        for e in entries_of(workspace, party) if e.kind == "column_count"
    ],
    "summaries": [s for step, s in summaries.items() if step.endswith("count_columns")],
}))
"""


@pytest.mark.slow
def test_a_step_is_one_function_and_one_entry(fresh: Workspace, tmp_path: Path) -> None:
    """The documented blocks, put where the page says, make a step that runs in a federation."""
    copy = tmp_path / "copy"
    shutil.copytree(PACKAGE, copy / "opboost_ops")
    (copy / "schemas").symlink_to(ROOT / "schemas")
    blocks = dict(re.findall(r'```python title="([^"]+)"\n(.+?)```', PAGE, re.DOTALL))
    for file, table in (("pipeline/protocol.py", "_STEPS"), ("exchange/kinds.py", "_KINDS")):
        path = copy / "opboost_ops" / file
        before, heading, after = path.read_text().partition(f"{table} = (\n")
        entries, end, after = after.partition("\n)")
        entry = blocks.pop(f"opboost_ops/{file}").rstrip()
        path.write_text(f"{before}{heading}{entries}\n{entry},{end}{after}")
    ((file, function),) = blocks.items()
    (copy / file).write_text(function)
    environment = {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{ROOT}"}
    discloses = "nothing beyond the public federation file"
    command = [sys.executable, "-c", _RUN, str(fresh.folder), discloses]
    run = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    shown = json.loads(run.stdout)
    assert sorted(shown["tasks"]) == ["bank_release.count_columns", "shop_release.count_columns"]
    assert [each["columns"] for each in shown["summaries"]] == [10, 5]
    assert shown["sent"] == [{"count": 10}, {"count": 5}]
    entered = [[party, "credit", discloses] for party in ("bank", "shop")]
    assert sorted(shown["consent"]) == sorted(shown["ledgers"]) == entered
