"""All that can be seen of a run from outside its parties."""

import io
import json
import logging
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import pytest

from opboost_ops.errors import OpBoostError
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.phases import ROUNDS
from opboost_ops.pipeline.runner import facts
from opboost_ops.pipeline.runner.opening import open_run
from opboost_ops.pipeline.runner.runner import run_stage
from tests.federation import Workspace

#: What is seen, by place: ``exchange/<file>``, ``summary/<step>``, ``notices/<step>``,
#: ``facts/<step>``, ``error/<step>``, ``log/<step>`` and ``printed``.
Observation = dict[str, bytes]

#: Does a step, with what it notices and what it tells as a metric.
Work = Callable[[Callable[[str], None], facts.Tell], dict[str, Any]]

#: The step that a thread is at.
_HERE = threading.local()


def here() -> str:
    """The step that this thread is at; empty between two."""
    return getattr(_HERE, "step", "")


def differences(one: Observation, other: Observation) -> list[str]:
    """The places where two observations differ."""
    return sorted(place for place in {*one, *other} if one.get(place) != other.get(place))


@dataclass
class Watch:
    """Runs stages of parties and writes down what is seen.

    Attributes:
        workspace: The federation.
        tries: How often each stage is run; more than once is a retry.
        seen: What was seen.
    """

    workspace: Workspace
    tries: int = 1
    seen: Observation = field(default_factory=dict)

    def all(self, until: str = "") -> bool:
        """A whole run, or up to a stage or a step; False if it ended in an error."""
        made = self.workspace
        if not self._try("open_run", lambda *_: open_run(made.file, made.run, {}, made.purpose)):
            return False
        together: list[str] = []
        for step in made.steps():
            if until in (step.stage, str(step)):
                return True
            if step.stage == ROUNDS:
                together.append(step.party)
                continue
            if not self._rounds(together) or not self.step(step.party, step.stage):
                return False
        return self._rounds(together)

    def _rounds(self, parties: list[str]) -> bool:
        """The stage in which parties wait for each other, at the same time."""
        threads = [threading.Thread(target=self.step, args=(name, ROUNDS)) for name in parties]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        failed = [f"error/{name}.{ROUNDS}" in self.seen for name in parties]
        parties.clear()
        return not any(failed)

    def step(self, party: str, stage: str) -> bool:
        """One stage of one party; False if it ended in an error."""
        federation = self.workspace.declared
        run = Run(federation.name, self.workspace.run, federation.label_holder)
        name = f"{party}.{stage}"
        return self._try(name, lambda notice, fact: run_stage(party, stage, run, notice, fact))

    def _try(self, name: str, work: Work) -> bool:
        for again in range(self.tries):
            place = f"{name}, try {again + 1}" if again else name
            notices: list[str] = []
            told: list[tuple[str, float]] = []

            def fact(name: str, value: float, told: list[tuple[str, float]] = told) -> None:
                # When a run registers a model, the clock says; that it does is what is seen here.
                told.append((name, 0 if name == facts.CHAMPION else value))

            _HERE.step = place
            try:
                summary = work(notices.append, fact)
            except (OpBoostError, ConnectionError) as error:
                lines = "".join(traceback.format_exception(error))
                self.seen[f"error/{place}"] = f"{type(error).__name__}\n{lines}".encode()
                return False
            finally:
                _HERE.step = ""
            self.seen[f"summary/{place}"] = json.dumps(summary).encode()
            self.seen[f"notices/{place}"] = json.dumps(notices).encode()
            self.seen[f"facts/{place}"] = json.dumps(told).encode()
        return True


def observe(workspace: Workspace, work: Callable[[Watch], object], tries: int = 1) -> Observation:
    """What is seen of some work with a federation, and of its exchange after it.

    Args:
        workspace: The federation, whose sites this process knows.
        work: What is done.
        tries: How often each stage is run.
    """
    watch = Watch(workspace, tries)
    with printed() as texts, logged() as lines:
        work(watch)
    watch.seen["printed"] = texts[0]
    for place, told in lines.items():
        watch.seen[f"log/{place}"] = "\n".join(told).encode()
    for name, content in workspace.files("exchange").items():
        watch.seen[f"exchange/{name}"] = content
    return watch.seen


@contextmanager
def printed() -> Iterator[list[bytes]]:
    """All that this process writes to its standard outputs meanwhile, C++ included."""
    found: list[bytes] = []
    with tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        sys.stderr.flush()
        saved = [(number, os.dup(number)) for number in (1, 2)]
        for number, _ in saved:
            os.dup2(file.fileno(), number)
        text = io.TextIOWrapper(os.fdopen(os.dup(file.fileno()), "wb"), write_through=True)
        try:
            with redirect_stdout(text), redirect_stderr(text):
                yield found
        finally:
            text.close()
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)
            file.seek(0)
            found.append(file.read())


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: dict[str, list[str]] = {}
        self.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.setdefault(here(), []).append(self.format(record))


@contextmanager
def logged() -> Iterator[dict[str, list[str]]]:
    """What anybody logs meanwhile, by step, as the log of an Airflow task has it."""
    handler, root = _Lines(), logging.getLogger()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(root, "handlers", [handler])
        patch.setattr(root, "level", logging.INFO)
        patch.setattr(root.manager, "disable", 0)
        # Other tests of the same process may have silenced some.
        for name, logger in list(root.manager.loggerDict.items()):
            if isinstance(logger, logging.Logger) and name.startswith("opboost_ops"):
                patch.setattr(logger, "level", logging.NOTSET)
                patch.setattr(logger, "disabled", False)
                patch.setattr(logger, "propagate", True)
        root.manager._clear_cache()
        yield handler.lines
    root.manager._clear_cache()
