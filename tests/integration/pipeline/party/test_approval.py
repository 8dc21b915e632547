"""A release that needs a person is neither drawn nor charged before one has approved it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from opboost_ops.config.loading import load_policy
from opboost_ops.errors import ApprovalError, PolicyError
from opboost_ops.exchange.manifest import parse_manifest
from opboost_ops.extras.datasets.generated import NAME, write_lenders
from opboost_ops.pipeline.party import approval
from opboost_ops.pipeline.party.approval import answer, reasons_for, waiting
from tests.commands import opboost
from tests.federation import Workspace
from tests.party_state import entries_of, state_of


def approving(workspace: Workspace, rule: str) -> None:
    workspace.edit_yaml("bank/policy.yaml", lambda policy: policy.update(approve=rule))


def approve(workspace: Workspace, *words: str) -> tuple[int, str]:
    command = ["approve", str(workspace.folder / "bank"), workspace.run, *words]
    if words:
        plan = workspace.store.get(f"credit_scoring/{workspace.run}/plan/credit")
        assert plan is not None
        command += ["--plan", parse_manifest(plan["manifest.json"], "plan").digest[:16]]
    code, out, err = opboost(*command)
    return code, out + err


def events(workspace: Workspace) -> list[tuple[str, str]]:
    found = [r for r in entries_of(workspace, "bank") if r.run == workspace.run]
    return [(release.account, release.kind) for release in found]


def test_the_first_release_waits_for_a_person_and_then_goes(fresh: Workspace) -> None:
    approving(fresh, "first")
    fresh.until("check_table", "bank")
    published = fresh.published()
    for new in (True, False):
        with pytest.raises(ApprovalError, match="opboost approve SITE") as caught:
            fresh.step("bank", "check_table")
        assert caught.value.new is new
    assert fresh.published() == published
    assert ("exact", "approval_asked") in events(fresh)
    assert "local_dp" not in dict(events(fresh)), "nothing is drawn or charged while it waits"
    code, told = approve(fresh)
    assert code == 0
    assert "it is the first release of credit_scoring to credit" in told
    assert approve(fresh, "--yes")[0] != 0, "an answer needs a reason"
    assert approve(fresh, "--yes", "--because", "looked at the attacks")[0] == 0
    assert approve(fresh, "--no", "--because", "no")[0] != 0, "an answer stays"
    fresh.step("bank", "check_table")
    for stage in ("check_drift", "digest_ids", "preprocess", "desensitize"):
        fresh.step("bank", stage)
    found = events(fresh)
    assert ("exact", "approval_approved") in found
    assert "local_dp" in dict(found)


def test_a_release_that_is_declined_stops_the_run(fresh: Workspace) -> None:
    approving(fresh, "first")
    fresh.until("check_table", "bank")
    with pytest.raises(ApprovalError):
        fresh.step("bank", "check_table")
    assert approve(fresh, "--no", "--because", "too early for us")[0] == 0
    with pytest.raises(PolicyError, match="was declined at bank") as caught:
        fresh.step("bank", "check_table")
    assert not isinstance(caught.value, ApprovalError)
    assert "too early" not in str(caught.value), "a reason stays at home"
    assert ("exact", "approval_declined") in events(fresh)
    assert "local_dp" not in dict(events(fresh))


def test_without_an_answer_in_time_it_is_declined(
    fresh: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    approving(fresh, "first")
    monkeypatch.setattr(approval, "HOURS", 1e-9)
    fresh.until("check_table", "bank")
    with pytest.raises(ApprovalError):
        fresh.step("bank", "check_table")
    with pytest.raises(PolicyError, match="was declined"):
        fresh.step("bank", "check_table")
    assert approve(fresh, "--yes", "--because", "late")[0] != 0


def test_an_approval_is_of_one_plan(fresh: Workspace) -> None:
    approving(fresh, "first")
    fresh.until("check_table", "bank")
    with state_of(fresh, "bank") as state:
        place = f"credit_scoring/{fresh.run}/approval"
        state.audit.add("approved", place, "bank", "0" * 64, "of another plan")
    with pytest.raises(ApprovalError):
        fresh.step("bank", "check_table")


@pytest.mark.parametrize(("rule", "asks"), [("never", False), ("first", False), ("every", True)])
def test_what_needs_a_person_is_decided_by_public_facts(
    workspace: Workspace, rule: str, asks: bool
) -> None:
    approving(workspace, rule)
    releases = entries_of(workspace, "bank")

    def asked(stage: str) -> bool:
        policy = workspace.policy("bank")
        known = (policy, workspace.declared, workspace.run, releases)
        return bool(reasons_for(*known, [stage], opens))

    opens = ("income",)
    assert asked("desensitize") is asks
    opens = ()
    assert not asked("desensitize"), "a run that opens no release asks nobody"
    assert not asked("check_table"), "only what releases something is asked about"
    # Pinned integers cost nothing in a further run; those of the day cost an entry in each.
    releases.append(releases[-1].model_copy(update={"kind": "routes", "run": "0" * 16}))
    for routed_rule in ("once", "every_run"):
        workspace.allow("bank", routed=routed_rule)
        assert asked("answer_routes") is (asks and routed_rule == "every_run")


def routed(tmp_path: Path, patch: pytest.MonkeyPatch) -> Workspace:
    workspace = Workspace.write(tmp_path / "routed", scoring={"mode": "routed"})
    workspace.known_to(patch)
    return workspace


@pytest.mark.slow
def test_one_answer_is_for_draws_and_for_routed_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = routed(tmp_path, monkeypatch)
    approving(workspace, "first")
    workspace.until("check_table", "bank")
    with pytest.raises(ApprovalError):
        workspace.step("bank", "check_table")
    _, told = approve(workspace)
    assert "the first release of credit_scoring to credit" in told
    assert "the first routed answer of credit_scoring to credit" in told
    assert approve(workspace, "--yes", "--because", "looked at both")[0] == 0
    workspace.all()
    scoring = workspace.scoring()
    approving(scoring, "every")
    scoring.allow("bank", routed="every_run")
    scoring.until("check_table", "bank")
    published = scoring.published()
    with pytest.raises(ApprovalError):
        scoring.step("bank", "check_table")
    assert scoring.published() == published
    assert "another routed answer of credit_scoring to credit" in approve(scoring)[1]
    assert approve(scoring, "--no", "--because", "not these people")[0] == 0
    with pytest.raises(PolicyError, match="was declined at bank"):
        scoring.step("bank", "check_table")
    approving(scoring, "first")
    scoring.step("bank", "check_table")


@pytest.mark.slow
def test_scoring_from_the_command_line_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = routed(tmp_path, monkeypatch)
    workspace.all()
    approving(workspace, "every")
    workspace.allow("bank", routed="every_run")
    command = [Path(sys.executable).with_name("opboost"), "score", workspace.folder]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as scoring:
        assert scoring.stdout is not None
        lines = iter(scoring.stdout)
        named = (re.search(r"opboost approve SITE ([0-9a-f]+)", line) for line in lines)
        run = next(match[1] for match in named if match)
        assert approve(workspace.scoring(run), "--no", "--because", "not these people")[0] == 0
        assert "was declined at bank" in "".join(lines)
    assert scoring.returncode == 1


def test_horizontal_training_asks_before_anybody_waits_in_the_rounds(tmp_path: Path) -> None:
    file = write_lenders(tmp_path, rows=300, seed=0, training={"trees": 1, "depth": 1})
    lenders = Workspace(file.parent)
    federation = lenders.declared
    other = list(federation.parties)[1]
    lenders.declare(f"{other}/policy.yaml", approve="first")
    lenders.open()
    lenders.step(federation.label_holder, "check_table")
    with pytest.raises(ApprovalError):
        lenders.step(other, "check_table")
    site = lenders.site(other)
    ((asked, _),) = waiting(site, lenders.run)
    assert asked.detail.startswith(f"it is the first training of {NAME} together with others. ")
    answer(site, lenders.run, asked.artifact, True, "ann", "looked at it")
    lenders.step(other, "check_table")
    releases = entries_of(lenders, other)
    stages = ["check_table", "check_drift", "boost"]
    known = (load_policy(tmp_path / other / "policy.yaml"), federation)
    assert reasons_for(*known, "1" * 16, releases, stages, ())
    sums = releases[-1].model_copy(update={"kind": "boost_number"})
    assert not reasons_for(*known, "1" * 16, [*releases, sums], stages, ())
    assert not reasons_for(*known, "1" * 16, releases, ["check_drift", "score"], ())
