"""What finding the common people costs at every party, and what a dictionary of IDs gives away.

Real parties, stage by stage, each stage in a process of its own, which tells its processor seconds
(those of its own processes with them) and its peak of memory. The tables are generated, with a
feature a party: speeds only.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.alignment import curve, oprf
from opboost_ops.alignment.engine import Engine
from opboost_ops.alignment.ids import CANARY, messages
from opboost_ops.alignment.tags import rows_of, salt_of, tags
from opboost_ops.config.federation import AlignmentMode
from opboost_ops.config.loading import load_federation
from opboost_ops.datasets.dataset import ID, Dataset, row_ids
from opboost_ops.datasets.workspace import write_workspace
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.manifest import MANIFEST, parse_manifest
from opboost_ops.exchange.store import open_store
from opboost_ops.mechanisms import noise
from opboost_ops.run.party_sites import site_files
from opboost_ops.run.phases import steps
from opboost_ops.scratch.arrays import Scratch

WAYS: tuple[AlignmentMode, ...] = ("keyed", "private")

#: The stages of alignment; what comes before them is run and not counted.
STAGES = ("digest_ids", "psi_query", "psi_answer", "align")

_NAME, _RUN, _OWNER = "alignment", "0" * 16, "lender"

#: Of all people, so many are missing at each feature holder, others at each.
_MISSING = 10

#: Guesses of the dictionary attack.
_GUESSES = 2000


def measure(
    people: int,
    parties: int,
    processes: int = 1,
    ways: tuple[AlignmentMode, ...] = WAYS,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Seconds, bytes and memory of finding the common people.

    Args:
        people: Rows of each party's table.
        parties: How many, the label holder among them.
        processes: How many multiply points, at each party.
        ways: Which ways of alignment.
        progress: Called with what is being done.

    Raises:
        ConfigError: There are too few or too many parties, or too few people.
    """
    if not 2 <= parties <= 32 or people < 20:
        raise ConfigError(
            f"{parties} parties of {people} people each are not measured.",
            "Ask for 2 to 32 parties, and for 20 people or more.",
        )
    found = {way: _run(people, parties, processes, way, progress) for way in ways}
    return {
        "people": people,
        "parties": parties,
        "processes": processes,
        "load": [round(share, 1) for share in os.getloadavg()],
        "ways": found,
        "dictionary": dictionary(min(people, _GUESSES)),
    }


def dictionary(people: int) -> dict[str, float]:
    """A dictionary of everybody against a feature holder's digests, by whoever receives them.

    The label holder tries every ID with all secrets that it has. Half of the guesses are customers.

    Args:
        people: Guesses.

    Returns:
        Which share of the customers among the guesses is found: in ``keyed``; in ``private`` from
        the digests alone; and there from the answer to a query about a tenth of the guesses.
    """
    guesses, federation = row_ids("p", people), "alignment"
    customers = guesses[::2]
    shared = bytes(range(32))
    have = {bytes(key) for key in noise.person_keys(shared, pa.array(customers), "string")}
    tried = noise.person_keys(shared, pa.array(guesses), "string")
    keyed = sum(bytes(key) in have for key in tried)

    engine, holder, owner = Engine(), bytes([1]) * 32, bytes([2]) * 32
    salt = salt_of("0" * 64)
    told = messages(customers, "string")
    points = oprf.own_points(engine, holder, federation, [told], len(told))
    digests = {bytes(tag) for pair in points for tag in tags("tag", pair[1], pair[0], salt)}
    guessed = messages(guesses, "string")
    hashed = curve.hash_to_curve(guessed, oprf.domain_tag(federation))
    own = curve.multiply(oprf.Blind.of(owner).scalar, hashed)
    offline = sum(
        len(
            digests
            & {bytes(tag) for tag in tags("tag", rows_of(b"".join(tries), 32), guessed, salt)}
        )
        for tries in (hashed, own)
    )
    asked = guessed[: people // 10]
    size = len(asked) + 1
    held = Scratch(Path(), size)
    ((_, query, rows),) = oprf.ask(engine, owner, federation, [asked], len(asked), held)
    answer = list(oprf.evaluate(engine, holder, [query], size))
    (unblinded,) = oprf.unblind(engine, owner, answer, size, "bank")
    ordered = [[*asked, CANARY][row] for row in rows]
    online = len(digests & {bytes(tag) for tag in tags("tag", unblinded, ordered, salt)}) - 1
    count = len(customers)
    return {
        "guesses": people,
        "keyed": round(keyed / count, 4),
        "private": round(offline / count, 4),
        "private_asked_about_a_tenth": round(online / count, 4),
    }


def _run(
    people: int,
    parties: int,
    processes: int,
    way: AlignmentMode,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = write_workspace(_dataset(people, parties), Path(folder) / "w", seed=0, alignment=way)
        federation = load_federation(file)
        sites = site_files(file, federation)
        for site in sites.values():
            site.write_text(site.read_text() + f"alignment_processes: {processes}\n")
        _asked(_OWNER, sites[_OWNER], f"open_run {file}")
        found: dict[str, dict[str, dict[str, float]]] = {party: {} for party in sites}
        for party, stage in steps(federation, "train"):
            if stage == "check_drift":
                continue
            progress(f"{way}: {stage} of {party}")
            told = _asked(party, sites[party], stage)
            if stage in STAGES:
                found[party][stage] = told
            if stage == "align":
                break
        sizes = _sizes(Path(folder) / "w" / "exchange", people)
    holders = [party for party in found if party != _OWNER]
    return {
        "label_holder": _total(found[_OWNER], people),
        "feature_holder": _total(found[holders[0]], people),
        "stages": {"label_holder": found[_OWNER], "feature_holder": found[holders[0]]},
        "bytes_a_person": sizes,
        "bytes_of_a_feature_holder_a_person": round(sum(sizes.values()) / len(holders), 2),
    }


def _total(stages: Mapping[str, Mapping[str, float]], people: int) -> dict[str, float]:
    processor = sum(stage["processor"] for stage in stages.values())
    return {
        "seconds": round(sum(stage["seconds"] for stage in stages.values()), 2),
        "processor": round(processor, 2),
        "processor_a_million": round(1e6 * processor / people, 2),
        "peak_mib": max(stage["peak_mib"] for stage in stages.values()),
    }


def _sizes(store: Path, people: int) -> dict[str, float]:
    """Bytes of each kind of artifact, manifests and signatures included, over all holders."""
    found: dict[str, int] = {}
    opened = open_store(str(store))
    for place in opened.list(f"{_NAME}/{_RUN}"):
        files = opened.get(place)
        assert files is not None
        kind = parse_manifest(files[MANIFEST], place).kind
        if kind != "plan":
            found[kind] = found.get(kind, 0) + sum(map(len, files.values()))
    return {kind: round(size / people, 2) for kind, size in found.items()}


def _asked(party: str, site: Path, what: str) -> dict[str, float]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "opboost_ops.lab.stage_process", _NAME, _RUN, _OWNER, party, what],
        env={**kept, f"OPBOOST_SITE_{party.upper()}": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ConfigError(f"{what.split()[0]} of {party} failed: {done.stderr.strip()[-500:]}")
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def _dataset(people: int, parties: int) -> Dataset:
    rng = np.random.default_rng(0)
    every = np.array(row_ids("p", people + people // _MISSING))
    names = [f"holder_{i}" for i in range(1, parties)]
    label = pl.DataFrame({ID: every[:people], "label": rng.integers(0, 2, people)})
    tables = {_OWNER: label}
    for i, name in enumerate(names):
        mine = np.roll(every, -i * people // (2 * parties))[:people]
        tables[name] = pl.DataFrame({ID: rng.permutation(mine), "x": rng.normal(size=people)})
    return Dataset(
        name=_NAME,
        task="binary",
        tables=tables,
        label_holder=_OWNER,
        label={"column": "label", "task": "binary", "classes": [0, 1]},
        features={_OWNER: {}, **{name: {"x": {"bounds": [-4, 4]}} for name in names}},
        holdout=0.2,
        epsilon=1.0,
        domain=(1, 10),
        notes="",
    )
