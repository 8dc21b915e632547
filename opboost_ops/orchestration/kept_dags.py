"""Built DAGs, kept between the parses of a DAG processor: building takes far longer than reading.

What is kept is a pickle, which runs code when it is read. So it lies in a folder of this user's in
Airflow's home that nobody else may enter, and no task reads it: each builds its own DAG.
"""

import hashlib
import io
import json
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import airflow
from airflow.configuration import AIRFLOW_HOME
from airflow.sdk import DAG

from opboost_ops.config.yaml_text import MOST_BYTES, bounded_text
from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.pods import FOLDER as _PODS

#: In Airflow's home.
FOLDER = "opboost-dags"

#: The one command of Airflow's whose processes parse again and again.
PROCESSOR = "dag-processor"

#: A folder in which each package that is installed, renewed or removed changes a name.
_PACKAGES = Path(airflow.__file__).parents[1]


def _stamps(paths: Iterable[Path]) -> list[tuple[str, int, int, int]]:
    found = []
    for path in paths:
        with suppress(OSError):
            told = path.stat()
            # Some installers give all files one time of writing; that of their making is no gift.
            found.append((str(path), told.st_size, told.st_mtime_ns, told.st_ctime_ns))
    return sorted(found)


def _code() -> list[tuple[str, int, int, int]]:
    if not of_a_processor():
        return []
    files = os.walk(Path(__file__).parents[1])
    return _stamps(Path(f) / name for f, _, names in files for name in names if name[-4:] != ".pyc")


def of_a_processor() -> bool:
    """Whether this process is a DAG processor's."""
    return sys.argv[1:2] == [PROCESSOR]


#: Of the code that this process has, as it was when it was imported: a process that is forked later
#: has the same, whatever lies on disk by then.
_CODE = _code()


class KeptDags:
    """What federation files became at an earlier parse of the same DAG processor.

    It forks a process for each parse, so all that it has in memory, Airflow's settings among it, is
    the same as long as it lives; with a new one all is built anew. A file's DAGs are found again
    until something else changes that they are made of: its bytes and path, designed channels beside
    it, pods of tasks, the code, and what is installed beside Airflow. There is one such folder for
    all: files that another call did not ask for are removed by it.

    Args:
        parties: Whose tasks this Airflow runs; all when absent.
        home: Airflow's home.
    """

    def __init__(self, parties: Sequence[str] | None, home: Path = Path(AIRFLOW_HOME)) -> None:
        self._folder = home / FOLDER
        self._parties = parties
        self._keys: dict[Path, str | None] = {}
        self._beside: dict[Path, str] = {}

    def find(self, path: Path) -> dict[str, DAG] | None:
        """A file's DAGs.

        Args:
            path: The federation file.

        Returns:
            DAGs by id; None if they have to be built.
        """
        key = self._keys[path] = self._key(path)
        if key is None or not self._is_own:
            return None
        # Whatever is wrong with it, they can be built.
        with suppress(Exception):
            told, _, kept = _read(self._folder / _name(path)).partition(b"\n")
            if told.decode() == f"{key} {hashlib.sha256(kept).hexdigest()}":
                found: dict[str, DAG] = pickle.loads(kept)  # noqa: S301
                return found
        return None

    def keep(self, path: Path, dags: Mapping[str, DAG]) -> None:
        """Keep a file's DAGs, where that is possible.

        Args:
            path: The federation file, which `find` was asked for.
            dags: By id.
        """
        key = self._keys.get(path)
        # Unless it has changed since: what was built may be either.
        if key is None or key != self._key(path):
            return
        with suppress(Exception):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if not self._is_own:
                return
            kept = _pickled(dict(dags))
            number, name = tempfile.mkstemp(dir=self._folder)
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(f"{key} {hashlib.sha256(kept).hexdigest()}\n".encode() + kept)
                os.replace(name, self._folder / _name(path))
            except BaseException:
                with suppress(OSError):
                    os.unlink(name)
                raise

    def tidy(self) -> None:
        """Remove what is of files that `find` was not asked for."""
        if not self._is_own:
            return
        names = {_name(path) for path in self._keys}
        with suppress(OSError):
            for file in os.scandir(self._folder):
                if file.name not in names:
                    os.unlink(file)

    @property
    def _is_own(self) -> bool:
        try:
            told = self._folder.lstat()
        except OSError:
            return False
        return stat.S_ISDIR(told.st_mode) and _is_private(told)

    def _key(self, path: Path) -> str | None:
        try:
            text = bounded_text(path, MOST_BYTES)
            return _digest(text, str(path), self._looked_at(path), self._around)
        except (OSError, ValueError, ConfigError):
            return None

    def _looked_at(self, path: Path) -> str:
        # A channel may have any name. In a folder of federation files that of another is none.
        alone = path.name == "federation.yaml"
        place = path if alone else path.parent
        if place not in self._beside:
            others = (p for p in path.parent.iterdir() if alone or p.suffix != path.suffix)
            self._beside[place] = _digest(_stamps(p for p in others if p.is_file() and p != path))
        return self._beside[place]

    @cached_property
    def _around(self) -> str:
        pods = os.environ.get(_PODS)
        manifests = _stamps(Path(pods).glob("*.yaml")) if pods else []
        return _digest(_processor(), self._parties, manifests, _stamps([_PACKAGES]), _CODE)


def _processor() -> tuple[int, str]:
    """Which process this one was forked from; its number alone may come again.

    Raises:
        OSError: This machine does not tell.
    """
    number = os.getppid()
    started = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return number, f"{started} {boot}"


def _is_private(told: os.stat_result) -> bool:
    return told.st_uid == os.geteuid() and not told.st_mode & 0o077


def _read(path: Path) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as file:
        # The folder may have been exchanged since it was looked at; nobody can make a file of ours.
        return file.read() if _is_private(os.fstat(file.fileno())) else b""


class _Pickler(pickle.Pickler):
    """Airflow asks of some of its objects whether they are that very one: they stay it."""

    def reducer_override(self, thing: Any) -> Any:
        module = type(thing).__module__
        if module.startswith("airflow."):
            for name, value in vars(sys.modules[module]).items():
                if value is thing:
                    return _one, (module, name)
        return NotImplemented


def _one(module: str, name: str) -> Any:
    return getattr(sys.modules[module], name)


def _pickled(thing: Any) -> bytes:
    into = io.BytesIO()
    _Pickler(into, protocol=pickle.HIGHEST_PROTOCOL).dump(thing)
    return into.getvalue()


def _name(path: Path) -> str:
    return _digest(str(path))[:32]


def _digest(*facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
