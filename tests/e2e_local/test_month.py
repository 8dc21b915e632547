"""Nightly retraining: charged outside by night, frozen inside without a sign outside."""

from typing import Any

import pytest

from tests.e2e_local.nights import MOST_CHANGES, month
from tests.federation import small_credit

NIGHTS, FITTING = 6, 4


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("month") / "federation"
    return month(small_credit(rows=400), folder, NIGHTS, FITTING)


@pytest.fixture(scope="module")
def capped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("capped") / "federation"
    return month(small_credit(rows=400), folder, NIGHTS, FITTING, most=MOST_CHANGES)


def test_under_a_cap_the_account_stays_where_it_is(capped: dict[str, Any]) -> None:
    """Two values under the first map, two under the new one of night 4: no budget refuses."""
    one = capped["nights"][0]["loss_whole"]
    charged = [line["loss_whole"] / one for line in capped["nights"]]
    assert charged == pytest.approx([1, 2, 2, 3, 4, 4])
    assert not any(line["refused"] for line in capped["nights"])


def test_every_changed_night_is_charged_outside(found: dict[str, Any]) -> None:
    nights = found["nights"]
    one = nights[0]["loss_whole"]
    for i, line in enumerate(nights[:FITTING], start=1):
        assert line["refused"] == ""
        assert line["releases"] == i
        assert line["loss_whole"] == pytest.approx(i * one)
        assert line["retrainings_left"] == FITTING - i


def test_the_public_cap_refuses_and_nothing_more_is_charged(found: dict[str, Any]) -> None:
    last = found["nights"][FITTING - 1]
    for line in found["nights"][FITTING:]:
        assert "budget_whole" in line["refused"]
        assert line["files"] == {}
        assert line["releases"] == last["releases"]
        assert line["capped_cells"] == last["capped_cells"]


def test_frozen_cells_give_no_sign_outside(capped: dict[str, Any]) -> None:
    """The artifact has the same files; only compressed sizes move by what any noise moves them."""
    nights = capped["nights"]
    assert nights[0]["capped_cells"] == 0
    assert nights[-1]["capped_cells"] > 0
    assert len({tuple(line["files"]) for line in nights}) == 1
    for name in nights[0]["files"]:
        sizes = [line["files"][name] for line in nights]
        assert max(sizes) - min(sizes) <= 60, name


def test_the_person_charged_most_is_charged_less_than_the_worst_case(
    capped: dict[str, Any],
) -> None:
    one = capped["nights"][0]["loss_whole"]
    for line in capped["nights"]:
        assert line["people_loss_whole"] <= line["loss_whole"] + 1e-9
        # Two noise keys, before and after the new map; under each at most so many values.
        assert line["people_loss_whole"] <= 2 * MOST_CHANGES * one + 1e-9
