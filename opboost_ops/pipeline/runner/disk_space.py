"""Check that a party's disks have space for a run, before it writes anything.

The estimate comes from the party's earlier runs: the smallest of the last three with the same
stages. If the table has more rows than a stage holds in memory, spill files in the home are added:
`waiting`. Sizes depend on private tables, so they stay at home.
"""

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.exchange.store.folder import LocalStore
from opboost_ops.pipeline.party.local_party import LocalParty
from opboost_ops.pipeline.runner.facts import TIMINGS
from opboost_ops.pipeline.stage import Home, table_of
from opboost_ops.tables.parquet import files_of

#: Bytes that every run needs, however small, for databases and logs.
_LEAST = 8_000_000

#: Number of earlier runs to consider.
_LAST = 3

#: Maximum bytes per row in spill files: points, tags and shares, twice while partitioning; at the
#: label holder the same per feature holder; and the integers of one column.
_POINTS, _ANSWERED, _COLUMN = 192, 192, 24

#: File in a run's home with the free and the needed space.
DETAILS = "errors/disk_space.txt"


def require_disk_space(
    party: LocalParty,
    federation: Federation,
    run: str,
    purpose: Purpose,
    stages: Collection[str],
    home: Home,
) -> None:
    """Require that each disk has enough space for a run.

    Args:
        party: The party whose disks are checked.
        federation: The plan's federation.
        run: The run's ID.
        purpose: The run's purpose.
        stages: All stages of the party in the run.
        home: The party's folder for the run.

    Raises:
        ContractError: A folder's disk has too little space; the numbers are in the home folder.
    """
    earlier = _earlier(party.site.home / federation.name, run, stages)
    place = Path(federation.name)
    needed: dict[int, int] = {}
    named: dict[int, list[str]] = {}
    folders = {"home": party.site.home, "pins": party.site.pins}
    if isinstance(party.store, LocalStore):
        folders["store"] = party.store.folder
    for name, folder in folders.items():
        # The folder, or its nearest existing parent.
        there = next((path for path in (folder, *folder.parents) if path.is_dir()), None)
        if there is None:
            continue
        taken = (
            [_size(folder / place / earlier_run) for earlier_run in earlier]
            if name != "pins"
            else []
        )
        device = there.stat().st_dev
        more = min(taken, default=0) - _size(folder / place / run)
        if name == "home" and stages:
            more = max(0, more) + waiting(party, federation, purpose)
        needed[device] = needed.get(device, 0) + max(0, more)
        named.setdefault(device, []).append(name)
        folders[name] = there
    short: list[str] = []
    lines: list[str] = []
    for device, names in named.items():
        disk = shutil.disk_usage(folders[names[0]])
        want = max(_LEAST, needed[device])
        # Some mounts report a size of 0; they are not checked.
        if disk.total and disk.free < want:
            short += names
            lines.append(
                f"{', '.join(names)}: {disk.free / 1e6:,.1f} MB are free, and a run takes at least "
                f"{want / 1e6:,.1f} MB"
                + (f", as the smallest of the last {len(earlier)}" if earlier else "")
                + (", what waits while people are sorted among it" if "home" in names else "")
            )
    if not short:
        return
    # The disk may be too full even for the details.
    with contextlib.suppress(OSError):
        home.write(DETAILS, "\n".join([*lines, ""]).encode())
    raise ContractError(
        f"{party.name} has too little disk space in its {' and '.join(short)} for a run.",
        "Free some, set keep_runs_days, or move it in site.yaml to a larger disk; how much there "
        f"is and how much a run takes is in its home folder, in {federation.name}/{run}/{DETAILS}.",
    )


def waiting(party: LocalParty, federation: Federation, purpose: Purpose) -> int:
    """Return the bytes of spill files in the home while people are sorted or looked up.

    Args:
        party: The party.
        federation: The plan's federation.
        purpose: Selects the table.

    Returns:
        Bytes; 0 if the table fits into memory, or is not a Parquet file yet.
    """
    with contextlib.suppress(ConfigError, OSError, pa.ArrowException):
        table = table_of(party.site, federation.name, federation.id, purpose)
        if isinstance(table, Path):
            rows = sum(pq.read_metadata(path).num_rows for path in files_of(table))
            each = _POINTS + _COLUMN * (len(federation.parties[party.name].features) + 1)
            if party.name == federation.label_holder:
                # Opened rows of each feature holder.
                for holder in federation.feature_holders:
                    each += _ANSWERED + _COLUMN * len(columns_of(federation, holder))
            return each * rows if rows > party.site.block_rows else 0
    return 0


def _earlier(folder: Path, run: str, stages: Collection[str]) -> list[str]:
    """Return the IDs of the last runs in which the party completed all stages, newest first."""
    try:
        with os.scandir(folder) as entries:
            dated = sorted((e.stat().st_mtime_ns, e.name) for e in entries if e.is_dir())
    except OSError:
        return []
    names = []
    for _, name in reversed(dated):
        done = folder / name / TIMINGS
        if name != run and stages and all((done / f"{stage}.json").is_file() for stage in stages):
            names.append(name)
            if len(names) == _LAST:
                break
    return names


def _size(folder: Path) -> int:
    return sum(_files(folder))


def _files(folder: Path) -> Iterator[int]:
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.lstat(Path(root) / name).st_size
            except OSError:
                continue  # Removed since the listing.
