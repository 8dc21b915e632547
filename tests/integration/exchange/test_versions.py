"""Which releases work together, and who is told to upgrade."""

import pytest

from opboost_ops.exchange import manifest
from opboost_ops.exchange.manifest import too_far_apart
from opboost_ops.exchange.rejection import Rejected
from tests.federation import Workspace


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
        ("0.2.0", "0.4.0", -1),
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
