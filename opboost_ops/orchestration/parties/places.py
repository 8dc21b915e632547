"""Where the things of a topology lie, and who may look."""

import os
from dataclasses import dataclass
from pathlib import Path

from opboost_ops.errors import ConfigError

#: What is made in it belongs to its group, and is removed by its owner alone.
SHARED = 0o3770


@dataclass(frozen=True)
class Places:
    """Folders of a topology.

    Attributes:
        root: Above all of them; every user may pass.
    """

    root: Path

    @property
    def federations(self) -> Path:
        """The federation files, which everybody reads."""
        return self.root / "federations"

    @property
    def exchange(self) -> Path:
        """The store, which the parties' group shares."""
        return self.root / "exchange"

    @property
    def coordinator(self) -> Path:
        """The coordinator's home: Airflow, PostgreSQL, Redis."""
        return self.root / "coordinator"

    @property
    def passwords(self) -> Path:
        """Who may log in to Airflow."""
        return self.coordinator / "airflow" / "passwords.json"

    @property
    def secrets(self) -> Path:
        """Passwords and keys that the topology made: root's own file."""
        return self.root / "secrets.json"

    @property
    def state(self) -> Path:
        """What runs: root's own file."""
        return self.root / "state.json"

    @property
    def lock(self) -> Path:
        """Held while the topology starts or ends."""
        return self.root / "lock"

    def home(self, party: str) -> Path:
        """A party's home: ``site.yaml``, policy, keys, tables, logs, and all that it makes."""
        return self.root / "homes" / party


def check_passable(root: Path) -> None:
    """Make sure that other users can come to a folder.

    Raises:
        ConfigError: A folder above it is closed to them.
    """
    for folder in root.parents:
        if folder.exists() and not folder.stat().st_mode & 0o001:
            raise ConfigError(
                f"Other users cannot enter {folder}, and the parties are other users.",
                "Choose another folder by --folder, such as /srv/opboost-parties.",
            )


def make(folder: Path, mode: int, uid: int = 0, gid: int = 0) -> Path:
    """Make a folder with exactly this mode and owner, or set them right.

    Args:
        folder: Where; its parent is there.
        mode: Its rights.
        uid: Its owner.
        gid: Its group.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    os.chown(folder, uid, gid, follow_symlinks=False)
    folder.chmod(mode)
    return folder


def write(path: Path, content: str, mode: int = 0o600, uid: int = 0, gid: int = 0) -> None:
    """Replace a file by one with exactly this mode and owner.

    Args:
        path: Where.
        content: What it says.
        mode: Its rights.
        uid: Its owner.
        gid: Its group.
    """
    # Its folder may belong to another user: nothing that lies there is followed or written to.
    aside = path.with_name(f".{path.name}.new")
    aside.unlink(missing_ok=True)
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
        os.fchown(file.fileno(), uid, gid)
    aside.rename(path)
