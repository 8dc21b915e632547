"""Whole runs at sites that only call out, and what a site may not do."""

import pytest

from tests.sites.conftest import PARTIES, Sites, until

TRAIN = "credit_scoring_train"


@pytest.mark.slow
def test_a_model_is_trained_at_three_sites(sites: Sites) -> None:
    run = sites.client.trigger(TRAIN)
    until(
        lambda: sites.client.run(TRAIN, run)["state"] in ("success", "failed"),
        "the run's end",
        600,
    )
    tasks = sites.client.tasks(TRAIN, run)
    assert sites.client.run(TRAIN, run)["state"] == "success", tasks
    for task in tasks:
        party = task["task_id"].split("_")[0]
        assert (task["queue"], task["hostname"]) == (f"queue.{party}", party)
