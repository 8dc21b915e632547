"""Unix users: one a party and one for the coordinator, used by nothing else."""

import grp
import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from opboost_ops.errors import ConfigError

#: Debian's longest name of a user.
_LONGEST = 32


@dataclass(frozen=True)
class Account:
    """A unix user.

    Attributes:
        name: Its name.
        uid: Its number.
        gid: The number of its own group.
    """

    name: str
    uid: int
    gid: int


def make_user(name: str, home: Path) -> Account:
    """A user that nobody can log in as, made if it is absent.

    Args:
        name: Its name.
        home: Its home, which is not made here.

    Raises:
        ConfigError: The name is too long, or the system refuses.
    """
    if len(name) > _LONGEST:
        raise ConfigError(
            f"The user name {name} has over {_LONGEST} letters.", "Use a shorter one."
        )
    if found := find_user(name):
        return found
    _run(
        *("useradd", "--system", "--user-group", "--no-create-home"),
        *("--home-dir", str(home), "--shell", "/usr/sbin/nologin", name),
    )
    made = find_user(name)
    assert made is not None
    return made


def find_user(name: str) -> Account | None:
    """A user of that name, if there is one."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name, entry.pw_uid, entry.pw_gid)


def remove_user(name: str) -> None:
    """Remove a user and its own group; nothing if there is none."""
    if find_user(name):
        _run("userdel", name)


def make_group(name: str) -> int:
    """The number of a group, made if it is absent."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        _run("groupadd", "--system", name)
        return grp.getgrnam(name).gr_gid


def remove_group(name: str) -> None:
    """Remove a group; nothing if there is none."""
    try:
        grp.getgrnam(name)
    except KeyError:
        return
    _run("groupdel", name)


def give(path: Path, account: Account) -> None:
    """Make a user the owner of a path and of all below it; links are not followed."""
    os.chown(path, account.uid, account.gid, follow_symlinks=False)
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            os.chown(Path(folder, name), account.uid, account.gid, follow_symlinks=False)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ConfigError(
            f"There is no {command[0]}.", "Install Debian's package passwd."
        ) from None
    if done.returncode:
        raise ConfigError(f"{command[0]} {command[-1]} failed: {done.stderr.strip()}")
