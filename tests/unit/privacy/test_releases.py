"""Releases: charged once, pinned once, sent again whatever changes."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from opboost_ops.config.columns import Column
from opboost_ops.domain import Domain
from opboost_ops.errors import BudgetError, ContractError
from opboost_ops.mechanisms import UnaryEncoding
from opboost_ops.mechanisms.randomised_response import BIT
from opboost_ops.privacy.declarations import Declaration
from opboost_ops.privacy.ledger.budgets import Budget
from opboost_ops.privacy.ledger.entries import LedgerEntry, plain_line
from opboost_ops.privacy.loss import column_losses
from opboost_ops.privacy.releases import require_declared
from tests.unit.privacy.releasing import DAY, DOMAIN, Door, declaration, people

MANY = 400


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path / "state")


def sent(taken: dict, name: str = "income") -> list[int]:
    return taken["income"].responses[name].tolist()


def test_a_changed_value_is_never_drawn_again(door: Door) -> None:
    first = door.night(1, people(MANY, 1))
    assert [sent(door.night(n, people(MANY, n % 4 + 1))) for n in range(2, 14)] == [
        sent(first)
    ] * 12
    assert len(door.releases.all()) == 1
    assert len(set(sent(first))) > 1


def test_a_category_of_nine_is_pinned_with_all_of_its_bits(door: Door) -> None:
    nine, mechanism = Domain(0, 8), UnaryEncoding(epsilon=80.0)
    columns = tuple(
        Column(f"income={at}", "income", "income", BIT, "income", nine, mechanism, b"", at)
        for at in range(9)
    )
    declared = replace(declaration(), columns=columns, losses=column_losses(columns))
    table = {f"p{number}": number % 9 for number in range(MANY)}
    first, again = (
        np.array([sent(door.night(run, table, [declared]), c.name) for c in columns]).T
        for run in (1, 2)
    )
    assert (first == again).all()
    # A set bit is sent every second time, and a clear one practically never.
    own = np.eye(9, dtype=bool)[list(table.values())]
    assert not first[~own].any()
    assert first.any(axis=0).all()


def test_joiners_are_pinned_and_others_stay(door: Door) -> None:
    first = sent(door.night(1, people(MANY)))
    both = door.night(2, people(2 * MANY, 4))
    assert sent(both)[:MANY] == first
    # Who left and comes back has the pin of before.
    door.night(3, people(10))
    assert sent(door.night(4, people(2 * MANY, 2))) == sent(both)
    (release,) = door.releases.all()
    assert release.pins is not None
    assert release.pins.rows == 2 * MANY
    assert len([e for e in door.ledger.entries() if e.kind == "release"]) == 1


def test_only_values_without_a_pin_are_needed(door: Door) -> None:
    door.night(1, people(MANY))
    assert sent(door.night(2, people(MANY, 3), read=[]))
    with pytest.raises(ContractError, match="changed after this run read"):
        door.night(3, people(MANY + 1), read=[])
    assert door.releases.of_run("f", f"{3:016x}") is None


def test_a_retry_uses_what_the_run_recorded(door: Door) -> None:
    first = door.night(1, people(MANY))
    door.releases.end([one.id for one in door.releases.all()])
    second = door.night(2, people(MANY))
    assert sent(second) != sent(first)
    with pytest.raises(BudgetError, match="has ended"):
        door.night(1, people(MANY))
    assert sent(door.night(2, people(MANY, 4), read=[])) == sent(second)


@pytest.mark.parametrize(
    ("declared", "receiver"),
    [(declaration(epsilon=4.0, digest="b"), "credit"), (declaration(), "shop")],
)
def test_a_run_that_is_begun_again_under_another_plan_draws_nothing(
    declared: Declaration, receiver: str, door: Door
) -> None:
    """Its charges are those of the first plan; newcomers would be released under the second one."""
    door.night(1, people(MANY))
    (before,) = door.releases.all()
    with pytest.raises(BudgetError):
        door.night(1, people(2 * MANY), (declared,), receiver=receiver, read=range(2 * MANY))
    assert door.releases.all() == [before]


def test_a_run_that_is_begun_again_without_a_feature_is_refused_before_it_reads(door: Door) -> None:
    door.night(1, people(MANY))
    used = {release.feature: release for release in door.releases.all()}
    require_declared(used, (declaration(),), "credit")
    with pytest.raises(BudgetError):
        require_declared(used, (), "credit")


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({}, 1),
        ({"digest": "b"}, 2),
    ],
)
def test_another_declaration_is_another_charge(door: Door, change: dict, count: int) -> None:
    door.night(1, people(MANY))
    door.night(2, people(MANY), (declaration(**change),))
    assert len(door.releases.all()) == count
    assert door.releases.spent()["income"] == count * declaration().loss


def test_each_receiver_is_a_charge_of_one_budget(door: Door) -> None:
    loss = float(declaration().loss)
    door.budget(2 * loss + 1e-9)
    first = door.night(1, people(MANY))
    other = door.night(2, people(MANY), receiver="shop")
    assert sent(first) != sent(other)
    with pytest.raises(BudgetError, match=r"features\.income\.budget"):
        door.night(3, people(MANY), receiver="third")
    assert sent(door.night(4, people(MANY))) == sent(first)


def test_yearly_opens_once_a_year_and_goes_on_where_it_does_not_fit(door: Door) -> None:
    yearly = (declaration(yearly=True),)
    door.budget(2 * float(declaration().loss) + 1e-9)
    first = door.night(1, people(MANY), yearly)
    assert sent(door.night(2, people(MANY, 2), yearly, date(2026, 12, 31))) == sent(first)
    second = door.night(3, people(MANY), yearly, date(2027, 1, 1))
    assert sent(second) != sent(first)
    assert sent(door.night(4, people(MANY), yearly, date(2028, 1, 1))) == sent(second)
    rule = Budget(door.policy).releases
    (choice,) = door.releases.choose(yearly, "credit", date(2028, 1, 2), rule).values()
    assert "budget" in choice.refused
    assert choice.release is not None
    assert choice.release.opened == date(2027, 1, 1)


def test_a_seed_repeats_the_ids_of_both_years(tmp_path: Path) -> None:
    declared = (declaration(yearly=True),)

    def ids_of_years(door: Door) -> list[str]:
        door.budget(2 * float(declaration().loss) + 1e-9)
        for run, day in enumerate((DAY, DAY.replace(year=DAY.year + 1)), 1):
            request = door.request(run, people(MANY), declared, day)
            seeded = replace(request, seed=b"seed", experiment=True)
            door.releases.take(seeded, Budget(door.policy).releases)
        return [release.id for release in door.releases.all()]

    first, again = (ids_of_years(Door(tmp_path / name)) for name in ("first", "again"))
    assert first == again
    assert len(set(first)) == 2


def test_of_two_runs_the_later_takes_the_pins_of_the_earlier(door: Door) -> None:
    declared = (declaration(),)
    late = door.request(2, people(MANY, 4), declared)
    early = door.night(1, people(MANY, 1))
    taken = door.releases.take(late, Budget(door.policy).releases)
    assert taken["income"].responses["income"].tolist() == sent(early)


def test_lost_damaged_and_older_pins_release_nothing(door: Door) -> None:
    door.night(1, people(MANY))
    (path,) = door.pins.folder.glob("*.pins")
    whole = path.read_bytes()
    door.night(2, people(MANY + 5))
    (newer,) = door.pins.folder.glob("*.pins")
    for content in (whole, newer.read_bytes()[:-1], None):
        newer.unlink() if content is None else newer.write_bytes(content)
        with pytest.raises(BudgetError, match="older than the ledger"):
            door.night(3, people(MANY))
        assert [one.feature for one in door.releases.lost()] == ["income"]
    door.releases.end([one.id for one in door.releases.all()])
    door.night(4, people(MANY))
    assert door.releases.spent()["income"] == 2 * declaration().loss


def test_a_forgotten_person_is_never_pinned_again(door: Door) -> None:
    door.night(1, people(3))
    gone = door.forgotten.hashed("p00001")
    door.forgotten.add([gone])
    assert door.releases.forget([gone]) == 1
    answers = {tuple(sent(door.night(n, people(3, 4))))[1] for n in range(2, 60)}
    assert len(answers) > 1
    (release,) = door.releases.all()
    assert release.pins is not None
    assert release.pins.rows == 2


def test_a_crash_before_the_end_charges_and_pins_nothing(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(door.releases), "_point_to", crash)
        with pytest.raises(KeyboardInterrupt):
            door.night(1, people(MANY))
    assert door.releases.all() == []
    assert door.ledger.entries() == []
    door.night(1, people(MANY))
    assert len(list(door.pins.folder.glob("*.pins"))) == 1


def test_routed_once_keeps_the_pinned_integer(door: Door) -> None:
    once = (declaration(Domain(1, 4), routed="once", missing=True),)
    values = {f"p{n}": n % 5 for n in range(MANY)}
    exact = door.night(1, values, once)["income"].exact
    assert exact["income"].tolist() == [max(1, value) for value in values.values()]
    assert exact["income=missing"].tolist() == [int(value == 0) for value in values.values()]
    again = door.night(2, dict.fromkeys(values, 4), once)["income"].exact
    assert again["income"].tolist() == exact["income"].tolist()
    assert door.night(3, values)["income"].exact == {}


def test_responses_follow_the_channel(tmp_path: Path) -> None:
    """The frequencies of outputs, by value, at 100,000 people: within five standard deviations."""
    door = Door(tmp_path / "state", rows=1 << 14)
    declared = declaration(Domain(1, 3), 1.0, missing=True)
    values = {f"p{n}": n % 4 for n in range(100_000)}
    taken = door.night(1, values, (declared,))["income"]
    law = declared.columns[0].mechanism.channel(Domain(1, 3)).probabilities()
    numbers = np.clip(np.array(list(values.values())), 1, 3)
    for value in (1, 2, 3):
        mine = taken.responses["income"][numbers == value]
        for at, output in enumerate((1, 2, 3)):
            p = law[value - 1, at]
            spread = 5 * np.sqrt(p * (1 - p) / len(mine))
            assert abs((mine == output).mean() - p) < spread
    assert set(taken.responses["income=missing"].tolist()) == {0, 1}
    assert sent(door.night(2, values, (declared,), read=[])) == taken.responses["income"].tolist()


def test_two_draws_of_one_value_are_independent(door: Door) -> None:
    """Another release is drawn under another key: half of its pairs differ, not none."""
    first = np.array(sent(door.night(1, people(4000))))
    other = np.array(sent(door.night(2, people(4000), (declaration(digest="b"),))))
    law = declaration().columns[0].mechanism.channel(Domain(1, 4)).probabilities()[0]
    expected = float((law**2).sum())
    assert abs((first == other).mean() - expected) < 0.05


def test_a_person_twice_is_refused(door: Door) -> None:
    declared = (declaration(),)
    request = door.request(1, people(2), declared)
    twice = replace(request, people=np.repeat(request.people[:1], 2, axis=0))
    with pytest.raises(ContractError, match="more than once"):
        door.releases.take(twice, Budget(door.policy).releases)
    assert DAY.year == 2026


def test_the_charge_of_a_release_is_one_line_of_the_ledger(door: Door) -> None:
    door.night(1, people(MANY))
    (entry,) = door.ledger.entries()
    assert entry.opens_release
    (curve,) = declaration().losses.values()
    line = plain_line("2030-01-01", entry)
    assert (line["loss_1"], line["loss_whole"]) == (curve.loss[0], curve.loss[-1])
    assert not entry.model_copy(update={"artifact": "f" * 64}).opens_release


def test_a_model_is_reserved_only_as_its_rule_allows(door: Door) -> None:
    def refuse(*_: object) -> None:
        raise BudgetError("The budget is spent.", "")

    line = {"federation": "f", "run": "a" * 16, "party": "bank", "receiver": "credit", "rows": 1}
    model = LedgerEntry(**line, kind="model", artifact="b" * 64, account="model", epsilon=1.0)
    exact = LedgerEntry(**line, kind="shares", artifact="c" * 64, account="exact")
    with pytest.raises(BudgetError):
        door.ledger.reserve([exact, model], refuse)
    assert door.ledger.entries() == []
    door.ledger.reserve([exact], refuse)
    assert door.ledger.entries() == [exact]


def test_an_entry_waits_until_its_own_artifact_is_published(door: Door) -> None:
    line = {"federation": "f", "run": "a" * 16, "party": "bank", "receiver": "credit", "rows": 1}
    sent, waiting = (
        LedgerEntry(**line, kind="shares", artifact=artifact * 64, account="exact")
        for artifact in "bc"
    )
    door.ledger.reserve([sent, waiting], lambda *_: None)
    door.ledger.commit(sent.artifact)
    assert door.ledger.uncommitted() == [waiting]


def test_a_pin_takes_the_bytes_that_its_domain_needs() -> None:
    for domain, size in ((DOMAIN, 1), (Domain(1, 300), 2)):
        assert declaration(domain).kind.itemsize == size
