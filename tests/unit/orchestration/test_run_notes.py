"""Whom a run went on dropout_note is told of its own tasks alone."""

from opboost_ops.orchestration.run_notes import dropout_note


def test_a_party_is_named_wherever_its_group_is() -> None:
    assert "**bank_a** (boost has failed)" in dropout_note(["nightly.bank_a_learn.boost"])
    assert dropout_note(["nightly.bank_a_learn.boost"]) == dropout_note(["bank_a_learn.boost"])


def test_a_task_of_peoples_own_is_no_party() -> None:
    assert dropout_note(["mail_the_board", "reports.draw"]) == ""
