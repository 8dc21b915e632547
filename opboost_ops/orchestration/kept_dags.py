"""Built DAGs, kept between parses: building them takes twenty times as long as reading them back.

What is kept is a pickle, which runs code when it is read. So it lies in a folder of this user's in
Airflow's home that nobody else may enter, and is read from no other.
"""

import hashlib
import json
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path

import airflow
from airflow.configuration import AIRFLOW_CONFIG, AIRFLOW_HOME
from airflow.sdk import DAG

from opboost_ops.config.yaml_text import MOST_BYTES, bounded_text
from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.pods import FOLDER as _PODS

#: In Airflow's home.
FOLDER = "opboost-dags"

_SETTINGS = ("AIRFLOW", "OPBOOST", "OPENLINEAGE")
#: A task's own, which name its run.
_OF_TASKS = "AIRFLOW_CTX_"

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


#: Of the code that this process has, as it was when it was imported: a process that is forked later
#: has the same, whatever lies on disk by then.
_CODE = _stamps(
    Path(folder) / name
    for folder, _, names in os.walk(Path(__file__).parents[1])
    for name in names
    if not name.endswith(".pyc")
)


class KeptDags:
    """What the federation files of a folder became at an earlier parse.

    A file's DAGs are found again as long as nothing has changed that they are made of: its bytes
    and path, designed channels beside it, pods of tasks, settings of Airflow's and ours, the code,
    and what is installed beside Airflow.

    Args:
        files: The folder of federation files.
        parties: Whose tasks this Airflow runs; all when absent.
        home: Airflow's home.
    """

    def __init__(
        self, files: Path, parties: Sequence[str] | None, home: Path = Path(AIRFLOW_HOME)
    ) -> None:
        self._own = home / FOLDER
        self._parties = parties
        self._folder = self._own / _digest(str(files), parties)[:32]
        self._keys: dict[Path, str | None] = {}
        self._beside: dict[Path, str] = {}

    def find(self, path: Path, only: str | None) -> dict[str, DAG] | None:
        """A file's DAGs.

        Args:
            path: The federation file.
            only: The DAG that is needed of them; all, when absent or none of them.

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
                bodies: Mapping[str, bytes] = pickle.loads(kept)  # noqa: S301
                wanted = bodies if only is None or only not in bodies else [only]
                return {name: pickle.loads(bodies[name]) for name in wanted}  # noqa: S301
        return None

    def keep(self, path: Path, dags: Mapping[str, DAG]) -> None:
        """Keep a file's DAGs, where that is possible.

        Args:
            path: The federation file, which `find` was asked for.
            dags: All of them, by id.
        """
        key = self._keys.get(path)
        # Unless it has changed since: what was built may be either.
        if key is None or key != self._key(path):
            return
        with suppress(Exception):
            kept = pickle.dumps({name: pickle.dumps(dag) for name, dag in dags.items()})
            self._own.mkdir(mode=0o700, exist_ok=True)
            if not self._is_own:
                return
            self._folder.mkdir(mode=0o700, exist_ok=True)
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
            told = self._own.lstat()
        except OSError:
            return False
        return stat.S_ISDIR(told.st_mode) and _is_private(told)

    def _key(self, path: Path) -> str | None:
        try:
            text = bounded_text(path, MOST_BYTES)
        except (OSError, ValueError, ConfigError):
            return None
        beside = self._beside.get(path.parent)
        if beside is None:
            beside = self._beside[path.parent] = _digest(_stamps(path.parent.glob("*.json")))
        return _digest(text, str(path), beside, self._around)

    @cached_property
    def _around(self) -> str:
        settings = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(_SETTINGS) and not name.startswith(_OF_TASKS)
        }
        pods = Path(settings[_PODS]).glob("*.yaml") if settings.get(_PODS) else ()
        installed = _stamps([Path(AIRFLOW_CONFIG), _PACKAGES])
        return _digest(self._parties, settings, _stamps(pods), installed, _code())


@cache
def _code() -> str:
    return _digest(sys.version, airflow.__version__, _CODE)


def _is_private(told: os.stat_result) -> bool:
    return told.st_uid == os.geteuid() and not told.st_mode & 0o077


def _read(path: Path) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as file:
        # The folder may have been exchanged since it was looked at; nobody can make a file of ours.
        return file.read() if _is_private(os.fstat(file.fileno())) else b""


def _name(path: Path) -> str:
    return _digest(str(path))[:32]


def _digest(*facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
