"""The label holder's models: immutable versions, which one is champion, and their scores."""

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
from opboost_ops.learning.boosters.backend import Reader
from opboost_ops.learning.boosters.trainer import READERS
from opboost_ops.tables.spill.files import private_folder, whole_file

#: Folder of the federation's home where each run's distribution of scores stays, by version.
DISTRIBUTIONS = "distributions"

#: Rows of a row group.
GROUP = 1 << 20

Event = Literal["promoted", "kept", "rolled back"]

_CHAMPION = "champion.json"
_HISTORY = "history.jsonl"
_DIGESTS = "sha256.json"

#: The scores, a row group after the other, each in one piece, as often as it is called.
Groups = Callable[[], Iterator[pa.Table]]

#: Rows that are read at a time of a file that is there.
_ROWS = 131_072

#: Of hashes by which rows are told apart; nobody chooses them against us.
_SEEDS = (0, 1)


class Decision(Record):
    """A decision about a version.

    Attributes:
        at: When, UTC, to the second.
        version: Which one.
        event: Whether it became champion, was rejected, or became champion again.
        why: In public words.
    """

    at: str
    version: str
    event: Event
    why: str


class Registry:
    """The model versions of one federation, a folder each.

    Args:
        folder: The label holder's models folder.
        federation: Whose models.
    """

    def __init__(self, folder: Path, federation: str) -> None:
        self._folder = folder / federation

    def register(self, version: str, files: Mapping[str, bytes]) -> Path:
        """Add a version, whole or not at all; the same version again must be the same bytes.

        Args:
            version: Its name: the run's id.
            files: Its files.

        Returns:
            Its folder.

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
                "Versions are never changed: trigger a new run.",
            )
        return target

    def champion(self) -> str | None:
        """The version in use, or None before the first.

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
                "champion.json is damaged: it names no version.",
                "`opboost models list` shows the versions, which are intact, and which one was "
                "champion; put it back with `opboost models promote`.",
            )
        return version

    def set_champion(self, version: str) -> None:
        """Put a version into use; a crash leaves the previous one."""
        if not self._has(version):
            raise ContractError(f"There is no model version {version}.")
        with whole_file(self._folder / _CHAMPION) as file:
            file.write(json.dumps({"version": version}).encode())

    def decide(self, version: str, promote: bool, why: str) -> None:
        """Promote or reject a new version; what was decided once is not decided again.

        Args:
            version: A registered version.
            promote: Whether it becomes champion.
            why: In public words.
        """
        if any(entry.version == version for entry in self.history()):
            return
        if promote:
            self.set_champion(version)
        self._note(version, "promoted" if promote else "kept", why)

    def promote(self, version: str, why: str) -> None:
        """Make a version champion by hand.

        Raises:
            ContractError: There is no such version.
        """
        self.set_champion(version)
        self._note(version, "promoted", why)

    def rollback(self, why: str, to: str | None = None) -> str:
        """Make a former champion champion again, each time one step further back.

        Args:
            why: Why; it is kept in the history.
            to: Which one; the one that the present one took the place of when absent.

        Returns:
            Its version.

        Raises:
            ContractError: There was none before, it is gone, or it never was champion.
        """
        present, versions = self.champion(), self.versions()
        used = [e for e in self.history() if e.event != "kept" and e.version in versions]
        line = _way_back(used)
        while line and line[-1] != present:
            line.pop()
        before = [version for version in line if version != present]
        if to is not None:
            if to not in {entry.version for entry in used}:
                raise ContractError(
                    f"Version {to} was not champion before the present one.",
                    "Name one of those, or promote it: `opboost models list` shows all decisions.",
                )
            before = [to]
        if not before:
            raise ContractError(
                "There is no champion before the present one.", "Promote a version by its name."
            )
        self.set_champion(before[-1])
        self._note(before[-1], "rolled back", why)
        return before[-1]

    def history(self) -> list["Decision"]:
        """All decisions about versions, oldest first."""
        path = self._folder / _HISTORY
        if not path.exists():
            return []
        return [Decision.model_validate_json(line) for line in path.read_text().splitlines()]

    def files(self, version: str) -> dict[str, bytes]:
        """The files of a version.

        Raises:
            ContractError: There is no such version, or it is damaged.
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
                f"Model version {version} is damaged: its files are not as they were registered.",
                "Restore them from a backup, or promote another version with `opboost models "
                "promote`.",
            )
        return files

    def file(self, version: str, name: str) -> bytes:
        """One file of a version.

        Args:
            version: The version.
            name: The file's name, without any folder.

        Raises:
            ContractError: There is no such version, or it has no such file.
        """
        path = self._folder / version / name
        if not self._has(version) or name != path.name or not path.is_file():
            raise ContractError(f"Model version {version} has no file {name}.")
        return path.read_bytes()

    def names(self, version: str) -> frozenset[str]:
        """Names of a version's files, unread; none if there is no such version."""
        folder = self._folder / version
        return frozenset(path.name for path in folder.iterdir()) if folder.is_dir() else frozenset()

    def _note(self, version: str, event: Event, why: str) -> None:
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        entry = Decision(at=at, version=version, event=event, why=why)
        private_folder(self._folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with open(os.open(self._folder / _HISTORY, flags, 0o600), "a") as file:
            file.write(entry.model_dump_json() + "\n")

    def _has(self, version: str) -> bool:
        # One look, where listing all versions is a look at each of thousands.
        named = version == Path(version).name and version[:1] not in ("", ".")
        return named and (self._folder / version).is_dir()

    def versions(self) -> list[str]:
        """All versions, oldest first."""
        if not self._folder.is_dir():
            return []
        with os.scandir(self._folder) as entries:
            folders = [(e.stat().st_mtime_ns, e.name) for e in entries if e.is_dir()]
        return [name for _, name in sorted(folders) if name[0] != "."]


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(raw).hexdigest() for name, raw in files.items()}


def _way_back(used: Sequence[Decision]) -> list[str]:
    """Champions that a walk back meets, the present one last; those rolled back from are not met.

    Otherwise a second step back would lead to where the first one came from.
    """
    line: list[str] = []
    for entry in used:
        if entry.event == "rolled back" and entry.version in line:
            while line[-1] != entry.version:
                line.pop()
        else:
            line.append(entry.version)
    return line


def backend_in(files: Mapping[str, bytes]) -> Reader:
    """The reader of a version, by the name of its model file.

    Args:
        files: The version's files.

    Raises:
        ContractError: There is no model among them.
    """
    for backend in READERS:
        if backend.file in files:
            return backend
    raise ContractError("A model version holds no model file.", "Promote another version.")


def model_in(files: Mapping[str, bytes]) -> str:
    """A version's model.

    Args:
        files: The version's files.

    Raises:
        ContractError: There is no model among them.
    """
    return files[backend_in(files).file].decode()


def has_model(names: Collection[str]) -> bool:
    """True if this release reads the model of a version.

    Args:
        names: Of the version's files.
    """
    return any(backend.file in names for backend in READERS)


def federation_in(files: Mapping[str, bytes]) -> Federation:
    """The federation with which a version was trained.

    Args:
        files: The version's files.
    """
    return parse_federation(json.loads(files["federation.json"]), "federation.json")


def keep(folder: Path, version: str, name: str, groups: Groups) -> tuple[Path, bool]:
    """Add a file of scores, whole or not at all.

    Args:
        folder: Of the federation's scores; made if it is absent.
        version: Of the model.
        name: Of what the scores follow from.
        groups: The scores; at least one row group.

    Returns:
        ``<folder>/<version>/<name>.parquet``, and whether it is new.

    Raises:
        ContractError: It is there with other content, or damaged.
    """
    target = folder / version / f"{name}.parquet"
    if target.exists():
        if not _holds_scores(target, groups):
            raise ContractError(
                f"{target.name} is damaged, or holds other scores of the same rows by the same "
                "model.",
                "Scores are never changed: move the file away, and run the task again.",
            )
        return target, False
    with whole_file(target) as file:
        write_groups(file, groups())
    return target, True


def write_groups(file: IO[bytes], groups: Iterator[pa.Table]) -> None:
    """Write a Parquet file, of which no more than a row group is in memory.

    Args:
        file: Where.
        groups: At least one row group, in one piece each.
    """
    group = next(groups)
    with pq.ParquetWriter(file, group.schema, compression="zstd") as writer:
        writer.write_table(group)
        del group  # Before the next one is made.
        for each in groups:
            writer.write_table(each)


def _holds_scores(path: Path, groups: Groups) -> bool:
    try:
        # By this thread alone, as everywhere: Arrow's own might outlive the interpreter.
        with pq.ParquetFile(path, pre_buffer=False) as file:
            blocks = file.iter_batches(_ROWS, use_threads=False)
            stored = _content_summary(
                file.schema_arrow, (pa.Table.from_batches([b]) for b in blocks)
            )
    except (pa.ArrowException, OSError, ValueError):
        return False
    return stored == _content_summary(next(groups()).schema, groups())


def _content_summary(schema: pa.Schema, tables: Iterator[pa.Table]) -> tuple[object, ...]:
    """A summary of scores by person, for any order, pieces and dictionaries of their tables."""
    rows, total, types = 0, np.zeros(len(_SEEDS), dtype=np.uint64), {}
    # A file without rows has no block at all.
    for table in filter(len, tables):
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        frame = frame.with_columns(pl.col(pl.Categorical).cast(pl.String))
        types = dict(frame.schema)
        rows += frame.height
        for i, seed in enumerate(_SEEDS):
            # As arrays: a sum beyond 64 bits is meant, and of a single number it would be warned.
            total[i : i + 1] += frame.hash_rows(seed=seed).to_numpy().sum(keepdims=True)
    return schema.metadata, types, rows, total.tolist()
