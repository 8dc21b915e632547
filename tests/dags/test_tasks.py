"""What a task does with success and failure, and with missing slots."""

import errno
import json
import traceback
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseXCom, serde
from airflow.sdk.exceptions import AirflowFailException

from opboost_ops.errors import BudgetError, ContractError
from opboost_ops.orchestration.dags import run_notes, tasks
from opboost_ops.pipeline.party.form_values import FORM
from tests.dags.conftest import in_task

CELL = "cell-4711"


def failing(error: BaseException) -> Any:
    def work() -> dict[str, Any]:
        raise error

    return work


def test_a_summary_is_returned() -> None:
    assert tasks.execute("train", lambda: {"rows": 3}) == {"rows": 3}


def test_a_summary_over_the_limit_fails() -> None:
    with pytest.raises(AirflowFailException, match="limit of 2048"):
        tasks.execute("train", lambda: {"rows": "x" * 2040})
    assert tasks.execute("train", lambda: {"r": "x" * (2048 - 9)})


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(CELL),
        TimeoutError(CELL),
        OSError(errno.ENETUNREACH, CELL),
        OSError(errno.EHOSTUNREACH, CELL),
    ],
)
def test_network_faults_are_tried_again(error: Exception) -> None:
    with pytest.raises(ConnectionError) as caught:
        tasks.execute("train", failing(error))
    clean(caught.value)


@pytest.mark.parametrize(
    "error",
    [ValueError(CELL), KeyError(CELL), OSError(errno.ENOSPC, CELL), MemoryError(CELL)],
)
def test_other_faults_fail_at_once_and_say_nothing_foreign(error: Exception) -> None:
    with pytest.raises(AirflowFailException, match=type(error).__name__) as caught:
        tasks.execute("train", failing(error))
    clean(caught.value)


def test_our_own_errors_say_what_to_do() -> None:
    with pytest.raises(AirflowFailException, match=r"bad table\. Fix it\.") as caught:
        tasks.execute("train", failing(ContractError("bad table.", "Fix it.")))
    clean(caught.value)


def clean(error: BaseException) -> None:
    assert error.__cause__ is None
    assert error.__context__ is None
    assert CELL not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("conf", "word"),
    [({"epsilom": 0.01}, "epsilom"), ({"trees": 3, "Depth": 2}, "Depth")],
)
def test_unknown_form_fields_are_refused(
    good_file: Path, monkeypatch: pytest.MonkeyPatch, conf: dict[str, Any], word: str
) -> None:
    """``{"conf": {"epsilom": 0.01}}`` ran as declared."""
    monkeypatch.setenv("OPBOOST_SITE_CREDIT", str(good_file.parent / "credit" / "site.yaml"))
    in_task(monkeypatch, dict.fromkeys(FORM["train"]) | conf, conf=conf)
    with pytest.raises(AirflowFailException, match=f"The form has unknown fields: {word}"):
        tasks.open_run(str(good_file), "train")
    assert not list((good_file.parent / "exchange").iterdir())


@pytest.mark.parametrize("version", ["237475e120087497", "6600191769186975"])
def test_a_version_of_digits_stays_text(
    good_file: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """Read as a number, the first was infinite; only fields of numbers are numbers."""
    monkeypatch.setenv("OPBOOST_SITE_CREDIT", str(good_file.parent / "credit" / "site.yaml"))
    in_task(monkeypatch)
    with pytest.raises(AirflowFailException, match=rf"model version {version}\b"):
        tasks.open_run(str(good_file), "score", form={"version": version})
    with pytest.raises(AirflowFailException, match="trees"):
        tasks.open_run(str(good_file), "train", form={"trees": "1e999"})


def test_open_run_refuses_what_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BaseXCom, "delete", lambda *_: None)
    in_task(monkeypatch, blocked=True)
    with pytest.raises(AirflowFailException, match="cannot start all tasks") as caught:
        tasks.open_run("federation.yaml", "train")
    # With all else that is wrong.
    assert "federation.yaml" in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        ["send your keys to mallory"],
        {"__classname__": "airflow.models.nothing.Thing", "__version__": 1, "__data__": {}},
        {"__classname__": "airflow.sdk.Asset", "__version__": 1, "__data__": {"name": "a"}},
    ],
)
def test_what_a_worker_leaves_for_the_first_task_becomes_no_object_and_no_text(
    monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    imported: list[str] = []
    monkeypatch.setattr(serde, "import_string", imported.append)
    in_task(monkeypatch, blocked=value)
    with pytest.raises(AirflowFailException, match=r"federation\.yaml") as caught:
        tasks.open_run("federation.yaml", "train")
    assert not imported
    assert not any(word in str(caught.value) for word in ("mallory", "cannot start", "unexpected"))


def test_a_run_id_that_names_another_run_opens_none(monkeypatch: pytest.MonkeyPatch) -> None:
    in_task(monkeypatch, run_id=f"joined__{'a' * 16}")
    with pytest.raises(AirflowFailException, match="names a run of another Airflow"):
        tasks.open_run("federation.yaml", "train")


def test_a_failure_is_told_in_lines_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import structlog

    left = in_task(monkeypatch)
    problem = "the budget of income at bank would be exceeded, " * 8
    error = BudgetError(problem, "Ask its owner.")
    task = run_notes.log_failure(
        lambda: tasks.execute("desensitize at bank", failing(error), stage="desensitize")
    )
    with pytest.raises(run_notes.BudgetRefusedError) as caught:
        task()
    assert left["failure"] == {
        "refused": True,
        "problem": problem,
        "remedy": "Ask its owner.",
        "stage": "desensitize",
    }
    told = [record.getMessage() for record in caplog.records]
    assert max(map(len, told)) <= 102
    words = f"desensitize: {problem} Ask its owner."
    assert " ".join(" ".join(told).split()) == " ".join(words.split())
    (plain, *_) = structlog.get_config()["processors"]
    event = plain(None, "error", {"event": "Task failed", "exc_info": caught.value})
    assert "exc_info" not in event
    foreign = {"event": "Task failed", "exc_info": ValueError("x")}
    assert plain(None, "error", dict(foreign)) == foreign


def test_what_a_failure_leaves_in_xcom_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    left = in_task(monkeypatch)
    with pytest.raises(AirflowFailException):
        tasks.invalid("\u2265" * 4000)
    assert len(json.dumps(left["failure"])) <= run_notes.XCOM_LIMIT
