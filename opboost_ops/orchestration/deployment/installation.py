"""Installs a federation into an Airflow home: its DAG file, preloading, and the parties' sites.

Changes are planned first, so that a person can review them. Existing content is preserved: a
change adds lines, fills in an empty option, or is refused.
"""

import os
import re
import shutil
from configparser import ConfigParser, Error
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from shlex import quote

from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.settings import SECTION
from opboost_ops.pipeline.party.party_sites import party_site_file

#: Tasks are forked from the scheduler or a worker, and parsers from the DAG processor, so modules
#: that these have imported need not be imported again.
LOCAL_SETTINGS = """import sys

if "scheduler" in sys.argv or sys.argv[1:3] == ["celery", "worker"]:
    from opboost_ops.orchestration.deployment.preload import preload

    preload()
elif "dag-processor" in sys.argv:
    import opboost_ops.orchestration.dags.factory
"""

#: Text by which an existing file is recognised to preload.
PRELOADS = "opboost_ops.orchestration.deployment.preload"

#: Airflow by default skips a DAG file that does not contain the word "airflow".
_DAG_FILE = '''"""The DAGs of the federation {name}, for Airflow."""

from opboost_ops.orchestration.dags.factory import federation_dags

globals().update(federation_dags({path!r}))
'''


@dataclass(frozen=True)
class Change:
    """A planned change of a file.

    Attributes:
        path: The file.
        before: Its current text; None if it does not exist.
        after: Its new text.
    """

    path: Path
    before: str | None
    after: str

    def diff(self) -> str:
        """Return the diff without context lines, which may contain secrets."""
        old = "/dev/null" if self.before is None else str(self.path)
        before = (self.before or "").splitlines()
        after = self.after.splitlines()
        return "\n".join(unified_diff(before, after, old, str(self.path), n=0, lineterm=""))

    def write(self) -> None:
        """Write the file atomically.

        Raises:
            ConfigError: It has changed since the change was planned, or cannot be written.
        """
        if _text(self.path) != self.before:
            raise ConfigError(
                f"{self.path} has changed since the change was planned.", "Run the command again."
            )
        target = self.path.resolve()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            new = target.with_name(f".{target.name}.opboost")
            new.write_text(self.after, encoding="utf-8")
            if self.before is not None:
                shutil.copymode(target, new)
            new.replace(target)
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {error.strerror}.") from None


def plan(home: Path, federation_file: Path) -> list[Change]:
    """Return the changes that install a federation into an Airflow home; empty if none is needed.

    Args:
        home: The AIRFLOW_HOME, in which Airflow has created its ``airflow.cfg``.
        federation_file: Path of the ``federation.yaml``.

    Raises:
        ConfigError: ``home`` is not an AIRFLOW_HOME, the federation file is invalid, or an existing
            file or option conflicts.
    """
    file = federation_file.resolve()
    federation = load_federation(file)
    settings = home / "airflow.cfg"
    text = _text(settings)
    if text is None:
        raise ConfigError(
            f"{home} has no airflow.cfg.",
            f"Create it: `AIRFLOW_HOME={quote(str(home.resolve()))} airflow db migrate`.",
        )
    sites = {name: party_site_file(file, name) for name in federation.parties}
    # In Airflow's configuration, a single % begins an interpolation.
    options = {
        f"site_{name}": str(path.resolve()).replace("%", "%%")
        for name, path in sites.items()
        if path
    }
    dag_file = _dags_folder(home, text, settings) / f"{federation.name}_federation.py"
    changes = [
        _own_file(dag_file, _DAG_FILE.format(name=federation.name, path=str(file))),
        _local_settings(home / "config" / "airflow_local_settings.py"),
        Change(settings, text, _with_options(text, options, settings)),
    ]
    return [change for change in changes if change.before != change.after]


def _own_file(path: Path, text: str) -> Change:
    before = _text(path)
    if before not in (None, text):
        raise ConfigError(
            f"{path} already exists, with different content.",
            "Remove or rename it, then run the command again.",
        )
    return Change(path, before, text)


def _local_settings(path: Path) -> Change:
    before = _text(path)
    if before is not None and PRELOADS in before:
        return Change(path, before, before)
    existing = before or ""
    gap = "" if not existing else "\n" if existing.endswith("\n") else "\n\n"
    return Change(path, before, f"{existing}{gap}{LOCAL_SETTINGS}")


def _dags_folder(home: Path, text: str, settings: Path) -> Path:
    configured = _parsed(text, settings).get("core", "dags_folder", fallback="")
    configured = os.environ.get("AIRFLOW__CORE__DAGS_FOLDER", configured)
    folder = configured.replace("{AIRFLOW_HOME}", str(home.resolve()))
    return Path(folder).expanduser() if folder else home.resolve() / "dags"


def _with_options(text: str, options: dict[str, str], settings: Path) -> str:
    """Return the configuration with the options in our section; existing values are kept."""
    parsed = _parsed(text, settings)
    existing = dict(parsed[SECTION]) if parsed.has_section(SECTION) else {}
    for name, value in options.items():
        if existing.get(name) not in (None, "", value):
            raise ConfigError(
                f"{settings} already sets [{SECTION}] {name} to another site.",
                f"Set it to {value}, or remove the line.",
            )
    lines = [
        f"{name} = {value}\n" for name, value in options.items() if existing.get(name) != value
    ]
    if not lines:
        return text
    whole = text if text.endswith("\n") or not text else f"{text}\n"
    header = re.search(rf"^\[{SECTION}\][^\n]*\n", whole, re.MULTILINE)
    if header is None:
        return f"{whole}\n[{SECTION}]\n{''.join(lines)}"
    start = header.end()
    end = re.search(r"^\[", whole[start:], re.MULTILINE)
    stop = start + end.start() if end else len(whole)
    body = whole[start:stop]
    for name in options:
        # Airflow would read an empty option instead of ours.
        body = re.sub(rf"^{re.escape(name)}[ \t]*=[ \t]*\n", "", body, flags=re.MULTILINE)
    return f"{whole[:start]}{''.join(lines)}{body}{whole[stop:]}"


def _parsed(text: str, settings: Path) -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    try:
        parser.read_string(text)
    except Error:
        raise ConfigError(f"{settings} is not a valid Airflow configuration file.") from None
    return parser


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"{path} cannot be read.") from None
