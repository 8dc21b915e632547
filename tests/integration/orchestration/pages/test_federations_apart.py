"""A reader of one federation sees nothing of another, however a run is named."""

from collections.abc import Iterator
from typing import Any

import pytest

from opboost_ops.exchange.manifest import JOINED
from tests.federation import FIRST_RUN, Workspace
from tests.integration.orchestration.pages.airflow_runs import (
    TRAIN,
    forget_runs,
    known_dags,
    write_run,
)
from tests.integration.orchestration.pages.conftest import Reader, allow
from tests.party_state import state_of

NAME, OTHER = "credit_scoring", "others_train"
HIDDEN = "f" * 16


@pytest.fixture
def two(shown: Workspace, application: object) -> Iterator[Workspace]:
    """The bank is in another federation too, and has a run there with the first one's id."""

    def change(site: dict[str, Any]) -> None:
        site["tables"]["others"] = site["tables"][NAME]

    shown.edit_yaml("bank/site.yaml", change, agree=False)
    (shown.site("bank").home / "others" / FIRST_RUN).mkdir(parents=True)
    forget_runs()
    with known_dags(TRAIN, OTHER):
        yield shown
    forget_runs()


@pytest.mark.parametrize("state", ["success", "failed", "running"])
def test_a_run_named_after_another_federations_shows_nothing_of_it(
    reader: Reader, two: Workspace, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    allow(monkeypatch, lambda dag: dag == OTHER)
    name = f"{JOINED}{FIRST_RUN}"
    write_run(name, state, {"bank_release.seal": state}, dag=OTHER)
    for page in (
        f"run?dag={OTHER}&run={name}",
        f"run?id={FIRST_RUN}",
        f"run?id={FIRST_RUN}&federation={NAME}",
        "status",
        "status.json",
    ):
        text = reader.page(page)
        for secret in ("income", "Charged: odds", "psi_answer", NAME):
            assert secret not in text, (page, secret)


def test_a_run_of_both_federations_is_shown_apart(
    reader: Reader, two: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, lambda _: True)
    write_run(f"{JOINED}{FIRST_RUN}", "success", dag=OTHER)
    own = reader.page(f"run?dag={OTHER}&run={JOINED}{FIRST_RUN}&party=bank")
    assert "Charged: odds" not in own
    assert "Charged: odds" in reader.page(f"run?id={FIRST_RUN}&party=bank&federation={NAME}")


def test_the_ledgers_page_shows_no_open_entry_of_another_federation(
    reader: Reader, two: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with state_of(two, "bank") as state:
        line = next(line for line in state.ledger.entries() if line.account == "exact")
        change = {"federation": "others", "run": HIDDEN, "artifact": "e" * 64}
        state.ledger.reserve([line.model_copy(update=change)])
    allow(monkeypatch, lambda dag: dag.startswith(NAME))
    assert HIDDEN not in reader.page("ledger?party=bank")
    allow(monkeypatch, lambda _: True)
    assert HIDDEN in reader.page("ledger?party=bank")
