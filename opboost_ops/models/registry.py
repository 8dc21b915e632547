"""The label holder's models: immutable versions, and which one is champion."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp

from opboost_ops.errors import ContractError

_CHAMPION = "champion.json"


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
        target = self._folder / version
        self._folder.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            temporary = Path(mkdtemp(dir=self._folder, prefix=".part-"))
            try:
                for name, content in files.items():
                    (temporary / name).write_bytes(content)
                    (temporary / name).chmod(0o444)
                temporary.chmod(0o755)
                temporary.rename(target)
            except OSError:
                shutil.rmtree(temporary, ignore_errors=True)
                if not target.exists():
                    raise
        found = {path.name: path.read_bytes() for path in target.iterdir()}
        if found != dict(files):
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
        if not isinstance(version, str) or not (self._folder / version).is_dir():
            raise ContractError(
                "champion.json is damaged: it names no version.",
                "Write the version's name back into it; the versions themselves are intact.",
            )
        return version

    def set_champion(self, version: str) -> None:
        """Put a version into use; a crash leaves the previous one."""
        if version not in self.versions():
            raise ContractError(f"There is no model version {version}.")
        temporary = self._folder / f".{_CHAMPION}.{os.getpid()}"
        with temporary.open("w") as file:
            file.write(json.dumps({"version": version}))
            file.flush()
            # On disk before the name is: a power cut must not leave an empty champion.
            os.fsync(file.fileno())
        temporary.replace(self._folder / _CHAMPION)

    def versions(self) -> list[str]:
        """All versions, oldest first."""
        if not self._folder.is_dir():
            return []
        folders = [p for p in self._folder.iterdir() if p.is_dir() and p.name[0] != "."]
        return [path.name for path in sorted(folders, key=lambda path: path.stat().st_mtime_ns)]
