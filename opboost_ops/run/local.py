"""A federation without Airflow: a process a party, meeting only at the store."""

import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import load_federation, load_site
from opboost_ops.config.private_faults import may_drop_out
from opboost_ops.errors import ConfigError, Fault, OpBoostError
from opboost_ops.run import agreement
from opboost_ops.run.all_ready import require_all_ready
from opboost_ops.run.form_values import with_form
from opboost_ops.run.inbox import Run
from opboost_ops.run.phases import ROUNDS, stages_of

#: Seconds that a party waits for another's artifact.
TIMEOUT = 900.0

#: What a party's process sees of this one's environment, beside its own site.
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV")

#: How variables begin that say how a training's threads work.
_THREADS = ("OMP_", "GOMP_", "KMP_")

Listener = Callable[[str, dict[str, Any]], None]


@dataclass
class Finished:
    """A run that ended well.

    Attributes:
        run: Its id.
        federation: As it was run.
        summaries: What each stage said, by party and stage.
        spent: Seconds that each stage took, by party and stage, as their homes have them: for
            whoever runs all parties.
        gone: Parties that dropped out of a session that went on.
    """

    run: str
    federation: Federation
    summaries: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    spent: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)

    def seconds(self, key: str = "seconds") -> dict[str, float]:
        """Seconds by stage: the slowest party where parties run side by side."""
        slowest: dict[str, float] = {}
        for stages in self.spent.values():
            for stage, spent in stages.items():
                slowest[stage] = max(slowest.get(stage, 0.0), spent.get(key, 0.0))
        return slowest

    def total(self, key: str = "processor_seconds") -> dict[str, float]:
        """Seconds by stage, those of all parties added up."""
        found: dict[str, float] = {}
        for stages in self.spent.values():
            for stage, spent in stages.items():
                found[stage] = found.get(stage, 0.0) + spent.get(key, 0.0)
        return found


def party_site_file(federation_file: Path, party: str) -> Path | None:
    """Where one party's ``site.yaml`` is: its environment variable, else beside the file.

    Args:
        federation_file: ``federation.yaml``.
        party: Its name.

    Returns:
        The path; None if neither is known.
    """
    variable = f"OPBOOST_SITE_{party.upper()}"
    if variable in os.environ:
        return Path(os.environ[variable])
    default = federation_file.parent / party / "site.yaml"
    return default if default.is_file() else None


def site_files(federation_file: Path, federation: Federation) -> dict[str, Path]:
    """Where each party's ``site.yaml`` is: its environment variable, else beside the file.

    Args:
        federation_file: ``federation.yaml``.
        federation: What it says.

    Raises:
        ConfigError: Naming every party without a site.
    """
    found: dict[str, Path] = {}
    lacking: list[str] = []
    for party in federation.parties:
        path = party_site_file(federation_file, party)
        if path is None:
            lacking.append(f"{party} (set OPBOOST_SITE_{party.upper()})")
        else:
            found[party] = path
    if lacking:
        raise ConfigError(f"No site.yaml is known for {', '.join(lacking)}.")
    return found


def require_agreed(federation_file: Path, federation: Federation, *, named: bool = False) -> None:
    """Refuse what a party has not agreed to, before anybody does anything.

    For whoever may read all parties' sites, as on one machine.

    Args:
        federation_file: ``federation.yaml``.
        federation: What it says.
        named: Whether to name the fields that are new, too.

    Raises:
        ConfigError: Naming every party that has not agreed, with the command by which it may.
    """
    faults: list[Fault] = []
    for party, file in site_files(federation_file, federation).items():
        if lacks := agreement.lacking(load_site(file), federation):
            command = f"`opboost agree {file.parent} {federation_file}`"
            problem = lacks if named else "has not agreed to it"
            faults.append(Fault(party, problem, f"read what will leave: {command}"))
    if faults:
        missing = "1 party has" if len(faults) == 1 else f"{len(faults)} parties have"
        raise ConfigError(
            f"{missing} not agreed to it as it is", file=federation_file.name, faults=faults
        )


def run_federation(
    federation_file: Path,
    form: Mapping[str, Any],
    listener: Listener | None = None,
    purpose: Purpose = "train",
) -> Finished:
    """Run a federation, every party in a process that gets its own site and nothing else.

    Args:
        federation_file: ``federation.yaml``.
        form: As in the trigger form.
        listener: Called with party and event for every started or finished stage.
        purpose: What the run is for.

    Returns:
        What each stage said.

    Raises:
        ConfigError: A party has not agreed to the file as it is; nothing was published.
        OpBoostError: All that is in the way at any party, before anything is begun; or the first
            failure of any party; all processes are ended.
    """
    federation = load_federation(federation_file)
    if purpose == "train":
        require_agreed(federation_file, federation)
        federation = with_form(federation, form)
    run = secrets.token_hex(8)
    finished = Finished(run, federation)
    sites = site_files(federation_file, federation)
    require_all_ready(federation_file, sites, run, form, purpose)
    events: Queue[tuple[str, dict[str, Any]]] = Queue()
    processes: dict[str, subprocess.Popen[str]] = {}
    try:
        for party in federation.parties:
            order = {
                "party": party,
                "stages": stages_of(federation, purpose, party),
                "purpose": purpose,
                "run": vars(Run(federation.name, run, federation.label_holder, TIMEOUT)),
                "form": dict(form),
                "federation_file": str(federation_file.resolve()),
                "preload": True,
            }
            if not order["stages"]:
                continue
            processes[party] = _start(party, order, sites[party])
            threading.Thread(
                target=_listen, args=(party, processes[party], events), daemon=True
            ).start()
        waiting = set(processes)
        running = set(processes)
        stage: dict[str, str] = {}
        while running:
            party, event = events.get()
            stage[party] = event.get("stage", stage.get(party, ""))
            broke = event["event"] == "failed" or event.get("code", 0) != 0
            if broke and party not in finished.gone and stage[party] == ROUNDS:
                _note_gone(party, finished)
            if event["event"] == "ready":
                waiting.discard(party)
                if not waiting:
                    for process in processes.values():
                        _go(process)
            elif event["event"] == "failed":
                if party not in finished.gone:
                    raise _error(event)
            elif event["event"] == "ended":
                if event["code"] != 0 and party not in finished.gone:
                    raise OpBoostError(f"The process of {party} ended with {event['code']}.")
                running.discard(party)
            elif event["event"] == "finished":
                finished.summaries.setdefault(party, {})[event["stage"]] = event["summary"]
                finished.spent.setdefault(party, {})[event["stage"]] = event["spent"]
            if listener and "stage" in event:
                listener(party, event)
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.terminate()
        for process in processes.values():
            process.wait()
    return finished


def _note_gone(party: str, finished: Finished) -> None:
    """Let a run go on without a party, if the session that it broke off may."""
    federation = finished.federation
    private = federation.training.private
    if not may_drop_out(federation) or party == federation.label_holder:
        return
    assert private is not None and private.remain is not None
    if len(federation.parties) - len(finished.gone) > private.remain:
        finished.gone.append(party)


def _start(party: str, order: Mapping[str, Any], site: Path) -> "subprocess.Popen[str]":
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _ENVIRONMENT or name.startswith(_THREADS)
    }
    environment[f"OPBOOST_SITE_{party.upper()}"] = str(site.resolve())
    return subprocess.Popen(
        [
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "opboost_ops.run.party_process",
            json.dumps(order),
        ],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=site.parent,
    )


def _listen(
    party: str, process: "subprocess.Popen[str]", events: "Queue[tuple[str, dict[str, Any]]]"
) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "event" in event:
            events.put((party, event))
    events.put((party, {"event": "ended", "code": process.wait()}))


def _go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    try:
        process.stdin.write("\n")
        process.stdin.flush()
    except BrokenPipeError:
        return  # It has just ended, and says so itself.


def _error(event: dict[str, Any]) -> OpBoostError:
    kinds = {kind.__name__: kind for kind in OpBoostError.__subclasses__()}
    kind = kinds.get(event["kind"], OpBoostError)
    return kind(f"{event['stage']}: {event['error']}")
