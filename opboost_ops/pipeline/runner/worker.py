"""The processes of a run without Airflow, forked for its driver.

A party's worker executes the stages that the driver names, one per input line. Another process
calls a single function for the driver, which therefore does not load the stages' libraries. The
driver imports this module too, so those libraries are imported inside functions.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opboost_ops.config.federation import Purpose
from opboost_ops.config.loading import site_file, site_of
from opboost_ops.errors import ApprovalError, ConfigError, Fault, OpBoostError
from opboost_ops.pipeline.phases import OPEN, ROUNDS

if TYPE_CHECKING:
    from opboost_ops.pipeline.party.inbox import Run

#: Seconds that a party waits for another party's artifact.
TIMEOUT = 900.0

#: Seconds between polls for a person's answer.
_POLL_SECONDS = 2.0


@dataclass(frozen=True)
class Assignment:
    """A party's part in a run.

    Attributes:
        party: Name of the party.
        federation: Name of the federation.
        run_id: The run's ID.
        label_holder: The party that opens the run.
        purpose: The run's purpose.
        form: Values of the trigger form.
        federation_file: Absolute path of ``federation.yaml``.
    """

    party: str
    federation: str
    run_id: str
    label_holder: str
    purpose: Purpose
    form: Mapping[str, Any]
    federation_file: str

    @property
    def run(self) -> "Run":
        """Return the run."""
        from opboost_ops.pipeline.party.inbox import Run

        return Run(self.federation, self.run_id, self.label_holder, TIMEOUT)

    def first_line(self, environment: Mapping[str, str], folder: Path) -> str:
        """Return the input line that a party's process reads before the names of stages.

        Args:
            environment: All environment variables of the process.
            folder: Its working folder.
        """
        return _first_line({"assignment": asdict(self)}, environment, folder)


def call_line(function: str, arguments: Mapping[str, Any]) -> str:
    """Return the input line for a function call, with this process's folder and environment.

    Args:
        function: Its module, a colon and its name.
        arguments: JSON values by name.
    """
    return _first_line({"call": function, "arguments": arguments}, os.environ, Path.cwd())


def _first_line(work: Mapping[str, Any], environment: Mapping[str, str], folder: Path) -> str:
    about = {"environment": dict(environment), "folder": str(folder)}
    return json.dumps({**work, **about}) + "\n"


def execute(
    assignment: Assignment, stage: str, waits: Callable[[str], None]
) -> tuple[dict[str, Any], dict[str, float]]:
    """Execute one stage of a party whose site this thread or process knows.

    Args:
        assignment: The party's part in the run.
        stage: One of its stages.
        waits: Called with a text when the stage starts to wait for a person.

    Returns:
        The stage's unredacted summary and its seconds by activity, for the party's own people.

    Raises:
        OpBoostError: The stage failed, or there is nothing to do.
    """
    from opboost_ops.pipeline.party.inbox import home_of
    from opboost_ops.pipeline.redaction import whole
    from opboost_ops.pipeline.runner.facts import spent_by
    from opboost_ops.pipeline.runner.opening import open_run
    from opboost_ops.pipeline.stage import SKIP

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
    party: str, stage: str, run: "Run", waits: Callable[[str], None]
) -> dict[str, Any]:
    from opboost_ops.pipeline.runner.runner import run_stage

    while True:
        try:
            return run_stage(party, stage, run)
        except ApprovalError as asked:
            if asked.new:
                waits(str(asked))
        time.sleep(_POLL_SECONDS)


def sent_error(error: OpBoostError | ConnectionError) -> dict[str, Any]:
    """Serialise an error for another process: its type, its texts by name, and its faults.

    Args:
        error: The error.
    """
    if isinstance(error, OpBoostError):
        facts = {name: value for name, value in vars(error).items() if isinstance(value, str)}
        faults = [asdict(fault) for fault in error.faults] if isinstance(error, ConfigError) else []
        kind = [type(error).__module__, type(error).__name__]
        return {"kind": kind, "facts": facts, "faults": faults}
    return {"kind": None, "facts": {"problem": str(error)}}


def received_error(event: Mapping[str, Any]) -> Exception:
    """Rebuild the error of `sent_error`, with the stage, if any, before its problem.

    Args:
        event: The event of a failed stage or call.
    """
    facts = dict(event["facts"])
    if stage := event.get("stage"):
        facts["problem"] = f"{stage}: {facts['problem']}"
    if event["kind"] is None:
        return ConnectionError(facts["problem"])
    module, name = event["kind"]
    kind: type[OpBoostError] = getattr(import_module(module), name)
    # Types differ in their arguments, so set the final problem and remedy directly.
    error = kind.__new__(kind)
    OpBoostError.__init__(error, facts["problem"], facts["remedy"])
    vars(error).update(facts)
    if isinstance(error, ConfigError):
        error.faults = tuple(Fault(**fault) for fault in event["faults"])
    return error


def serve() -> int:
    """Follow the instructions on stdin, and write events to stdout as JSON lines.

    The first line is `call_line`, or `Assignment.first_line` followed by one stage name per line.

    Returns:
        0 at the end of the input, 1 after the first failure.
    """
    first = sys.stdin.readline()
    if not first:
        return 0
    about = json.loads(first)
    os.environ.clear()
    os.environ.update(about["environment"])
    os.chdir(about["folder"])
    if "call" in about:
        return _answer(about["call"], about["arguments"])
    from opboost_ops.exchange.party_state import reuse_open_state
    from opboost_ops.exchange.rounds.protocol import LOGGER

    logger = logging.getLogger(LOGGER)
    logger.setLevel(logging.INFO)
    logger.addHandler(_ProgressHandler())
    _emit(event="ready")
    with reuse_open_state():
        return _serve(Assignment(**about["assignment"]))


def _answer(function: str, arguments: Mapping[str, Any]) -> int:
    module, _, name = function.partition(":")
    try:
        result = getattr(import_module(module), name)(**arguments)
    except (OpBoostError, ConnectionError) as error:
        _emit(event="failed", **sent_error(error))
        return 1
    _emit(event="finished", result=result)
    return 0


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
    """Emits log records of long stages as progress events: rounds and tuning trials."""

    def emit(self, record: logging.LogRecord) -> None:
        stage = getattr(record, "stage", ROUNDS)
        _emit(event="progress", stage=stage, text=record.getMessage())


def _emit(**event: Any) -> None:
    print(json.dumps(event), flush=True)
