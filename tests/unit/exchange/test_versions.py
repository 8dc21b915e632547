"""Which releases work together, and who is told to upgrade."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opboost_ops.config.loading import parse_federation
from opboost_ops.exchange import manifest
from opboost_ops.exchange.plan import Plan, parse_plan
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.versions import too_far_apart
from tests.federation import Workspace
from tests.unit.config.test_horizontal_file import good as horizontal

ROOT = Path(__file__).resolve().parents[3]

#: That of the last release.
RELEASE_0_3_0 = "57e24b3"


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ("0.3.0", "0.3.9", 0),
        ("0.3.0", "0.4.0", 0),
        ("0.4.4", "0.3.0", 0),
        ("0.3.0", "0.5.0", -1),
        ("0.5.0rc1", "0.3.0.dev3+local", 1),
        ("0.10.0", "0.9.0", 0),
        ("0.3.0", "0.10.0", -1),
        ("1.0.0", "0.9.0", 1),
        # Told apart by their protocol, or by nothing.
        ("0.2.0", "0.4.0", 0),
        ("0.4.0", "?", 0),
    ],
)
def test_one_minor_version_apart_works_together(mine: str, theirs: str, expected: int) -> None:
    assert too_far_apart(mine, theirs) == expected
    assert too_far_apart(theirs, mine) == -expected


@pytest.mark.parametrize(
    ("mine", "behind"), [("0.6.0", "credit has to upgrade"), ("0.3.0", "this party has to upgrade")]
)
def test_the_side_that_must_upgrade_is_named_before_anything_is_published(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, mine: str, behind: str
) -> None:
    from opboost_ops.exchange import artifact

    monkeypatch.setattr(artifact, "__version__", "0.4.0" if mine == "0.6.0" else "0.5.0")
    monkeypatch.setattr(manifest, "__version__", artifact.__version__)
    workspace.open()
    monkeypatch.setattr(manifest, "__version__", mine)
    with pytest.raises(Rejected, match=f"one minor version apart: {behind}") as told:
        workspace.step("bank", "check_table")
    assert told.value.reason == "unsupported_version"
    assert workspace.published() == ["plan/credit"]


def test_neighbours_hold_a_run(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    from opboost_ops.exchange import artifact

    monkeypatch.setattr(artifact, "__version__", "0.3.0")
    workspace.open()
    monkeypatch.setattr(artifact, "__version__", "0.4.0")
    monkeypatch.setattr(manifest, "__version__", "0.4.0")
    workspace.step("bank", "check_table")
    workspace.step("bank", "digest_ids")
    assert "shares/bank" in workspace.published()


def unpack_release(commit: str, folder: Path) -> None:
    """The files of a release, by its commit."""
    folder.mkdir()
    done = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", folder], input=done.stdout, check=True)


@pytest.mark.slow
def test_the_last_release_reads_plans_of_this_software_and_writes_plans_that_it_reads(
    tmp_path: Path, workspace: Workspace
) -> None:
    unpack_release(RELEASE_0_3_0, tmp_path / "source")
    private = {
        "trainer": "federboost",
        "active": "bank_0",
        "private": {"epsilon": 4, "delta": 1e-6},
    }
    tuned = workspace.declared.training.model_dump() | {"tuning": 2, "early_stopping": 5}
    declared = [
        workspace.declared.model_dump(),
        {**workspace.declared.model_dump(), "training": tuned},
        horizontal(),
        {**horizontal(), "training": private},
    ]
    plans = [
        Plan(federation, "train", None, "0" * 64, 3, epoch="2026-11" if i < 2 else None)
        for i, federation in enumerate(parse_federation(one, "file") for one in declared)
    ]
    code = (
        "import json, sys, opboost_ops; from opboost_ops.exchange.plan import parse_plan\n"
        "assert opboost_ops.__version__ == '0.3.0' and 'source' in opboost_ops.__file__\n"
        "read = [parse_plan(plan, 'plan').document() for plan in json.load(sys.stdin)]\n"
        "print(json.dumps(read))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps([plan.document() for plan in plans]),
        env={**os.environ, "PYTHONPATH": str(tmp_path / "source")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert [parse_plan(plan, "plan") for plan in json.loads(done.stdout)] == plans
