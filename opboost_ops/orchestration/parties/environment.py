"""A Python environment that every user of the machine can run, and none but root can change."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import opboost_ops
from opboost_ops.errors import ConfigError
from opboost_ops.resources import dags_folder, schemas_folder

#: The system's own Python: another may lie where other users cannot reach it.
PYTHON = Path("/usr/bin/python3")

_LOCK = "requirements.lock"


def build(folder: Path) -> Path:
    """Make or renew the environment from the lock file and this package, if either has changed.

    Args:
        folder: Where.

    Returns:
        Its Python.

    Raises:
        ConfigError: This is no checkout, or a step failed.
    """
    package = Path(opboost_ops.__file__).resolve().parent
    checkout = package.parent
    if not (checkout / _LOCK).is_file():
        raise ConfigError(
            "The environment of the parties is built from a checkout.",
            "Run `make parties-up` there.",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Topologies share it, and may start at the same time.
    with folder.with_suffix(".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        return _build(folder, package, checkout)


def _build(folder: Path, package: Path, checkout: Path) -> Path:
    python = folder / "bin" / "python"
    lock = _digest([checkout / _LOCK])
    code = _digest(
        [checkout / "pyproject.toml", checkout / "hatch_build.py", *_sources(package, checkout)]
    )
    if not (python.exists() and _stamp(folder, "lock") == lock):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o755)
        _run(PYTHON, "-m", "venv", *(("--without-pip",) if _uv() else ()), folder)
        _install(python, checkout, "--require-hashes", "-r", _LOCK)
        (folder / "lock.sha256").write_text(lock)
    if _stamp(folder, "code") != code:
        more = () if _uv() else ("--force-reinstall",)
        again = ("--reinstall-package", "opboost-ops") if _uv() else ()
        _install(python, checkout, "--no-deps", "--no-build-isolation", *more, *again, ".")
        (folder / "code.sha256").write_text(code)
    return python


def _sources(package: Path, checkout: Path) -> list[Path]:
    roots = [package, dags_folder(), schemas_folder(), checkout / "README.md"]
    found = [path for root in roots for path in (root.rglob("*") if root.is_dir() else [root])]
    return sorted(p for p in found if p.is_file() and "__pycache__" not in p.parts)


def _digest(paths: Sequence[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(str(path).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _stamp(folder: Path, name: str) -> str:
    path = folder / f"{name}.sha256"
    return path.read_text() if path.is_file() else ""


def _uv() -> str | None:
    beside = Path(sys.executable).parent
    return shutil.which("uv", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")


def _install(python: Path, checkout: Path, *what: str) -> None:
    # Compiled now, as the parties cannot write there.
    if uv := _uv():
        pip = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python)]
    else:
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run(*pip, *what, cwd=checkout)


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    kept = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=kept,
        umask=0o022,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = "\n".join(done.stderr.strip().splitlines()[-10:])
        raise ConfigError(
            f"The parties' environment was not made:\n{lines}",
            "It needs Debian's package python3-venv, and the packages of the lock file.",
        )
