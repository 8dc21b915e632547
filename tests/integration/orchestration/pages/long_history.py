"""A federation with many runs behind it: its one real run, told again night by night."""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import insert

from opboost_ops.config.loading import load_site
from opboost_ops.exchange import audit
from opboost_ops.exchange.party_state import open_state
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.privacy import release_records
from opboost_ops.privacy.ledger import entries as ledger_entries
from tests.federation import FIRST_RUN, Workspace
from tests.integration.orchestration.pages.airflow_runs import TRAIN

#: When the first of the nights was.
BEGIN = datetime(2026, 1, 5, 3, tzinfo=UTC)
_NIGHT = timedelta(days=1)

#: So many of the newest runs have files; of older ones there are the folders alone.
_WHOLE = 250


def run_of(night: int) -> str:
    """The id of a night's run; the first night is the run that really was.

    Args:
        night: From 1.
    """
    return f"{night:016x}"


def lengthen(workspace: Workspace, nights: int, lines: int | None = None) -> None:
    """Give every party's state, home and models as many runs as that.

    Ledger lines, log entries, reports and versions of the first run are written again under later
    runs and dates; the log is chained as the software chains it.

    Args:
        workspace: After its first run.
        nights: How many runs there are afterwards.
        lines: How many ledger lines a party has at most; all that the runs make when absent.
    """
    for party in workspace.declared.parties:
        folder = workspace.folder / party
        _ledger(folder, nights, lines)
        home = folder / "home" / "credit_scoring"
        for night in range(2, nights + 1):
            if night > nights - _WHOLE:
                shutil.copytree(home / FIRST_RUN / "quality", home / run_of(night) / "quality")
            else:
                (home / run_of(night) / "quality").mkdir(parents=True)
        for night in range(1, nights + 1):
            at = (BEGIN + night * _NIGHT).timestamp()
            os.utime(home / run_of(night) / "quality", (at, at))
    holder = workspace.declared.label_holder
    _versions(workspace.folder / holder / "models", nights)


def _ledger(folder: Path, nights: int, lines: int | None) -> None:
    with open_state(load_site(folder / "site.yaml")) as state:
        with state.database.reading() as connection:
            entries = connection.execute(sa.select(audit._AUDIT.c.entry)).scalars().all()
        lines_of_run = [r.model_dump(mode="json") for r in state.ledger.entries()]
        with state.database.writing() as connection:
            for table in (audit._AUDIT, ledger_entries._ENTRIES, ledger_entries._COMMITS):
                connection.execute(sa.delete(table))
            told = list(_lines(lines_of_run, nights))[:lines]
            connection.execute(sa.insert(ledger_entries._ENTRIES), told)
            commits = {line["artifact"]: line["recorded_at"] for line in told}
            rows = [{"artifact": a, "committed_at": at} for a, at in commits.items()]
            connection.execute(sa.insert(ledger_entries._COMMITS), rows)
            connection.execute(sa.insert(audit._AUDIT), list(_entries(entries, nights)))
            first = (BEGIN + _NIGHT).date().isoformat()
            connection.execute(sa.update(release_records.RELEASES).values(opened=first))


def _lines(lines: Sequence[dict[str, Any]], nights: int) -> Iterator[dict[str, Any]]:
    for night in range(1, nights + 1):
        at = (BEGIN + night * _NIGHT).isoformat(timespec="seconds")
        for line in lines:
            # A release opens once, in the first night.
            if line["loss"] is not None and night > 1:
                continue
            artifact = line["artifact"]
            if artifact != line["release"]:
                artifact = hashlib.sha256(f"{artifact} {night}".encode()).hexdigest()
            event = {**line, "run": run_of(night), "artifact": artifact}
            feature = line["feature"] or ""
            yield {"recorded_at": at, "artifact": artifact, "feature": feature, "event": event}


def _entries(entries: Sequence[str], nights: int) -> Iterator[dict[str, Any]]:
    before, number = audit.GENESIS, 0
    for night in range(1, nights + 1):
        at = (BEGIN + night * _NIGHT).isoformat(timespec="seconds")
        for text in entries:
            entry = {**json.loads(text.replace(FIRST_RUN, run_of(night))), "at": at}
            if entry["action"] == "agreed" and night > 1:
                continue
            number += 1
            text = json.dumps(entry, sort_keys=True, separators=(",", ":"))
            before = audit._chain(before, number, text)
            yield {"number": number, "entry": text, "hash": before}


def _versions(models: Path, nights: int) -> None:
    """Versions whose metrics wander, and whose parameters change now and then."""
    registry = Registry(models, "credit_scoring")
    first = registry.files(FIRST_RUN)
    chance = random.Random(7)
    decisions = [json.loads((models / "credit_scoring" / "history.jsonl").read_text())]
    for night in range(2, max(2, nights - _WHOLE)):
        folder = models / "credit_scoring" / run_of(night)
        folder.mkdir()
        at = BEGIN + night * _NIGHT
        os.utime(folder, (at.timestamp(), at.timestamp()))
        told = {"at": at.isoformat(timespec="seconds"), "version": run_of(night)}
        decisions.append({**told, "event": "kept", "why": "worse"})
    for night in range(max(2, nights - _WHOLE), nights + 1):
        files = {name: content for name, content in first.items() if name != "sha256.json"}
        evaluation, card = json.loads(files["evaluation.json"]), json.loads(files["card.json"])
        step = chance.uniform(-0.02, 0.03)
        for found in (evaluation["metrics"], card["metrics"]):
            found["federated_desensitised"]["auc"] += step
        interval = evaluation["intervals"]["federated_desensitised"]["auc"]
        gain = evaluation["gains"]["label_holder_alone"]["auc"]
        for end in ("low", "value", "high"):
            interval[end] += step
            gain[end] += step
        card["run"] = run_of(night)
        card["training"]["trees"] = 4 if night % 10 else 8
        for line in card["importance"]:
            line["share"] *= chance.uniform(0.7, 1.3)
        whole = sum(line["share"] for line in card["importance"])
        for line in card["importance"]:
            line["share"] /= whole
        files["evaluation.json"] = json.dumps(evaluation).encode()
        files["card.json"] = json.dumps(card).encode()
        folder = registry.register(run_of(night), files)
        at = BEGIN + night * _NIGHT
        os.utime(folder, (at.timestamp(), at.timestamp()))
        better = step > 0
        why = (
            f"auc {interval['value']:.4f} in mode desensitised against 0.5314 of "
            f"{FIRST_RUN}: {step:+.4f} (95 %: {step - 0.03:+.4f} to {step + 0.03:+.4f}); worse by "
            "no more than the tolerance 0.01, by the lower end of the interval"
        )
        told = {"at": at.isoformat(timespec="seconds"), "version": run_of(night)}
        decisions.append({**told, "event": "promoted" if better else "kept", "why": why})
        if better:
            registry.set_champion(run_of(night))
    begin = (BEGIN + _NIGHT).timestamp()
    os.utime(models / "credit_scoring" / FIRST_RUN, (begin, begin))
    decisions[0]["at"] = (BEGIN + _NIGHT).isoformat(timespec="seconds")
    history = "".join(json.dumps(decision) + "\n" for decision in decisions)
    (models / "credit_scoring" / "history.jsonl").write_text(history)


def airflow_runs(nights: int) -> None:
    """Tell Airflow's database of as many runs of training, all of them good.

    Args:
        nights: How many.
    """
    with create_session() as session:
        rows = []
        for night in range(1, nights + 1):
            at = BEGIN + night * _NIGHT
            name = f"scheduled__{at.isoformat()}"
            fields = {"run_type": "scheduled", "state": "success", "run_after": at}
            rows.append({"dag_id": TRAIN, "run_id": name, "start_date": at, **fields})
        session.execute(insert(DagRun.__table__), rows)
