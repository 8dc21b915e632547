"""No dead end: from a version to its run, from a run to its tasks, from a check to its task."""

import re
from collections.abc import Iterator

import pytest

from opboost_ops.exchange.manifest import run_id
from opboost_ops.orchestration.pages.answers import PAGES
from tests.federation import Workspace
from tests.integration.orchestration.pages.airflow_runs import TRAIN, forget_runs, write_run
from tests.integration.orchestration.pages.conftest import Reader
from tests.integration.orchestration.pages.reading import rows

NIGHT = run_id(TRAIN, "night")
TASKS = {
    "credit_open.open_run": "success",
    "bank_release.check_table": "failed",
    "credit_train.train": "upstream_failed",
}


@pytest.fixture
def run(shown: Workspace) -> Iterator[Workspace]:
    """The failed run, under the name that Airflow's run gives it."""
    for party in ("bank", "credit", "shop"):
        home = shown.home(party)
        home.rename(home.parent / NIGHT)
    told = {"problem": "income is out of bounds.", "remedy": "Fix the table."}
    write_run("night", "failed", TASKS, {"bank_release.check_table": told})
    yield shown
    forget_runs()


def test_from_a_run_to_each_of_its_tasks(reader: Reader, run: Workspace) -> None:
    page = reader.page(f"run?id={NIGHT}")
    for task in TASKS:
        assert f'href="/dags/{TRAIN}/runs/night/tasks/{task}"' in page
    # Once, in the box; a run without one has it below.
    assert page.count(f'href="/dags/{TRAIN}/runs/night"') == 1
    write_run("good", "success")
    good = reader.page(f"run?dag={TRAIN}&run=good")
    assert good.count(f'href="/dags/{TRAIN}/runs/good"') == 1
    lines = rows(reader, f"run?id={NIGHT}", ".tasks")
    assert {line["task and its log"]: line["state"] for line in lines} == {
        "credit: open_run": "success",
        "bank: check_table": "failed",
        "credit: train": "upstream failed",
    }


def test_from_a_check_to_its_run_and_its_task(reader: Reader, run: Workspace) -> None:
    page = reader.page(f"quality/bank/credit_scoring/{NIGHT}/raw_table")
    assert f"run?id={NIGHT}" in page
    assert f'href="/dags/{TRAIN}/runs/night/tasks/bank_release.check_table"' in page
    # Without a run of Airflow's the check leads to the run's own page alone.
    forget_runs()
    page = reader.page(f"quality/bank/credit_scoring/{NIGHT}/raw_table")
    assert f"run?id={NIGHT}" in page and "/dags/" not in page


def test_the_agreements_with_what_each_has_changed(reader: Reader, shown: Workspace) -> None:
    shown.edit_yaml(
        "federation.yaml",
        lambda f: f["parties"]["bank"]["features"]["income"].update(bounds=[0, 400_000]),
    )
    newest, first = rows(reader, "ledger?since=2026-01-01&party=bank", "bank.agreements")
    assert (newest["number"], first["number"]) == ("2", "1")
    assert newest["what it changed"] == "parties.bank.features.income.bounds"
    assert first["what it changed"] == "all of it: the first"
    assert len(newest["digest"]) == 64
    assert (newest["state"], first["state"]) == ("in force", "superseded")


def test_from_each_page_to_the_document_about_it_and_on_to_others(
    reader: Reader, untouched: Workspace
) -> None:
    pages = [name for name, *_ in PAGES]
    ways = {to for name in pages for to in re.findall(r'href="/opboost/docs/([^"]+)"',
                                                      reader.page(name))}  # fmt: skip
    assert len(ways) == len(pages)
    known: dict[str, str] = {}
    while ways:
        name, _, place = ways.pop().partition("#")
        if name not in known:
            known[name] = reader.page(f"docs/{name}").partition("<article>")[2]
            ways |= set(re.findall(r'href="([^"#]+(?:#[^"]*)?)"', known[name]))
        assert not place or f'id="{place}"' in known[name], (name, place)
    assert {"runbook", "ledger", "airflow"} <= known.keys()
    reader.page("docs/nothing", 404)
