"""A false label holder gets what was agreed to, and nothing else."""

import copy
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from opboost_ops.config.federation import Purpose
from opboost_ops.errors import PolicyError
from opboost_ops.exchange.encryption import new_encryption_key
from opboost_ops.exchange.party_state import agreements_of
from opboost_ops.exchange.signing import new_signing_key
from opboost_ops.pipeline.party.admission import REFUSED
from opboost_ops.pipeline.party.agreement import withdraw
from opboost_ops.pipeline.phases import stages_of
from tests.adversary.kit import forge_plan as forged
from tests.adversary.kit import refusal as told
from tests.adversary.kit import released
from tests.federation import SECOND_RUN, Workspace, small_credit
from tests.party_state import state_of

HOLDERS = ("bank", "shop")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A federation after its first agreed run."""
    made = Workspace.write(tmp_path_factory.mktemp("agreed") / "whole", small_credit(rows=120))
    with made.known():
        gap = pl.when(pl.int_range(pl.len()) % 10 > 0).then("income")
        made.edit_table("bank", lambda table: table.with_columns(income=gap))
        made.all()
    yield made


@pytest.fixture
def honest(whole: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return whole.copy(tmp_path / "federation", SECOND_RUN, monkeypatch)


def bank(data: Any) -> Any:
    return data["parties"]["bank"]["features"]


#: What a label holder may ask for beyond what was agreed: findings 2, 3, 4, 5, 9 and 12, and more.
ATTACKS: dict[str, Callable[[Any], Any]] = {
    "another ID column": lambda d: d["id"].update(column="phone"),
    "a fresh uuid": lambda d: bank(d)["income"].update(uuid=str(uuid.uuid4())),
    "another fill": lambda d: bank(d)["income"]["missing"].update(fill=100.0),
    "other bounds": lambda d: bank(d)["income"].update(bounds=[2000, 2001]),
    "a column outside": lambda d: bank(d).update(
        secret={**copy.deepcopy(bank(d)["debt_ratio"]), "uuid": str(uuid.uuid4())}
    ),
    "a raised epsilon": lambda d: bank(d)["income"]["mechanism"].update(epsilon=1000.0),
    "a billionth more": lambda d: bank(d)["income"]["mechanism"].update(
        epsilon=bank(d)["income"]["mechanism"]["epsilon"] * (1 + 1e-9)
    ),
    "a billionth less": lambda d: bank(d)["income"]["mechanism"].update(
        epsilon=bank(d)["income"]["mechanism"]["epsilon"] * (1 - 1e-9)
    ),
    "domain x 20": lambda d: d["domain"].update(upper=200),
    "a key left out": lambda d: d["parties"]["credit"].pop("encryption_key"),
    "a key of its own": lambda d: d["parties"]["credit"].update(
        encryption_key=new_encryption_key()[1]
    ),
    "another scale": lambda d: bank(d)["balance"].update(scale="log1p"),
    "a feature less": lambda d: bank(d).pop("balance"),
    "routed scoring": lambda d: d.update(scoring={"mode": "routed"}),
    "another holdout": lambda d: d["training"].update(holdout=0.9),
    "another type of ID": lambda d: d["id"].update(type="integer"),
    "another party's key": lambda d: d["parties"]["shop"].update(
        signing_key=new_signing_key(bytes(32))[1]
    ),
}


@pytest.mark.parametrize("purpose", ["train", "score"])
def test_a_label_holder_that_asks_for_more_gets_nothing(
    honest: Workspace, purpose: Purpose
) -> None:
    """Each plan is signed, well-formed and new; before a table is opened it is refused."""
    honest.purpose = purpose
    before = {party: released(honest, party) for party in HOLDERS}
    honest.open()
    assert honest.published() == ["plan/credit"]
    plan = honest.store.get(f"credit_scoring/{honest.run}/plan/credit")
    assert plan is not None
    words: set[str] = set()
    for name, attack in ATTACKS.items():
        for agreed in ("own", ""):
            shutil.rmtree(honest.folder / "exchange" / "credit_scoring" / honest.run)
            honest.store.put_once(f"credit_scoring/{honest.run}/plan/credit", plan)
            forged(honest, attack, agreed)
            words.add(told(honest, "bank", "check_table"))
            assert honest.published() == ["plan/credit"], name
            assert honest.reason("bank"), name
    # One text for all of them: no bit of what differs, or of what the party agreed to.
    assert len(words) == 1
    assert {party: released(honest, party) for party in HOLDERS} == before


def test_every_stage_of_every_party_asks_first(honest: Workspace) -> None:
    honest.open()
    forged(honest, ATTACKS["a fresh uuid"])
    for party in HOLDERS:
        for stage in stages_of(honest.declared, "train", party):
            told(honest, party, stage)
    assert "parties.bank.features.income.uuid" in honest.reason("bank")
    assert "parties.bank.features.income.uuid" in honest.reason("shop")
    assert (honest.home("bank") / REFUSED).stat().st_mode & 0o077 == 0
    with state_of(honest, "bank") as state:
        lines = [entry for _, entry, _ in state.audit.entries() if entry.action == "rejected"]
    # However often it is asked: its own people are told once.
    assert [line.place for line in lines] == [f"credit_scoring/{honest.run}/plan"]
    assert "parties.bank.features.income.uuid" in lines[0].detail


def test_a_run_without_an_agreement_of_the_label_holder_publishes_nothing(
    honest: Workspace,
) -> None:
    withdraw(honest.site("credit"), 1)
    with pytest.raises(PolicyError, match="credit refused run"):
        honest.open()
    assert honest.published() == []
    assert "the newest one was withdrawn" in honest.reason("credit")


def test_what_is_free_to_change_runs_under_the_same_agreement(honest: Workspace) -> None:
    honest.declare(
        "federation.yaml",
        agree=False,
        training={"trees": 2, "depth": 2, "learning_rate": 0.3, "tolerance": 1.0},
        parties={"bank": {"queue": "other"}},
        schedule={"cron": "0 4 * * *"},
    )
    honest.all({"trees": 3})
    site = honest.site("bank")
    assert [made.number for made in agreements_of(site).agreements] == [1]


def test_times_of_scoring_within_the_terms_keep_agreement_and_champion(
    workspace: Workspace,
) -> None:
    (champion,) = (path.name for path in workspace.models.iterdir() if path.is_dir())
    workspace.declare("federation.yaml", agree=False, scoring={"cron": "0 5 * * *"})
    later = workspace.scoring()
    assert later.open()["version"] == champion
    for party in ("bank", "shop"):
        later.step(party, "check_table")
        assert [made.number for made in agreements_of(later.site(party)).agreements] == [1]


def test_a_refusal_is_told_to_the_partys_own_notifiers_once(honest: Workspace) -> None:
    honest.open()
    forged(honest, ATTACKS["domain x 20"])
    notices = []
    for _ in range(2):
        with pytest.raises(PolicyError) as refused:
            honest.step("bank", "check_table")
        notices.append(refused.value.notice)
    assert notices == ["agreement_needed", ""]


def test_whoever_withdraws_in_the_middle_of_a_run_answers_no_more(honest: Workspace) -> None:
    honest.until("preprocess", "bank")
    withdraw(honest.site("bank"), 1)
    told(honest, "bank", "preprocess")
    assert "the newest one was withdrawn" in honest.reason("bank")
    assert honest.step("shop", "preprocess")["rows"] > 0


def test_a_policy_that_changes_in_the_middle_of_a_run_is_asked_again(honest: Workspace) -> None:
    honest.until("preprocess", "bank")
    honest.edit_yaml("bank/policy.yaml", lambda p: p["features"].pop("income"))
    told(honest, "bank", "preprocess")
    assert "features: income is not listed for release" in honest.reason("bank")
