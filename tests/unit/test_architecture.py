"""The page on the architecture is true, and what it tells newcomers to do works."""

import re
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


def test_the_ten_questions_are_answered_by_what_is_there() -> None:
    answers = re.findall(r"^\| .+\? \| `(opboost_ops/[^`]+)`: `(\w+)` \|$", PAGE, re.MULTILINE)
    assert len(answers) == 10
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
