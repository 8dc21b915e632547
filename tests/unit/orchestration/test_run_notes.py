"""Whom a run went on without is told of its own tasks alone."""

from opboost_ops.orchestration.run_notes import without


def test_a_party_is_named_wherever_its_group_is() -> None:
    assert "**bank_a** (boost has failed)" in without(["nightly.bank_a_learn.boost"])
    assert without(["nightly.bank_a_learn.boost"]) == without(["bank_a_learn.boost"])


def test_a_task_of_peoples_own_is_no_party() -> None:
    assert without(["mail_the_board", "reports.draw"]) == ""
