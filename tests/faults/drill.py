"""A drill: the workers of real runs are killed at random points, and what is left is looked at."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import httpx

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import load_federation, load_site
from opboost_ops.config.schema import Record
from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.manifest import run_id
from opboost_ops.exchange.store.store import Store, open_store
from opboost_ops.exchange.verification import declared_keys, read_manifest, verify
from opboost_ops.pipeline.phases import stages_by_task, steps
from tests.deployments import PARTIES
from tests.faults.armed import FOLDER, SITECUSTOMIZE
from tests.faults.rig import Rig
from tests.waiting import until

#: Who is killed: the task's own process, the one that supervises it, or all of the worker.
VICTIMS = ("task", "supervisor", "worker")

#: Seconds until a run must have ended.
_PATIENCE = 1200.0


class Blow(Record):
    """One kill, and how its run ended.

    Attributes:
        number: Of the kill.
        party: Whose worker.
        stage: In which stage.
        whom: One of `VICTIMS`.
        delay: Seconds after the stage began.
        tries: How often the stage's task was tried in all.
        seconds: From trigger to end.
        problems: What was wrong afterwards; empty when all was well.
    """

    number: int
    party: str
    stage: str
    whom: str
    delay: float
    tries: int
    seconds: float
    problems: tuple[str, ...]


def environment_of(folder: Path) -> dict[str, str]:
    """What the workers of a rig need for drills.

    Args:
        folder: Of the orders; made by `prepare`.
    """
    return {FOLDER: str(folder), "PYTHONPATH": str(folder)}


def prepare(folder: Path) -> None:
    """Make the folder of the orders, which workers read."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE)


class Drill:
    """Runs of a rig whose workers are killed.

    Args:
        rig: It is up, with `environment_of` for its workers.
        folder: Of the orders.
        seed: Decides at which points.
    """

    def __init__(self, rig: Rig, folder: Path, seed: int) -> None:
        self._rig, self._folder, self._seed = rig, folder, seed
        files = sorted(rig.federations.glob("*.yaml"))
        self._federations = {path.stem: load_federation(path) for path in files}
        self._client = rig.client()
        self._durations: dict[tuple[str, str], float] = {}
        self._kinds: set[str] = set()
        self._costs: dict[str, Any] = {}
        self._versions: dict[str, int] = {}

    def warm(self) -> None:
        """One whole run of each federation: what a run is like when nobody is killed."""
        for name in self._federations:
            until(lambda name=name: self._client.has_dag(f"{name}_score"), name)  # type: ignore[misc]
            # A champion would start a scoring run, which belongs to no kill.
            path = f"/api/v2/dags/{name}_score"
            self._client.http.patch(path, json={"is_paused": True}).raise_for_status()
        runs = {name: self._client.trigger(f"{name}_train") for name in self._federations}
        for name, run in runs.items():
            assert self.ended(name, run) == "success"
            for task in self._client.tasks(f"{name}_train", run):
                party, own = _place(task["task_id"])
                stages = stages_by_task(self._federations[name], "train")
                chain = stages.get(task["task_id"], (own,))
                for stage in chain:
                    self._durations[party, stage] = float(task["duration"] or 0.0) / len(chain)
            self._kinds = self._published(name, run)
            self._versions[name] = self._models(name)[0]
        self._costs = {party: self._charged(party) for party in PARTIES}

    def strike(self, kills: int) -> Iterator[Blow]:
        """Kill so often, a federation beside the other, each in a run of its own.

        Args:
            kills: How often.

        Yields:
            How each ended.
        """
        names = list(self._federations)
        for first in range(0, kills, len(names)):
            orders = {
                name: self._order(name, number)
                for name, number in zip(names, range(first, kills), strict=False)
            }
            begun = {}
            for name, order in orders.items():
                (self._folder / f"{name}.json").write_text(json.dumps(order))
                begun[name] = (time.monotonic(), self._client.trigger(f"{name}_train"))
            found = {}
            for name, (at, run) in begun.items():
                state = self.ended(name, run)
                found[name] = (state, time.monotonic() - at, run)
                (self._folder / f"{name}.json").unlink()
            # A party has one state for all its federations: it is checked after each wave.
            amiss = self.wrong_state()
            for name, (state, seconds, run) in found.items():
                yield self._blow(name, orders[name], state, seconds, run, amiss)

    def ended(self, name: str, run: str) -> str:
        """Wait until a run has ended, and say how; servers may be away meanwhile.

        Args:
            name: Of the federation.
            run: Airflow's id of the run.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                state = str(self._client.run(f"{name}_train", run)["state"])
            except httpx.HTTPError:
                state = "unknown"
            if state in ("success", "failed"):
                return state
            if time.monotonic() > deadline:
                return f"{state} after {_PATIENCE:.0f} s"
            time.sleep(0.5)

    def wrong_run(self, name: str, run: str) -> list[str]:
        """What is wrong after one more run that has succeeded; nothing, if all is well.

        Args:
            name: Of the federation.
            run: Airflow's id of the run.
        """
        return self._wrong_store(name, run) + self._wrong_models(name)

    def wrong_state(self) -> list[str]:
        """What is wrong with the parties' ledgers and audit logs; nothing, if all is well."""
        return [problem for party in self._costs for problem in self._wrong_state(party)]

    def _order(self, name: str, number: int) -> dict[str, Any]:
        federation = self._federations[name]
        places = [(federation.label_holder, "open_run"), *steps(federation, "train")]
        party, stage = places[number % len(places)]
        # Another victim when the stages come round again.
        whom = VICTIMS[(number + number // len(places)) % len(VICTIMS)]
        drawn = hashlib.sha256(f"{self._seed}/{number}".encode()).digest()
        share = int.from_bytes(drawn[:8], "big") / 2**64
        delay = round(share * self._durations[party, stage], 3)
        order = {"number": number + 1, "party": party, "stage": stage, "whom": whom}
        return {**order, "delay": delay, "id": f"{self._seed}-{number}-{time.time_ns()}"}

    def _blow(
        self,
        name: str,
        order: Mapping[str, Any],
        state: str,
        seconds: float,
        run: str,
        amiss: Sequence[str],
    ) -> Blow:
        problems = list(amiss)
        if state != "success":
            problems.append(f"the run ended as {state}")
        tries = 0
        stages = stages_by_task(self._federations[name], "train")
        for task in self._client.tasks(f"{name}_train", run):
            party, own = _place(task["task_id"])
            if party == order["party"] and order["stage"] in stages.get(task["task_id"], (own,)):
                tries = int(task["try_number"])
        if not self._struck(order):
            problems.append("nobody was killed")
        if state == "success":
            problems += self.wrong_run(name, run)
        facts = {key: order[key] for key in ("number", "party", "stage", "whom", "delay")}
        return Blow(**facts, tries=tries, seconds=round(seconds, 1), problems=tuple(problems))

    def _struck(self, order: Mapping[str, Any]) -> bool:
        home = self._rig.home(order["party"])
        return (home / "tmp" / f"struck-{order['id']}").exists()

    def _store(self) -> Store:
        return open_store(load_site(self._rig.home(PARTIES[0]) / "site.yaml").store)

    def _published(self, name: str, run: str) -> set[str]:
        place = f"{name}/{run_id(f'{name}_train', run)}"
        return {reference.removeprefix(f"{place}/") for reference in self._store().list(place)}

    def _wrong_store(self, name: str, run: str) -> list[str]:
        """Artifacts that are missing, too many, or not whole."""
        store, found = self._store(), self._published(name, run)
        problems = [f"{kind} is missing" for kind in sorted(self._kinds - found)]
        problems += [f"{kind} is too many" for kind in sorted(found - self._kinds)]
        declared: Federation = self._federations[name]
        for kind in sorted(found):
            reference = f"{name}/{run_id(f'{name}_train', run)}/{kind}"
            files = store.get(reference) or {}
            try:
                manifest = read_manifest(files, kind)
                verify(manifest, files, declared_keys(declared, manifest, kind), kind)
            except OpBoostError as error:
                problems.append(str(error))
        return problems

    def _wrong_models(self, name: str) -> list[str]:
        versions, champion, damaged = self._models(name)
        problems = [f"version {version} is damaged" for version in damaged]
        if champion is None:
            problems.append("there is no champion")
        if versions != self._versions[name] + 1:
            problems.append(f"{versions - self._versions[name]} versions were registered")
        self._versions[name] = versions
        return problems

    def _models(self, name: str) -> tuple[int, str | None, list[str]]:
        holder = self._federations[name].label_holder
        listed = self._rig.opboost(holder, "models", "list", "--federation", name, "--json")
        found = json.loads(listed)
        champion = next((entry["version"] for entry in found if entry["champion"]), None)
        return len(found), champion, [entry["version"] for entry in found if entry["damaged"]]

    def _charged(self, party: str) -> Any:
        """What each column has cost: the same data again costs nothing again."""
        told = json.loads(self._rig.opboost(party, "ledger", "show", "--json"))
        return [
            {key: line[key] for key in ("uuid", "releases", "loss_1", "loss_whole") if key in line}
            for line in told["columns"]
        ]

    def _wrong_state(self, party: str) -> list[str]:
        problems = []
        if self._charged(party) != self._costs[party]:
            problems.append(f"the ledger of {party} charged something twice")
        try:
            self._rig.opboost(party, "ledger", "check")
        except CalledProcessError as error:
            problems.append(f"the state of {party}: {error.stderr}")
        return problems


def _place(task: str) -> tuple[str, str]:
    """Party and name of a task's id."""
    group, _, name = task.partition(".")
    return group.rpartition("_")[0], name
