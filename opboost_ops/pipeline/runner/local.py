"""A run without Airflow: all parties on this machine, each in its own process.

Each party executes its stages in the order of `phases`. A phase begins when all parties whose
artifacts it waits for have completed their earlier phases; parties meet only at the store.

In a small run, imports take longer than anything else. They are done once, first, in the fork
server; code that needs those libraries is called in a forked process, and this one never imports
them.
"""

import json
import os
import secrets
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition
from typing import TYPE_CHECKING, Any

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import load_federation, load_site
from opboost_ops.errors import OpBoostError
from opboost_ops.pipeline.party.form_values import with_form
from opboost_ops.pipeline.party.party_sites import common_environment, party_environment, site_files
from opboost_ops.pipeline.phases import OPEN, phases, stages_of
from opboost_ops.pipeline.runner.fork_server import ForkServer
from opboost_ops.pipeline.runner.worker import Assignment, call_line, received_error
from opboost_ops.pipeline.step_types import Phase

if TYPE_CHECKING:
    from opboost_ops.pipeline.party.inbox import Run

Listener = Callable[[str, dict[str, Any]], None]

#: Called with a text when a stage starts to wait for a person.
_Waits = Callable[[str], None]

#: A stage's result: its summary, and seconds by activity.
_Result = tuple[dict[str, Any], dict[str, float]]

#: Called with a party's ``site.yaml`` and the run when the party waits for a person.
AtWait = Callable[[Path, "Run"], None]


@dataclass
class Finished:
    """A run that completed successfully.

    Attributes:
        run: Its ID.
        federation: The federation of the run.
        summaries: Summaries by party and stage.
        spent: Seconds by party, stage and activity, from the parties' homes: for the
            operator of all parties.
    """

    run: str
    federation: Federation
    summaries: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    spent: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)

    def read_homes(self, sites: Mapping[str, Path]) -> None:
        """Add times and unredacted summaries from the parties' homes.

        Args:
            sites: ``site.yaml`` by party.
        """
        from opboost_ops.pipeline.party.inbox import home_of
        from opboost_ops.pipeline.redaction import whole
        from opboost_ops.pipeline.runner.facts import spent_by

        for party, site in sites.items():
            self.spent[party] = spent_by(site, self.federation.name, self.run)
            home = home_of(load_site(site), self.federation.name, self.run)
            stages = self.summaries.get(party, {})
            stages.update({stage: whole(home, stage, summary) for stage, summary in stages.items()})

    def seconds(self, key: str = "seconds") -> dict[str, float]:
        """Return seconds by stage, of the slowest party if parties run in parallel."""
        slowest: dict[str, float] = {}
        for stages in self.spent.values():
            for stage, spent in stages.items():
                slowest[stage] = max(slowest.get(stage, 0.0), spent.get(key, 0.0))
        return slowest


def run_federation(
    federation_file: Path,
    form: Mapping[str, Any],
    listener: Listener | None = None,
    purpose: Purpose = "train",
    at_wait: AtWait | None = None,
    server: ForkServer | None = None,
) -> Finished:
    """Run a federation with all parties on this machine; each process knows only its own site.

    Args:
        federation_file: Path of ``federation.yaml``.
        form: Values of the trigger form.
        listener: Called with party and event for each started or finished stage, never
            concurrently.
        purpose: The run's purpose.
        at_wait: Answers in place of a party's people, or raises; if None, the run waits for them.
        server: Fork server to use unless its environment has a party's variable; if None, a new
            one is started.

    Raises:
        ConfigError: A party has not agreed to the current file; nothing was published.
        OpBoostError: Everything that blocks the run at any party, before it begins; or the first
            failure of any party.
    """
    federation = load_federation(federation_file)
    sites = site_files(federation_file, federation)
    common = common_environment(sites)
    usable = server is not None and server.environment.keys() <= common.keys()
    with nullcontext(server) if server and usable else ForkServer(common) as forks:
        run, file = secrets.token_hex(8), str(federation_file.resolve())
        request = {"federation_file": file, "run": run, "form": dict(form), "purpose": purpose}
        call(forks, "opboost_ops.pipeline.runner.readiness:require_ready_parties", request)
        if purpose == "train":
            federation = with_form(federation, form)
        finished = Finished(run, federation)
        assignments = [
            Assignment(party, federation.name, run, federation.label_holder, purpose, form, file)
            for party in federation.parties
            if stages_of(federation, purpose, party)
        ]
        _drive(finished, assignments, sites, forks, listener, at_wait)
    return finished


def call(server: ForkServer, function: str, arguments: Mapping[str, Any]) -> Any:
    """Call a function in a forked process, with all environment variables of this process.

    Args:
        server: The fork server.
        function: Its module, a colon and its name; its result must be a JSON value.
        arguments: JSON values by name.

    Raises:
        OpBoostError: The function raised it, or the process ended.
        ConnectionError: The function raised it.
    """
    process = _Process("this command", call_line(function, arguments), server)
    try:
        event = process.next()
    finally:
        process.end()
    if event["event"] == "failed":
        raise received_error(event)
    return event["result"]


def _drive(
    finished: Finished,
    assignments: Sequence[Assignment],
    sites: Mapping[str, Path],
    server: ForkServer,
    listener: Listener | None,
    at_wait: AtWait | None,
) -> None:
    """Execute all parties' stages, until the end or the first failure.

    Args:
        finished: The run; receives the stages' summaries and times.
        assignments: One for each party with stages.
        sites: ``site.yaml`` by party.
        server: Forks a process for each party.
        listener: See `run_federation`.
        at_wait: See `run_federation`.

    Raises:
        OpBoostError: The first failure of any party.
    """
    workers: dict[str, _Process] = {}
    by_party = {assignment.party: assignment for assignment in assignments}

    def on_wait(party: str) -> None:
        if at_wait is not None:
            at_wait(sites[party], by_party[party].run)

    with ExitStack() as stack:
        for party, each in by_party.items():
            line = each.first_line(party_environment(party, sites), sites[party].parent)
            workers[party] = _Process(party, line, server)
            stack.callback(workers[party].end)
        for worker in workers.values():
            worker.next()
        _Driver(finished, assignments[0].purpose, workers, listener, on_wait).drive()


class _StoppedError(Exception):
    """Another party has failed, so this one stops."""


class _Driver:
    """Executes each party's stages in a thread, and stops all when one fails."""

    def __init__(
        self,
        finished: Finished,
        purpose: Purpose,
        workers: Mapping[str, "_Process"],
        listener: Listener | None,
        on_wait: Callable[[str], None],
    ) -> None:
        self._finished, self._purpose, self._workers = finished, purpose, workers
        self._listener, self._on_wait = listener, on_wait
        self._phases = phases(finished.federation, purpose)
        self._changed = Condition()
        self._opened = False
        self._ended: set[tuple[str, int]] = set()
        self._failure: BaseException | None = None

    def drive(self) -> None:
        with ThreadPoolExecutor(len(self._workers)) as pool:
            try:
                for party in self._workers:
                    pool.submit(self._take_part, party)
                with self._changed:
                    self._changed.wait_for(lambda: self._failure or self._all_ended())
            finally:
                for worker in self._workers.values():
                    worker.end()
                with self._changed:
                    self._failure = self._failure or (
                        None if self._all_ended() else _StoppedError()
                    )
                    self._changed.notify_all()
        if self._failure is not None:
            raise self._failure

    def _take_part(self, party: str) -> None:
        try:
            self._execute_all(party)
        except _StoppedError:
            return
        except BaseException as error:
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()

    def _execute_all(self, party: str) -> None:
        federation = self._finished.federation
        if party == federation.label_holder:
            self._execute(party, OPEN)
            self._end(party, opened=True)
        for at, phase in enumerate(self._phases):
            if party not in phase.parties(federation):
                continue
            self._wait_for(at, phase)
            for stage in phase.stages:
                self._execute(party, stage)
            self._end(party, at)

    def _wait_for(self, at: int, phase: Phase) -> None:
        """Wait until the run is open and a phase's senders have completed their earlier phases."""
        federation = self._finished.federation
        needed = {
            (sender, before)
            for before, earlier in enumerate(self._phases[:at])
            for sender in set(phase.senders(federation)) & set(earlier.parties(federation))
        }
        with self._changed:
            self._changed.wait_for(
                lambda: self._failure or (self._opened and needed <= self._ended)
            )
            if self._failure is not None:
                raise _StoppedError

    def _execute(self, party: str, stage: str) -> None:
        federation, finished = self._finished.federation, self._finished
        count = len(stages_of(federation, self._purpose, party))
        if self._failure is not None:
            raise _StoppedError
        of = count + (party == federation.label_holder)
        self._report(party, {"event": "started", "stage": stage, "of": of})

        def progress(text: str, of_stage: str = stage) -> None:
            self._report(party, {"event": "progress", "stage": of_stage, "text": text})

        def waits(text: str) -> None:
            self._report(party, {"event": "waits", "stage": stage, "text": text})
            self._on_wait(party)

        try:
            summary, spent = self._workers[party].execute(stage, progress, waits)
        except Exception as error:
            self._report(party, {"event": "failed", "stage": stage, "error": str(error)})
            raise
        with self._changed:
            finished.summaries.setdefault(party, {})[stage] = summary
            finished.spent.setdefault(party, {})[stage] = spent
        event = {"event": "finished", "stage": stage, "summary": summary, "spent": spent}
        self._report(party, event)

    def _report(self, party: str, event: dict[str, Any]) -> None:
        if self._listener is not None:
            with self._changed:
                self._listener(party, event)

    def _end(self, party: str, at: int | None = None, *, opened: bool = False) -> None:
        with self._changed:
            self._opened |= opened
            self._ended |= set() if at is None else {(party, at)}
            self._changed.notify_all()

    def _all_ended(self) -> bool:
        federation = self._finished.federation
        every = {(p, at) for at, ph in enumerate(self._phases) for p in ph.parties(federation)}
        return every <= self._ended


class _Process:
    """A forked process that follows its first input line; a party's has its own environment."""

    def __init__(self, whose: str, first_line: str, server: ForkServer) -> None:
        self._whose = whose
        theirs, mine = os.pipe()
        self._input = os.fdopen(mine, "w", encoding="utf-8")
        mine, answers = os.pipe()
        self._output = os.fdopen(mine, encoding="utf-8")
        try:
            self._pid = server.fork(theirs, answers)
        except ChildProcessError as error:
            raise OpBoostError(f"No process could be started for {whose}: {error}.") from None
        finally:
            os.close(theirs)
            os.close(answers)
        self._write(first_line)

    def execute(self, stage: str, progress: Callable[..., None], waits: _Waits) -> _Result:
        self._write(f"{stage}\n")
        while (event := self.next())["event"] in ("progress", "waits"):
            if event["event"] == "progress":
                progress(event["text"], event["stage"])
            else:
                waits(event["text"])
        if event["event"] == "failed":
            raise received_error(event)
        return event["summary"], event["spent"]

    def next(self) -> dict[str, Any]:
        for line in self._output:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and "event" in event:
                return event
        raise OpBoostError(
            f"The process of {self._whose} ended without a message.",
            "A line above names the error; without one, the system may have killed it for lack of "
            "memory.",
        )

    def _write(self, text: str) -> None:
        # `next` reports a process that has just ended.
        with suppress(BrokenPipeError):
            self._input.write(text)
            self._input.flush()

    def end(self) -> None:
        """Terminate the process; the server releases its PID at its own end."""
        if self._output.closed:
            return
        # The server may have been killed together with its processes.
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
        with suppress(BrokenPipeError):
            self._input.close()
        # Its output closes when it ends.
        for _ in self._output:
            pass
        self._output.close()
