"""A pilot and what follows it: what both cost, what is refused before, and what is proposed."""

import json
import math
import shutil
import stat
import uuid
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from opboost_ops.cli import channel, plan
from opboost_ops.config.columns import columns_of
from opboost_ops.config.loading import load_federation, load_site
from opboost_ops.domain import Domain
from opboost_ops.errors import BudgetError, ConfigError
from opboost_ops.mechanisms import Designed, Geometric, GlobalMap, noise
from opboost_ops.mechanisms.release import randomise
from opboost_ops.privacy.accountant import accounts, exact
from opboost_ops.privacy.loss import column_losses
from tests.books import books_of
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace

FINAL_RUN = "0" * 15 + "3"
TOTAL = 2.5


def declare_pilot(workspace: Workspace) -> None:
    """All columns of the bank at a small epsilon, and what may follow them."""

    def federation(data: Any) -> None:
        bank = data["parties"]["bank"]
        bank["pilot"] = {"total_loss_1": TOTAL}
        for feature in bank["features"].values():
            feature["mechanism"]["epsilon"] = 0.3

    workspace.edit_yaml("federation.yaml", federation)


def cap(workspace: Workspace, budget: float | None) -> None:
    """What all of the bank's features may cost a person, whatever may release them."""

    def policy(data: Any) -> None:
        data["all_features"] = {} if budget is None else {"budget_1": budget}
        for rule in data["features"].values():
            rule["mechanisms"] = ["global_map", "geometric"]

    workspace.edit_yaml("bank/policy.yaml", policy)


def steps(workspace: Workspace) -> Fraction:
    """What one release of all of the bank's columns costs a person by one step, exactly."""
    curves = column_losses(columns_of(workspace.declared, "bank")).values()
    return sum((Fraction(curve.loss[0]) for curve in curves), Fraction(0))


def least(sum_of: Fraction) -> float:
    """The least number that is no smaller."""
    found = float(sum_of)
    return found if Fraction(found) >= sum_of else math.nextafter(found, math.inf)


def lines(workspace: Workspace) -> int:
    with books_of(workspace, "bank") as books:
        return len(books.ledger.releases())


def spent(workspace: Workspace) -> dict[str, tuple[Any, Any]]:
    with books_of(workspace, "bank") as books:
        found = accounts(books.ledger.releases()).values()
    return {account.feature: (account.step, account.whole) for account in found}


def proposed(capsys: pytest.CaptureFixture[str], file: Path, **options: Any) -> dict[str, Any]:
    plan.command(file, party="bank", as_json=True, **options)
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def piloted(trained_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """After a pilot of the bank. Tests copy it where they change it."""
    copy = trained_once.copy(tmp_path_factory.mktemp("piloted") / "federation", SECOND_RUN)
    declare_pilot(copy)
    cap(copy, 100.0)
    with pytest.MonkeyPatch.context() as patch:
        copy.known_to(patch)
        copy.until("train", "credit")
    return copy


@pytest.fixture
def trained(trained_once: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A federation with a run that was no pilot; it is not changed."""
    trained_once.known_to(monkeypatch)
    return trained_once


def test_the_sum_is_capped_before_anything_is_drawn(workspace: Workspace) -> None:
    """To the last digit: a budget that just holds the pilot and its total, and one below it."""
    declare_pilot(workspace)
    before = sum((step for step, _ in spent(workspace).values()), Fraction(0))
    enough = least(before + steps(workspace) + Fraction(TOTAL))
    cap(workspace, math.nextafter(enough, 0))
    count = lines(workspace)
    where, error = workspace.first_failure()
    assert (where, type(error)) == ("bank.check_table", BudgetError)
    assert "all_features.budget_1" in str(error)
    assert f"loss(1) of {TOTAL:g}" in str(error)
    assert "follows it" in str(error)
    assert lines(workspace) == count
    assert not [name for name in workspace.published() if name.startswith(("ranks/", "sealed/"))]
    cap(workspace, enough)
    workspace.step("bank", "check_table")


@pytest.mark.slow
def test_it_is_capped_once_more_where_it_is_drawn(workspace: Workspace) -> None:
    """Another run of the party may have spent it meanwhile."""
    declare_pilot(workspace)
    before = sum((step for step, _ in spent(workspace).values()), Fraction(0))
    enough = least(before + steps(workspace) + Fraction(TOTAL))
    cap(workspace, enough)
    workspace.until("desensitize", "bank")
    count = lines(workspace)
    cap(workspace, math.nextafter(enough, 0))
    with pytest.raises(BudgetError, match="follows it"):
        workspace.step("bank", "desensitize")
    assert lines(workspace) == count
    cap(workspace, enough)
    workspace.step("bank", "desensitize")
    after = sum((step for step, _ in spent(workspace).values()), Fraction(0))
    assert after == before + steps(workspace)


def test_a_pilot_is_answered_only_where_a_budget_caps_it(workspace: Workspace) -> None:
    declare_pilot(workspace)
    cap(workspace, None)
    where, error = workspace.first_failure()
    assert where == "bank.check_table"
    assert "all_features.budget_1" not in str(error)
    assert "all_features.budget_1: a pilot needs it" in workspace.reason("bank")


@pytest.mark.slow
def test_pilot_and_final_are_charged_and_drawn_apart(
    piloted: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A person pays the pilot's curves of all columns and the final ones of the chosen."""
    known = piloted.copy(tmp_path / "known", SECOND_RUN)
    known.known_to(monkeypatch)
    with pytest.raises(ConfigError, match=r"the pilot left 2\.5"):
        plan.command(known.file, party="bank", pilot=SECOND_RUN, total_loss_1=9.0)
    told = proposed(capsys, known.file, pilot=SECOND_RUN, out=tmp_path)
    chosen = {line["name"]: line for line in told["columns"]}
    assert sum(line["loss_1"] for line in told["columns"]) <= TOTAL
    pilot = known.declared
    before, mechanisms = spent(known), {n: line["mechanism"] for n, line in chosen.items()}
    shutil.copytree(known.folder, tmp_path / "after")
    final = Workspace(tmp_path / "after", FINAL_RUN)

    def federation(data: Any) -> None:
        bank = data["parties"]["bank"]
        del bank["pilot"]
        bank["features"] = {
            name: {**feature, "mechanism": mechanisms[name]}
            for name, feature in bank["features"].items()
            if name in mechanisms
        }

    final.edit_yaml("federation.yaml", federation)
    with pytest.MonkeyPatch.context() as patch:
        final.known_to(patch)
        final.until("seal", "bank")
    curves = column_losses(columns_of(final.declared, "bank"))
    after = spent(final)
    for name, (step, whole) in before.items():
        more = curves.get(name)
        ends = (exact(more.loss[0]), exact(more.loss[-1])) if more else (Fraction(0), Fraction(0))
        assert after[name] == (step + ends[0], whole + ends[1])
    assert set(curves) == set(chosen) < set(before)
    # Another channel is another key of the noise, and another line of the account.
    secret = noise.receiver_secret(
        load_site(known.folder / "bank" / "site.yaml").noise_secret(), "credit"
    )
    first = {c.name: c.noise_context(secret) for c in columns_of(pilot, "bank")}
    second = {c.name: c.noise_context(secret) for c in columns_of(final.declared, "bank")}
    assert all(first[name] != second[name] for name in second)
    with books_of(final, "bank") as books:
        found = accounts(books.ledger.releases())
    for account in found.values():
        names = {key.cells for key in account.keys.values()}
        assert len(names) == (3 if account.feature in chosen else 2)
        assert {key.receiver for key in account.keys.values()} == {"credit"}


def test_noise_of_two_channels_goes_its_own_ways() -> None:
    """Same people, column, value and secret: what a pilot released says nothing of the next."""
    people = 20_000
    keys = np.arange(2 * people, dtype=np.uint64).reshape(people, 2).view(np.uint8)
    domain, column = Domain(1, 10), uuid.UUID(int=5)
    values = np.full(people, 5)
    drawn = [
        randomise(values, keys, mechanism, domain, b"map", b"s" * 32, column).astype(float)
        for mechanism in (GlobalMap(epsilon=0.3), Geometric(epsilon=0.5), Geometric(epsilon=0.5))
    ]
    together = np.corrcoef(np.array(drawn))
    assert abs(together[0, 1]) < 5 / math.sqrt(people)
    # The same channel would be the same draw.
    assert (drawn[1] == drawn[2]).all()


@pytest.mark.slow
def test_a_proposal_is_made_at_the_label_holder_alone(
    piloted: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without the bank's tables, books or site; it says what it depends on, and stays at home."""
    alone = piloted.copy(tmp_path / "alone", SECOND_RUN)
    shutil.rmtree(alone.folder / "bank")
    shutil.rmtree(alone.folder / "shop")
    alone.known_to(monkeypatch)
    monkeypatch.delenv("OPBOOST_SITE_BANK", raising=False)
    told = proposed(capsys, alone.file, pilot=SECOND_RUN)
    again = proposed(capsys, alone.file, pilot=SECOND_RUN)
    assert told == again
    assert told["by"] == "a pilot"
    assert told["total"] == {"loss_1": TOTAL, "loss_whole": None}
    assert told["pilot"]["run"] == SECOND_RUN
    assert told["pilot"]["loss_1"] == pytest.approx(float(steps(piloted)))
    assert "labels" in told["depends_on"]
    picture = Path(told["picture"])
    assert picture.is_relative_to(alone.folder / "credit")
    assert stat.S_IMODE(picture.stat().st_mode) == 0o600
    assert "labels" in picture.read_text()
    plan.command(alone.file, party="bank", pilot=SECOND_RUN, total_loss_1=1.0)
    said = capsys.readouterr().out
    assert "With the pilot a person pays loss(1)" in said
    assert "learns which columns go with them" in said.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pilot": "0" * 16}, "has no training frame of run 0000000000000000"),
        ({"pilot": "../other"}, "has no training frame of run"),
        ({"pilot": FIRST_RUN}, "was no pilot of bank"),
        ({"pilot": FIRST_RUN, "importance": ["income=1"]}, "or by a pilot, one of them"),
    ],
)
def test_what_is_no_pilot_is_one_message(
    trained: Workspace, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        plan.command(trained.file, party="bank", **options)


def test_a_channel_is_designed_for_what_was_released(
    trained: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The prior is the mixture that explains the releases; the file says where it is from."""
    file = tmp_path / "channel.json"
    asked = {"epsilon": 0.8, "most": 4.0, "federation": trained.file, "prior_run": FIRST_RUN}
    channel.command("designed", **asked, prior_of="bank.income", out=file, as_json=True)  # type: ignore[arg-type]
    found, kept = json.loads(capsys.readouterr().out), json.loads(file.read_text())
    weights = np.array([float(weight) for weight in found["prior"].split(",")])
    assert weights.sum() == pytest.approx(1, abs=1e-4)
    assert weights.min() >= 0
    assert kept["made"]["prior_from"] == found["prior_from"]
    assert f"run {FIRST_RUN} of credit_scoring released of bank.income" in found["prior_from"]
    assert found["certificate"]
    assert found["loss"][-1] <= 4.0
    channel.command("designed", epsilon=0.8, most=4.0, prior=found["prior"], as_json=True)
    assert json.loads(capsys.readouterr().out)["counts"] == found["counts"]
    data = yaml.safe_load(trained.file.read_text())
    data["parties"]["bank"]["features"]["income"]["mechanism"] = found["declaration"]
    (tmp_path / "federation.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    read = load_federation(tmp_path / "federation.yaml").parties["bank"].features["income"]
    assert isinstance(read.mechanism, Designed)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prior_of": None}, "--prior-run and --prior-of together"),
        ({"prior_of": "bank.shoe"}, "has released no column bank.shoe"),
        ({"prior_run": "0" * 16}, "has no training frame"),
        ({"upper": 12}, "Give --lower 1 --upper 10|and the channel is for"),
        ({"prior": "1,1"}, "instead of --prior"),
    ],
)
def test_what_gives_no_prior_is_one_message(
    trained: Workspace, changes: dict[str, Any], said: str
) -> None:
    asked = {"federation": trained.file, "prior_run": FIRST_RUN, "prior_of": "bank.income"}
    with pytest.raises(ConfigError, match=said):
        channel.command("designed", **{"most": 4.0, **asked, **changes})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["parties"]["bank"].update(pilot={}), "says nothing of what may follow"),
        (lambda d: d["parties"]["bank"].update(pilot={"total_loss_1": 0}), "greater than 0"),
        (lambda d: d["parties"]["credit"].update(pilot={"total_loss_1": 1}), "only for feature"),
    ],
)
def test_a_faulty_pilot_is_one_message(
    trained_once: Workspace, tmp_path: Path, change: Any, said: str
) -> None:
    data = yaml.safe_load(trained_once.file.read_text())
    change(data)
    (tmp_path / "federation.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    with pytest.raises(ConfigError, match=said):
        load_federation(tmp_path / "federation.yaml")
