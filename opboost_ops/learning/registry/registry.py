"""The label holder's models: immutable versions, the champion, and files of scores."""

import datetime
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Literal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import parse_federation
from opboost_ops.config.schema import Record
from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters.backend import ModelFormat
from opboost_ops.learning.boosters.trainer import MODEL_FORMATS
from opboost_ops.tables.spill.files import private_folder, whole_file

#: Folder in the federation's home with the distribution of scores of each run, by version.
DISTRIBUTIONS = "distributions"

#: Rows per row group.
GROUP_ROWS = 1 << 20

Event = Literal["promoted", "kept", "rolled back"]

_CHAMPION = "champion.json"
_HISTORY = "history.jsonl"
_DIGESTS = "sha256.json"

#: Returns the scores as row groups, each in one piece; may be called several times.
RowGroups = Callable[[], Iterator[pa.Table]]

#: Rows of an existing file that are read at a time.
_ROWS = 131_072

#: Seeds of row hashes, which need not resist an adversary.
_SEEDS = (0, 1)


class Decision(Record):
    """A decision about a version.

    Attributes:
        at: Time in UTC, to the second.
        version: Name of the version.
        event: ``promoted``, ``kept`` (rejected by the gate), or ``rolled back`` to.
        why: The reason, which is public.
    """

    at: str
    version: str
    event: Event
    why: str


class Registry:
    """The model versions of a federation, one folder per version.

    Args:
        folder: The label holder's folder of models.
        federation: Name of the federation.
    """

    def __init__(self, folder: Path, federation: str) -> None:
        self._folder = folder / federation

    def register(self, version: str, files: Mapping[str, bytes]) -> Path:
        """Add a version atomically. Adding it again requires the same content.

        Args:
            version: Name of the version: the ID of the run.
            files: Its files by name.

        Returns:
            The folder of the version.

        Raises:
            ContractError: The version exists with other content.
        """
        digests = _digests(files)
        files = {**files, _DIGESTS: json.dumps(digests, sort_keys=True, indent=1).encode()}
        target = self._folder / version
        private_folder(self._folder)
        if not target.exists():
            temporary = Path(mkdtemp(dir=self._folder, prefix=".part-"))
            try:
                for name, content in files.items():
                    (temporary / name).write_bytes(content)
                    (temporary / name).chmod(0o400)
                temporary.rename(target)
            except OSError:
                shutil.rmtree(temporary, ignore_errors=True)
                if not target.exists():
                    raise
        stored = {path.name: path.read_bytes() for path in target.iterdir()}
        if stored != dict(files):
            raise ContractError(
                f"Model version {version} exists already, with other content.",
                "Versions are immutable: trigger a new run.",
            )
        return target

    def champion(self) -> str | None:
        """Return the version in use, or None before the first.

        Raises:
            ContractError: The champion file is damaged.
        """
        path = self._folder / _CHAMPION
        if not path.exists():
            return None
        try:
            version = json.loads(path.read_bytes())["version"]
        except (ValueError, KeyError, TypeError, OSError):
            version = None
        if not isinstance(version, str) or not self._has(version):
            raise ContractError(
                "champion.json is damaged: it does not name a version.",
                "Find the former champion with `opboost models list`, and restore it with `opboost "
                "models promote`. The versions are intact.",
            )
        return version

    def set_champion(self, version: str) -> None:
        """Put a version into use atomically."""
        if not self._has(version):
            raise ContractError(f"There is no model version {version}.")
        with whole_file(self._folder / _CHAMPION) as file:
            file.write(json.dumps({"version": version}).encode())

    def decide(self, version: str, promote: bool, why: str) -> None:
        """Promote or reject a new version; later decisions about the same version are ignored.

        Args:
            version: A registered version.
            promote: True if it becomes champion.
            why: The reason, which is public.
        """
        if any(entry.version == version for entry in self.history()):
            return
        if promote:
            self.set_champion(version)
        self._record(version, "promoted" if promote else "kept", why)

    def promote(self, version: str, why: str) -> None:
        """Make a version champion manually.

        Raises:
            ContractError: There is no such version.
        """
        self.set_champion(version)
        self._record(version, "promoted", why)

    def rollback(self, why: str, to: str | None = None) -> str:
        """Make a former champion the champion again; each call goes one step further back.

        Args:
            why: The reason, for the history.
            to: A former champion; by default the predecessor of the current one.

        Returns:
            The new champion.

        Raises:
            ContractError: There is no predecessor, or ``to`` was never champion or is removed.
        """
        current, versions = self.champion(), self.versions()
        used = [e for e in self.history() if e.event != "kept" and e.version in versions]
        path = _rollback_path(used)
        while path and path[-1] != current:
            path.pop()
        former = [version for version in path if version != current]
        if to is not None:
            if to not in {entry.version for entry in used}:
                raise ContractError(
                    f"Version {to} was not champion before the current one.",
                    "Name a former champion from `opboost models list`, or promote the version.",
                )
            former = [to]
        if not former:
            raise ContractError(
                "There is no champion before the current one.", "Promote a version by its name."
            )
        self.set_champion(former[-1])
        self._record(former[-1], "rolled back", why)
        return former[-1]

    def history(self) -> list["Decision"]:
        """Return all decisions about versions, oldest first."""
        path = self._folder / _HISTORY
        if not path.exists():
            return []
        return [Decision.model_validate_json(line) for line in path.read_text().splitlines()]

    def files(self, version: str) -> dict[str, bytes]:
        """Return the files of a version by name.

        Raises:
            ContractError: The version does not exist or is damaged.
        """
        if not self._has(version):
            raise ContractError(f"There is no model version {version}.")
        files = {path.name: path.read_bytes() for path in (self._folder / version).iterdir()}
        digests = _digests(files)
        digests.pop(_DIGESTS, None)
        try:
            recorded = json.loads(files[_DIGESTS])
        except (ValueError, KeyError):
            recorded = None
        if digests != recorded:
            raise ContractError(
                f"Model version {version} is damaged: its files changed after registration.",
                "Restore them from a backup, or promote another version with `opboost models "
                "promote`.",
            )
        return files

    def file(self, version: str, name: str) -> bytes:
        """Return a file of a version.

        Args:
            version: Name of the version.
            name: Name of the file, without a folder.

        Raises:
            ContractError: The version or the file does not exist.
        """
        path = self._folder / version / name
        if not self._has(version) or name != path.name or not path.is_file():
            raise ContractError(f"Model version {version} has no file {name}.")
        return path.read_bytes()

    def names(self, version: str) -> frozenset[str]:
        """Return the names of a version's files; empty if the version does not exist."""
        folder = self._folder / version
        return frozenset(path.name for path in folder.iterdir()) if folder.is_dir() else frozenset()

    def _record(self, version: str, event: Event, why: str) -> None:
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        entry = Decision(at=at, version=version, event=event, why=why)
        private_folder(self._folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with open(os.open(self._folder / _HISTORY, flags, 0o600), "a") as file:
            file.write(entry.model_dump_json() + "\n")

    def _has(self, version: str) -> bool:
        # A single check is faster than listing thousands of versions.
        is_name = version == Path(version).name and version[:1] not in ("", ".")
        return is_name and (self._folder / version).is_dir()

    def versions(self) -> list[str]:
        """Return all versions, oldest first."""
        if not self._folder.is_dir():
            return []
        with os.scandir(self._folder) as entries:
            folders = [(e.stat().st_mtime_ns, e.name) for e in entries if e.is_dir()]
        return [name for _, name in sorted(folders) if name[0] != "."]


def backend_in(files: Mapping[str, bytes]) -> ModelFormat:
    """Return the model format of a version, by the name of its model file.

    Args:
        files: Files of the version by name.

    Raises:
        ContractError: No file is a model.
    """
    for backend in MODEL_FORMATS:
        if backend.file in files:
            return backend
    raise ContractError("The model version has no model file.", "Promote another version.")


def model_in(files: Mapping[str, bytes]) -> str:
    """Return the text of a version's model.

    Args:
        files: Files of the version by name.

    Raises:
        ContractError: No file is a model.
    """
    return files[backend_in(files).file].decode()


def has_model(names: Collection[str]) -> bool:
    """True if a version has a model file that this software reads.

    Args:
        names: Names of the version's files.
    """
    return any(backend.file in names for backend in MODEL_FORMATS)


def federation_in(files: Mapping[str, bytes]) -> Federation:
    """Return the federation with which a version was trained.

    Args:
        files: Files of the version by name.
    """
    return parse_federation(json.loads(files["federation.json"]), "federation.json")


def store_scores(folder: Path, version: str, name: str, groups: RowGroups) -> tuple[Path, bool]:
    """Add a file of scores atomically.

    Args:
        folder: Folder of the federation's scores, created if absent.
        version: Version of the model.
        name: Name of the file without suffix, determined by its inputs.
        groups: The scores, at least one row group.

    Returns:
        ``<folder>/<version>/<name>.parquet``, and True if it is new.

    Raises:
        ContractError: The file exists with other content, or is damaged.
    """
    target = folder / version / f"{name}.parquet"
    if target.exists():
        if not _holds_scores(target, groups):
            raise ContractError(
                f"{target.name} is damaged, or holds other scores of the same rows by the same "
                "model.",
                "Scores are immutable: move the file away, and clear the task to run it again.",
            )
        return target, False
    with whole_file(target) as file:
        write_groups(file, groups())
    return target, True


def write_groups(file: IO[bytes], groups: Iterator[pa.Table]) -> None:
    """Write a Parquet file with no more than a row group in memory.

    Args:
        file: The file.
        groups: At least one row group, each in one piece.
    """
    group = next(groups)
    with pq.ParquetWriter(file, group.schema, compression="zstd") as writer:
        writer.write_table(group)
        del group  # Before the next one is made.
        for each in groups:
            writer.write_table(each)


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(raw).hexdigest() for name, raw in files.items()}


def _rollback_path(used: Sequence[Decision]) -> list[str]:
    """Return the champions for rollbacks, the current one last.

    Champions that were rolled back are omitted; otherwise a second rollback would return to them.
    """
    path: list[str] = []
    for entry in used:
        if entry.event == "rolled back" and entry.version in path:
            while path[-1] != entry.version:
                path.pop()
        else:
            path.append(entry.version)
    return path


def _holds_scores(path: Path, groups: RowGroups) -> bool:
    try:
        # Read in this thread, as everywhere: Arrow's threads could outlive the interpreter.
        with pq.ParquetFile(path, pre_buffer=False) as file:
            blocks = file.iter_batches(_ROWS, use_threads=False)
            stored = _content_summary(
                file.schema_arrow, (pa.Table.from_batches([b]) for b in blocks)
            )
    except (pa.ArrowException, OSError, ValueError):
        return False
    return stored == _content_summary(next(groups()).schema, groups())


def _content_summary(schema: pa.Schema, tables: Iterator[pa.Table]) -> tuple[object, ...]:
    """Return a summary of scores that ignores the order of rows, their blocks and dictionaries."""
    rows, total, types = 0, np.zeros(len(_SEEDS), dtype=np.uint64), {}
    # A file without rows has no block at all.
    for table in filter(len, tables):
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        frame = frame.with_columns(pl.col(pl.Categorical).cast(pl.String))
        types = dict(frame.schema)
        rows += frame.height
        for i, seed in enumerate(_SEEDS):
            # Add arrays, because NumPy warns if a sum of single numbers wraps around, as intended.
            total[i : i + 1] += frame.hash_rows(seed=seed).to_numpy().sum(keepdims=True)
    return schema.metadata, types, rows, total.tolist()
