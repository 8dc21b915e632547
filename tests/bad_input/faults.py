"""What every run that ends in an error must have in common."""

import json
import traceback
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from opboost_ops.errors import ContractError, OpBoostError
from opboost_ops.quality.validation import Finding, Report
from tests.federation import FIRST_RUN, Workspace

#: No party uses this number or text for anything but the fault that a test plants.
CANARY_NUMBER = 48151623.421875
CANARY_TEXT = "zq7canary48151623"

#: What a run has published when the label holder's first stages fail, and a feature holder's.
PLAN = frozenset({"plan/credit"})
ASKED = PLAN | {"psi_query/shop", "psi_query/bank"}
#: What leaves the bank.
SEALED_BY_BANK = frozenset({"psi_answer/bank", "shares/bank", "ranks/bank"})


def refused(
    workspace: Workspace,
    step: str,
    error_class: type[OpBoostError],
    *words: str,
    published: frozenset[str] = frozenset(),
    left: Callable[[Workspace], Any] | None = None,
) -> OpBoostError:
    """Run until it fails; insist on where, how, and on what is left behind.

    Args:
        workspace: With a fault in it.
        step: ``party.stage`` that must fail, or ``open_run``.
        error_class: Exactly which error.
        words: What the message must name.
        published: What alone the run may have published, as ``kind/party``.
        left: What no refusal may change.
    """
    left = left or untouched
    before = left(workspace)
    failed, error = workspace.first_failure()
    assert failed == step, str(error)
    assert type(error) is error_class, str(error)
    message_is_right(error, *words)
    assert set(workspace.published()) == set(published)
    assert left(workspace) == before
    return error


def opened(party: str) -> frozenset[str]:
    """What a run has published when the first stages of a party fail.

    Args:
        party: Whose.
    """
    return PLAN if party == "credit" else ASKED


class TableCheck:
    """A party about to check its table, each time with another fault in it.

    Args:
        workspace: Without a fault; its run is opened.
        party: Whose table it is.
        left: What no refusal may change.
    """

    def __init__(
        self,
        workspace: Workspace,
        party: str,
        left: Callable[[Workspace], Any] | None = None,
    ) -> None:
        self.workspace, self.party, self._left = workspace, party, left or untouched
        workspace.until("check_table", party)
        self.path = workspace.table_path(party)
        self._whole = self.path.read_bytes()

    def refuses(
        self, change: Callable[[pl.DataFrame], pl.DataFrame] | bytes | None, *words: str
    ) -> OpBoostError:
        """Plant a fault, insist on where it is refused, how, and on what is left; take it away.

        Args:
            change: Changes the table, or is what its file holds; nothing for no file.
            words: What the message must name.
        """
        before = self._left(self.workspace)
        if change is None:
            self.path.unlink()
        elif isinstance(change, bytes):
            self.path.write_bytes(change)
        else:
            self.workspace.edit_table(self.party, change)
        with pytest.raises(ContractError) as caught:
            self.workspace.step(self.party, "check_table")
        assert type(caught.value) is ContractError
        message_is_right(caught.value, *words)
        assert set(self.workspace.published()) == set(opened(self.party))
        assert self._left(self.workspace) == before
        self.path.write_bytes(self._whole)
        return caught.value

    def fails(self, change: Callable[[pl.DataFrame], pl.DataFrame], *columns: str) -> list[Any]:
        """The same of a fault that only the report names.

        Args:
            change: Changes the table.
            columns: All that have failed.
        """
        self.refuses(change, self.party, "raw_table")
        found = failing(self.workspace, self.party, "raw_table")
        assert {finding.column for finding in found} == set(columns)
        return found


def message_is_right(error: OpBoostError, *words: str) -> None:
    """It names what it must, says what to do, and shows no planted value."""
    message = str(error)
    for word in words:
        assert word in message, message
    faults = getattr(error, "faults", ())
    assert error.remedy or any(fault.suggestion or fault.problem for fault in faults), message
    told = message + "".join(traceback.format_exception(error))
    for canary in (CANARY_TEXT, "48151623"):
        assert canary not in told


def untouched(workspace: Workspace) -> dict[str, bytes]:
    """The first run's artifacts, and all registered models with the champion's name."""
    models = workspace.files("credit", "models")
    assert json.loads(models["credit_scoring/champion.json"]) == {"version": FIRST_RUN}
    artifacts = workspace.files("exchange", "credit_scoring", FIRST_RUN)
    assert "plan/credit/manifest.json" in artifacts
    return {**models, **artifacts}


def failing(workspace: Workspace, party: str, boundary: str) -> list[Finding]:
    """The findings of the party's own report of a failed check."""
    report = Report(json.loads((workspace.home(party) / f"quality/{boundary}.json").read_bytes()))
    assert report.passed is False
    page = (workspace.home(party) / f"quality/{boundary}.html").read_text()
    assert CANARY_TEXT not in page
    assert "48151623" not in page
    for finding in report.findings:
        assert finding.column in page
    return list(report.findings)
