"""A state that was put back is noticed before anything is released, and charged in full, once."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from opboost_ops.errors import ConfigError, OpBoostError, PolicyError
from opboost_ops.exchange.manifest import MANIFEST, SIGNATURE, parse_manifest
from opboost_ops.exchange.party_state import reuse_open_state
from opboost_ops.exchange.signing import Signer
from opboost_ops.privacy.ledger.checkpoints import Checkpoint
from tests.commands import opboost, printed
from tests.federation import SECOND_RUN, Step, Workspace
from tests.party_state import state_of

PARTY = "bank"

PUT_BACK = {
    "database": ("bank/ledger.sqlite",),
    "pins": ("bank/pins",),
    "database and pins": ("bank/ledger.sqlite", "bank/pins"),
    "whole folder": ("bank",),
    "whole folder and store": ("bank", "exchange"),
}


def put_back(now: Workspace, before: Path, names: tuple[str, ...]) -> None:
    for name in names:
        old, new = before / name, now.folder / name
        if old.is_file():
            shutil.copy(old, new)
        else:
            shutil.rmtree(new)
            shutil.copytree(old, new)


def charged(workspace: Workspace) -> dict[str, float]:
    with state_of(workspace, PARTY) as state:
        return {column: float(loss) for column, loss in state.releases.spent().items()}


def receivers(workspace: Workspace) -> Counter[str]:
    """Number of releases charged towards each receiver."""
    with state_of(workspace, PARTY) as state:
        return Counter(release.receiver for release in state.releases.all())


@pytest.fixture
def two_nights(
    trained_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    """A federation after two runs, the second of which opened a release of its own.

    The state after the first lies beside.
    """
    shutil.copytree(trained_once.folder, tmp_path / "before")
    now = trained_once.copy(tmp_path / "now", SECOND_RUN, monkeypatch)
    printed("ledger", "renew", now.folder / PARTY, "income", "--yes")
    now.all()
    return now


def test_a_state_that_is_put_back_within_a_stage_is_the_one_that_it_goes_on_with(
    workspace: Workspace, tmp_path: Path
) -> None:
    folder = workspace.folder / PARTY
    shutil.copy(folder / "ledger.sqlite", tmp_path / "backup")
    with reuse_open_state():
        with state_of(workspace, PARTY) as state:
            before, _ = state.audit.head()
            state.agreements.withdraw(frozenset({1}), "2026-01-01T00:00:00+00:00")
            state.audit.add("noted", "credit_scoring/store", PARTY)
            assert state.agreements.read().agreements[0].withdrawn is not None
        (tmp_path / "backup").replace(folder / "ledger.sqlite")
        with state_of(workspace, PARTY) as state:
            assert state.audit.head()[0] == before
            assert state.agreements.read().agreements[0].withdrawn is None


def missing(now: Workspace) -> list[str]:
    """What `opboost ledger check` finds missing."""
    code, out, _ = opboost("ledger", "check", now.folder / PARTY, "--json")
    gaps = json.loads(out)["gaps"]
    assert code == bool(gaps)
    return [gap["missing"] for gap in gaps if gap["lacks"] != "open"]


def recover(now: Workspace) -> str:
    """What `opboost ledger recover` prints, after less than 5 s of the processor."""
    begin = time.process_time()
    said = printed("ledger", "recover", now.folder / PARTY, "--yes")
    assert time.process_time() - begin < 5
    return said


def drill(now: Workspace, put: Callable[[], object]) -> None:
    """What is put back is noticed before anything leaves, charged in full, and only once."""
    before = charged(now)
    put()
    later = Workspace(now.folder, "0" * 15 + "3")
    later.open()
    with pytest.raises(PolicyError, match=f"{PARTY} refused run"):
        later.step(PARTY, "check_table")
    assert not [place for place in later.published() if place.endswith(f"/{PARTY}")]
    assert missing(now)
    assert "missing releases charged: " in recover(now)
    after = charged(now)
    assert all(after[name] >= before[name] for name in before)
    assert missing(now) == []
    assert "has lost nothing" in recover(now)
    assert charged(now) == after
    again = Workspace(now.folder, "0" * 15 + "4")
    again.open()
    again.step(PARTY, "check_table")


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=[] if what == "whole folder and store" else pytest.mark.slow)
        for what in PUT_BACK
    ],
)
def test_a_rollback_is_noticed_before_anything_is_released(
    two_nights: Workspace, tmp_path: Path, what: str
) -> None:
    drill(two_nights, lambda: put_back(two_nights, tmp_path / "before", PUT_BACK[what]))


def test_a_run_under_way_publishes_nothing_from_a_state_that_is_put_back(
    two_nights: Workspace, tmp_path: Path
) -> None:
    later = Workspace(two_nights.folder, "0" * 15 + "3")
    later.until("digest_ids", PARTY)
    put_back(two_nights, tmp_path / "before", PUT_BACK["database and pins"])
    steps = list(later.steps())
    with pytest.raises(OpBoostError, match="rolled back"):
        for step in steps[steps.index(Step(PARTY, "digest_ids")) :]:
            later.step(step.party, step.stage)
    assert not {f"{kind}/{PARTY}" for kind in ("ranks", "shares", "psi_answer")} & {
        *later.published()
    }


def test_people_whom_a_run_beside_it_has_sent_are_not_drawn_a_second_time(
    workspace: Workspace, tmp_path: Path
) -> None:
    """The state that is put back knows the run under way, and not the other one."""
    for party in workspace.declared.parties:
        workspace.let_join(party)
    under_way = Workspace(workspace.folder, "0" * 15 + "3")
    under_way.until("desensitize", PARTY)
    shutil.copytree(workspace.folder, tmp_path / "before")
    workspace.all()
    put_back(workspace, tmp_path / "before", PUT_BACK["database and pins"])
    with pytest.raises(OpBoostError, match="rolled back"):
        for stage in ("desensitize", "rank", "check_release", "seal"):
            under_way.step(PARTY, stage)
    assert f"ranks/{PARTY}" not in under_way.published()


@pytest.mark.slow
def test_a_rollback_to_the_middle_of_the_last_run_is_noticed(
    trained_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint is known, and its ranks are charged; the thresholds it answered are not."""
    now = trained_once.copy(tmp_path / "now", SECOND_RUN, monkeypatch)
    printed("ledger", "renew", now.folder / PARTY, "income", "--yes")
    now.until("answer_splits", PARTY)
    ledger = now.folder / PARTY / "ledger.sqlite"
    shutil.copy(ledger, tmp_path / "middle.sqlite")
    now.all()
    drill(now, lambda: shutil.copy(tmp_path / "middle.sqlite", ledger))


@pytest.mark.slow
def test_a_lost_database_is_begun_anew_only_by_recovery(two_nights: Workspace) -> None:
    folder = two_nights.folder / PARTY
    (folder / "ledger.sqlite").unlink()
    later = Workspace(two_nights.folder, "0" * 15 + "3")
    later.open()
    with pytest.raises(ConfigError, match="is missing or empty"):
        later.step(PARTY, "check_table")
    assert not (folder / "ledger.sqlite").exists()
    (lost,) = missing(two_nights)
    assert lost.startswith("all of it")


class Beside(Workspace):
    """Another federation of the same parties, on the same tables."""

    @property
    def file(self) -> Path:
        return self.folder / "beside.yaml"

    def found(self) -> None:
        """Declare it as the first one is, and let all parties agree."""
        declared = (self.folder / "federation.yaml").read_text()
        self.file.write_text(declared.replace("name: credit_scoring", "name: beside", 1))
        for party in ("bank", "credit", "shop"):
            self.edit_yaml(
                f"{party}/site.yaml",
                lambda site: site["tables"].update(beside=site["tables"]["credit_scoring"]),
            )
        self.agree()


def claim(workspace: Workspace, number: int) -> Path:
    """Let the label holder's plan claim a checkpoint of the party's; where the plan lies."""
    (place,) = workspace.folder.glob(f"exchange/credit_scoring/{workspace.run}/plan/credit")
    manifest = parse_manifest((place / MANIFEST).read_bytes(), "plan")
    lie = Checkpoint(number=number, head="a" * 64, signature="b" * 128)
    raw = manifest.model_copy(update={"seen": {PARTY: lie}}).to_bytes()
    signer = Signer.from_file(workspace.site("credit").signing_key)
    (place / MANIFEST).write_bytes(raw)
    (place / SIGNATURE).write_bytes(signer.sign(raw))
    return place


@pytest.mark.slow
def test_a_claim_without_the_partys_signature_concerns_its_run_alone(
    two_nights: Workspace,
) -> None:
    """The label holder claims number 2^31: that run is refused, nothing else changes."""
    beside = Beside(two_nights.folder)
    beside.found()
    beside.until("check_table", PARTY)
    before = charged(two_nights)
    claimed = Workspace(two_nights.folder, "0" * 15 + "3")
    claimed.open()
    place = claim(claimed, 2**31)
    with pytest.raises(OpBoostError, match=f"{PARTY} refused run"):
        claimed.step(PARTY, "check_table")
    assert "has not signed" in claimed.reason(PARTY)
    assert "has lost nothing" in recover(two_nights)
    assert charged(two_nights) == before
    # The other federation's run is under way meanwhile, and ends while the claim lies there.
    steps = list(beside.steps())
    for step in steps[steps.index(Step(PARTY, "check_table")) :]:
        beside.step(step.party, step.stage)
    champion = json.loads((two_nights.folder / "credit/models/beside/champion.json").read_text())
    assert champion == {"version": beside.run}
    assert charged(two_nights) == before
    # The label holder's own state does not know the plan that was forged in its name.
    shutil.rmtree(place)
    Workspace(two_nights.folder, "0" * 15 + "4").all()
    assert charged(two_nights) == before


@pytest.mark.slow
def test_a_claim_without_the_partys_signature_is_not_counted_by_a_recovery(
    two_nights: Workspace, tmp_path: Path
) -> None:
    put_back(two_nights, tmp_path / "before", PUT_BACK["database and pins"])
    claimed = Workspace(two_nights.folder, "0" * 15 + "3")
    claimed.open()
    claim(claimed, 2**31)
    assert recover(two_nights).startswith(f"{PARTY}: missing releases charged: 1;")


@pytest.mark.parametrize("change", ["another plan", "no plan"])
def test_plans_that_somebody_puts_or_removes_do_not_make_a_state_old(
    change: str,
    trained_once: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = trained_once.copy(tmp_path / "now", SECOND_RUN, monkeypatch)
    plan = now.folder / "exchange" / "credit_scoring" / trained_once.run / "plan"
    if change == "another plan":
        shutil.copytree(plan / "credit", plan / "aaa")
    else:
        shutil.rmtree(plan)
    assert missing(now) == []
    assert "has lost nothing" in recover(now)
    before = charged(now)
    now.all()
    assert charged(now) == before


def test_a_recovery_charges_what_manifests_name_and_ends_everything(
    two_nights: Workspace, tmp_path: Path
) -> None:
    put_back(two_nights, tmp_path / "before", PUT_BACK["database and pins"])
    with state_of(two_nights, PARTY) as state:
        known = {release.id for release in state.releases.all()}
    recover(two_nights)
    with state_of(two_nights, PARTY) as state:
        releases = state.releases.all()
    (lost,) = (release for release in releases if release.id not in known)
    assert (lost.feature, lost.receiver) == ("income", "credit")
    assert all(release.ended for release in releases)
    # The next run opens a release of every column, and is charged for it.
    before = charged(two_nights)
    Workspace(two_nights.folder, "0" * 15 + "3").all()
    after = charged(two_nights)
    assert all(after[name] > before[name] for name in before)


@pytest.mark.parametrize(
    "agrees", [pytest.param("before recovery", marks=pytest.mark.slow), "after recovery"]
)
@pytest.mark.parametrize("store", ["whole", "pruned"])
def test_a_recovery_charges_each_label_holder_its_own_releases(
    store: str, agrees: str, two_nights: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is older than releases to two label holders, and than the second agreement."""
    Workspace(two_nights.folder, "0" * 15 + "3").open()
    two_nights.replace_label_holder("lender")
    two_nights.known_to(monkeypatch)
    Workspace(two_nights.folder, "0" * 15 + "4").all()
    Workspace(two_nights.folder, "0" * 15 + "5").open()
    before, sent = charged(two_nights), receivers(two_nights)
    assert sent == {"credit": 6, "lender": 5}
    put_back(two_nights, tmp_path / "before", PUT_BACK["database and pins"])
    if store == "pruned":
        # The label holders' plans are left: they claim checkpoints.
        for run in ("2", "4"):
            place = two_nights.folder / "exchange" / "credit_scoring" / ("0" * 15 + run)
            for artifact in place.glob(f"*/{PARTY}"):
                shutil.rmtree(artifact)
        # One release of each column, to each label holder, in place of what cannot be known.
        sent["credit"] = 10
    if agrees == "before recovery":
        two_nights.agree()
    recover(two_nights)
    two_nights.agree()
    assert receivers(two_nights) == sent
    after = charged(two_nights)
    assert (
        after == before if store == "whole" else all(after[name] >= before[name] for name in before)
    )
    assert missing(two_nights) == []
    assert "has lost nothing" in recover(two_nights)
    assert charged(two_nights) == after
    Workspace(two_nights.folder, "0" * 15 + "6").all()


def test_a_recovery_counts_the_queries_that_were_answered_since(
    trained_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the label holder could guess as many IDs again in this month."""
    shutil.copytree(trained_once.folder, tmp_path / "before")
    now = trained_once.copy(tmp_path / "now", SECOND_RUN, monkeypatch)
    for party in now.declared.parties:
        now.let_join(party)
    now.until("open_rows", "credit")

    def queried() -> int:
        with state_of(now, PARTY) as state:
            (answered,) = state.query_counts.answered()
        return answered.counted.epoch

    before = queried()
    put_back(now, tmp_path / "before", PUT_BACK["database and pins"])
    assert queried() < before
    recover(now)
    assert queried() >= before


def test_every_artifact_carries_a_signed_checkpoint(trained_once: Workspace) -> None:
    found = [
        json.loads(path.read_bytes())
        for path in trained_once.folder.glob(
            f"exchange/credit_scoring/{trained_once.run}/*/*/{MANIFEST}"
        )
    ]
    assert found
    assert all(len(manifest["head"]["signature"]) == 128 for manifest in found)
