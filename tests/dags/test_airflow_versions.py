"""The versions of Airflow on which the suite has passed: said in one place."""

import pytest
from airflow import __version__

from opboost_ops.orchestration.deployment.doctor import TESTED, unpause_command, version_finding


def test_the_installed_airflow_is_one_of_them() -> None:
    assert __version__ in TESTED
    assert version_finding(__version__).state == "ok"


@pytest.mark.parametrize(("version", "state"), [("3.3.1", "blocks"), ("3.4.0", "note")])
def test_another_version_is_named_with_those_that_were_tested(version: str, state: str) -> None:
    finding = version_finding(version)
    assert finding.state == state
    assert version in finding.text
    assert all(tested in finding.text for tested in TESTED)


def test_one_command_unpauses_all_dags_of_a_federation() -> None:
    assert unpause_command("credit").endswith("'^credit_[a-z]+$'")
