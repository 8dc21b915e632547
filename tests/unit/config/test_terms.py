"""Terms of an agreement: schedules within them are free, others are faults."""

from datetime import date

import pytest

from opboost_ops.config.agreement import digest_of, document
from opboost_ops.config.terms import runs_of
from opboost_ops.errors import ConfigError
from tests.unit.config.test_agreement import federation


@pytest.mark.parametrize(
    ("cron", "runs"),
    [
        ("0 3 * * *", 31),
        ("*/30 8-17 * * mon-fri", 500),
        ("0 0 * * 0,7", 5),
        ("0 0 * * 3/4", 5),
        ("0 0 1,15 * 1", 7),
        ("5/20 0 1 * *", 3),
        ("0 0 L * *", 31),
        ("@daily", 31),
        ("no cron", 0),
    ],
)
def test_runs_of_a_schedule(cron: str, runs: int) -> None:
    assert runs_of(cron) == runs


def test_a_schedule_within_the_terms_changes_no_digest_and_one_beyond_is_a_fault() -> None:
    few = {"terms__runs_per_month": {"train": 31, "score": 31}}
    agreed = digest_of(document(federation(**few)))
    for cron in ("0 3 * * *", "0 5 * * 1"):
        declared = federation(**few, schedule={"cron": cron}, scoring={"cron": cron})
        assert digest_of(document(declared)) == agreed
    with pytest.raises(ConfigError) as error:
        federation(**few, schedule={"cron": "0 * * * *"}, scoring={"cron": "@hourly"})
    assert [fault.where for fault in error.value.faults] == ["schedule.cron", "scoring.cron"]


@pytest.mark.parametrize(
    "changed",
    [{"terms__purpose": "Another"}, {"terms__until": "2031-01-01"}, {"terms__retention_days": 7},
     {"terms__runs_per_month": {"train": 999, "score": 1000}}],
)  # fmt: skip
def test_other_terms_are_another_agreement(changed: dict[str, object]) -> None:
    assert digest_of(document(federation())) != digest_of(document(federation(**changed)))


def test_terms_are_required_and_sensible() -> None:
    wrong: dict[str, object]
    for wrong in (
        {"terms__purpose": ""},
        {"terms__until": "soon"},
        {"terms__retention_days": 0},
    ):
        with pytest.raises(ConfigError):
            federation(**wrong)
    assert federation(terms__until="2031-01-01").terms.until == date(2031, 1, 1)
