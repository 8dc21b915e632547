"""Shells complete commands and options."""

import pytest

from tests.integration.cli.conftest import Opboost


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("opboost fed", "federate"),
        ("opboost models roll", "rollback"),
        ("opboost init --pos", "--positive"),
    ],
)
def test_bash_completes_what_was_begun(
    opboost: Opboost, monkeypatch: pytest.MonkeyPatch, typed: str, completed: str
) -> None:
    monkeypatch.setenv("_OPBOOST_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    assert opboost().out.split() == [completed]
