"""A whole run at outbound-only sites, and what stays at home."""

import pytest

from tests.containers import runs
from tests.sites.conftest import PARTIES, Sites
from tests.waiting import until


@pytest.mark.deployment
def test_three_sites_train_and_score_and_keep_their_logs(sites: Sites) -> None:
    client, before = sites.client, len(sites.processes.output("proxy"))

    def told() -> str:
        return sites.processes.output("proxy")[before:]

    tasks = runs.ended(client, runs.TRAIN, client.trigger(runs.TRAIN), told)
    said = told().splitlines()
    assert len(said) > 100
    assert [line for line in said if " 403 " in line] == []
    for task in tasks:
        party = task["task_id"].split("_")[0]
        assert (task["queue"], task["hostname"]) == (f"queue.{party}", party)

    # A failing task: its message stays at home, that it failed does not.
    table = sites.own["shop"].home / "tables" / "train.parquet"
    table.rename(table.with_suffix(".away"))
    run = client.trigger(runs.TRAIN)
    until(lambda: client.run(runs.TRAIN, run)["state"] == "failed", run, runs.RUN)
    table.with_suffix(".away").rename(table)
    assert runs.state(client, runs.TRAIN, run, "shop_release.check_table") == "failed"
    assert "/logs/push/" not in told()
    assert list((sites.root / "airflow" / "logs").rglob("attempt=*")) == []
    for party in PARTIES:
        logs = list((sites.own[party].home / "airflow" / "logs").rglob("attempt=*.log"))
        assert logs
        assert {log.stat().st_mode & 0o077 for log in logs} == {0}

    # The champion of the first run has started a scoring run.
    runs.scored(client, told)
