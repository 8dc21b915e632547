"""One party's worker in a run without Airflow: it executes the stages that the driver names.

The driver calls `execute` in a thread of its own process, or has a process of the party's `serve`,
which reads a stage's name from each line of its input.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from opboost_ops.config.federation import Purpose
from opboost_ops.config.loading import site_file, site_of
from opboost_ops.errors import ApprovalError, ConfigError, OpBoostError
from opboost_ops.exchange.party_state import reuse_open_state
from opboost_ops.exchange.rounds.protocol import LOGGER
from opboost_ops.pipeline.party.inbox import Run, home_of
from opboost_ops.pipeline.phases import OPEN, ROUNDS
from opboost_ops.pipeline.redaction import whole
from opboost_ops.pipeline.runner.facts import spent_by
from opboost_ops.pipeline.runner.opening import open_run
from opboost_ops.pipeline.runner.runner import run_stage
from opboost_ops.pipeline.stage import SKIP

#: Seconds between two looks for a person's answer.
_AGAIN = 2.0


@dataclass(frozen=True)
class Assignment:
    """A party's part in a run.

    Attributes:
        party: Its name.
        run: The run.
        purpose: What the run is for.
        form: As in the trigger form.
        federation_file: ``federation.yaml``, absolute.
    """

    party: str
    run: Run
    purpose: Purpose
    form: Mapping[str, Any]
    federation_file: str

    def first_line(self, environment: Mapping[str, str], folder: Path) -> str:
        """The line that a party's process reads before the names of stages.

        Args:
            environment: All variables that the process may know.
            folder: Where it works.
        """
        about = {"environment": dict(environment), "folder": str(folder)}
        return json.dumps({"assignment": asdict(self), **about}) + "\n"


def execute(
    assignment: Assignment, stage: str, waits: Callable[[str], None]
) -> tuple[dict[str, Any], dict[str, float]]:
    """Execute one stage of a party, whose site this thread or process knows.

    Args:
        assignment: The party's part in the run.
        stage: One of its stages.
        waits: Called with a text when the stage begins to wait for a person.

    Returns:
        The stage's whole summary, and the seconds that it took: for the party's own people.

    Raises:
        OpBoostError: The stage failed, or there is nothing to do.
    """
    party, run = assignment.party, assignment.run
    if stage == OPEN:
        file = Path(assignment.federation_file)
        summary = open_run(file, run.run, assignment.form, assignment.purpose)
        if SKIP in summary:
            raise ConfigError(f"Nothing was done: {summary[SKIP]}.")
    else:
        summary = _after_approval(party, stage, run, waits)
        summary = whole(home_of(site_of(party)[0], run.federation, run.run), stage, summary)
    return summary, spent_by(site_file(party), run.federation, run.run).get(stage, {})


def _after_approval(
    party: str, stage: str, run: Run, waits: Callable[[str], None]
) -> dict[str, Any]:
    while True:
        try:
            return run_stage(party, stage, run)
        except ApprovalError as asked:
            if asked.new:
                waits(str(asked))
        time.sleep(_AGAIN)


def sent_error(error: OpBoostError | ConnectionError) -> dict[str, Any]:
    """An error as a party's process sends it: its kind, and its texts by name.

    Args:
        error: The stage's.
    """
    if isinstance(error, OpBoostError):
        facts = {name: value for name, value in vars(error).items() if isinstance(value, str)}
        return {"kind": type(error).__name__, "facts": facts}
    return {"kind": "ConnectionError", "facts": {"problem": str(error)}}


def received_error(event: Mapping[str, Any]) -> Exception:
    """The error that `sent_error` sent, with the stage before its problem.

    Args:
        event: The event of a stage that has failed.
    """
    facts = {**event["facts"], "problem": f"{event['stage']}: {event['facts']['problem']}"}
    if event["kind"] == "ConnectionError":
        return ConnectionError(facts["problem"])
    kinds = {kind.__name__: kind for kind in _kinds(OpBoostError)}
    kind = kinds.get(event["kind"], OpBoostError)
    # Kinds differ in their arguments, which became problem and remedy where the error was raised.
    error = kind.__new__(kind)
    OpBoostError.__init__(error, facts["problem"], facts["remedy"])
    vars(error).update(facts)
    return error


def _kinds(kind: type[OpBoostError]) -> Iterator[type[OpBoostError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)


def serve() -> int:
    """Execute the stages named on stdin, a line each; events go to stdout, a JSON line each.

    The first line is `Assignment.first_line`.

    Returns:
        0 at the end of the input, 1 as soon as a stage failed.
    """
    first = sys.stdin.readline()
    if not first:
        return 0
    about = json.loads(first)
    os.environ.clear()
    os.environ.update(about["environment"])
    os.chdir(about["folder"])
    data = about["assignment"]
    assignment = Assignment(**{**data, "run": Run(**data["run"])})
    logger = logging.getLogger(LOGGER)
    logger.setLevel(logging.INFO)
    logger.addHandler(_ProgressHandler())
    _emit(event="ready")
    with reuse_open_state():
        return _serve(assignment)


def _serve(assignment: Assignment) -> int:
    for line in sys.stdin:
        stage = line.strip()

        def waits(text: str, stage: str = stage) -> None:
            _emit(event="waits", stage=stage, text=text)

        try:
            summary, spent = execute(assignment, stage, waits)
        except (OpBoostError, ConnectionError) as error:
            _emit(event="failed", stage=stage, **sent_error(error))
            return 1
        _emit(event="finished", stage=stage, summary=summary, spent=spent)
    return 0


class _ProgressHandler(logging.Handler):
    """Emits how far the rounds are, or the trials of tuning, which are long stages."""

    def emit(self, record: logging.LogRecord) -> None:
        stage = getattr(record, "stage", ROUNDS)
        _emit(event="progress", stage=stage, text=record.getMessage())


def _emit(**event: Any) -> None:
    print(json.dumps(event), flush=True)
