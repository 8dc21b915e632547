"""The store: the only channel between parties."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from opboost_ops.config.key_sources import AIRFLOW, connection_of
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.store.folder import THROWAWAY, LocalStore
from opboost_ops.exchange.store.objects import ObjectStore
from opboost_ops.exchange.store.places import PLAIN_NAME
from opboost_ops.exchange.store.reads import Admit
from opboost_ops.tables.s3 import Login, S3Bucket

__all__ = ["ENVIRONMENT", "THROWAWAY", "LocalStore", "ObjectStore", "Store", "open_store"]

#: The type of a connection of Airflow's that names a store.
CONNECTION = "opboost_store"

#: How ``store`` names an environment variable that holds the URL.
ENVIRONMENT = "env:"


class Store(Protocol):
    """Folders of files, each written once and seen whole or not at all.

    All methods raise ``ConnectionError`` when the network or a server fails, so that trying again
    may help, and an ``OpBoostError`` in all other cases.
    """

    @property
    def throwaway(self) -> bool:
        """True if the store was made for an experiment and may hold seeded noise."""

    def identity(self) -> str | None:
        """Which store this is, 32 hex digits; None where nothing says it.

        Raises:
            ArtifactError: Something else is in its place.
        """

    def set_identity(self, identity: str) -> None:
        """Say which store this is, where nothing says it yet.

        Args:
            identity: 32 hex digits.
        """

    def keeps_first(self, federation: str) -> bool:
        """Probe whether only one of several writers of one place succeeds, and what it wrote stays.

        Args:
            federation: Below its place; nothing stays there.
        """

    def put_once(self, reference: str, files: Mapping[str, bytes], *, durable: bool = True) -> bool:
        """Publish a folder that contains a manifest.

        Args:
            reference: Its place.
            files: Its files by name.
            durable: Survives a power cut from now on. Otherwise, where that is much faster, a
                power cut may leave the place empty or damaged; another process never sees that.

        Returns:
            True if it was new, False if the same content was already there.

        Raises:
            ArtifactError: Other content was already published there.
        """

    def get(self, reference: str, admit: Admit | None = None) -> Mapping[str, bytes] | None:
        """The files of a published folder, or None if no whole one is there.

        Parts of a long list are read from the store each time they are looked at.

        Args:
            reference: Their place.
            admit: Verifies manifest and signature, before anything else is read, and says what
                else there may be. Callers that use what is inside give one.

        Raises:
            Rejected: There is something else, or what no artifact has: a link, a pipe, a device.
        """

    def wait(
        self, reference: str, timeout: float, admit: Admit | None = None
    ) -> Mapping[str, bytes]:
        """The files at a reference as soon as they are published.

        Args:
            reference: Their place.
            timeout: Seconds to wait.
            admit: As for `get`.

        Raises:
            ArtifactError: Nothing was published there in time.
            Rejected: As by `get`.
        """

    def written(self, reference: str) -> float | None:
        """When a folder was published, by the store's clock.

        Args:
            reference: Its place.

        Returns:
            Seconds since 1970; None if nothing is published there. Nobody has signed it.
        """

    def runs(self, federation: str) -> list[str]:
        """Ids of the runs of which anything is here, sorted; it may lag behind.

        Args:
            federation: The runs' federation.
        """

    def garbage(self, older_than_seconds: float) -> list[str]:
        """Remains of crashed writers; nothing published is ever among them.

        Args:
            older_than_seconds: Only what has not changed for so long.

        Returns:
            Names inside the store, for people.
        """

    def collect(self, older_than_seconds: float) -> list[str]:
        """Remove what `garbage` lists.

        Args:
            older_than_seconds: Only what has not changed for so long.

        Returns:
            What was removed.
        """

    def remove_run(self, federation: str, run: str) -> int:
        """Remove a run with all its artifacts; each of them vanishes whole.

        Args:
            federation: The run's federation.
            run: Its id.

        Returns:
            How many artifacts it had.
        """

    # Last of all, because from here on its name hides the builtin.
    def list(self, prefix: str) -> list[str]:
        """References of the published folders below ``prefix``, sorted; it may lag behind."""


def open_store(url: str, environ: Mapping[str, str] = os.environ) -> Store:
    """The store that ``store`` in ``site.yaml`` names; see docs/exchange.md.

    Args:
        url: A folder, a ``file://`` or ``s3://`` URL, ``env:NAME`` for an environment variable that
            holds one of these, or ``airflow:NAME`` for a connection of this worker's own Airflow.
        environ: Where that variable is looked up.

    Raises:
        ConfigError: No store of that kind is known, or the URL carries credentials.
    """
    what = "store"
    if url.startswith(AIRFLOW):
        return _connected(url.removeprefix(AIRFLOW))
    if url.startswith(ENVIRONMENT):
        name = url.removeprefix(ENVIRONMENT)
        what, url = f"store (from the variable {name})", environ.get(name, "")
        if not url or url.startswith(ENVIRONMENT):
            raise ConfigError(
                f"store: the environment variable {name} holds no URL.",
                "Set it to a folder or URL on this party's workers.",
            )
    if "://" not in url:
        return LocalStore(Path(url))
    scheme, rest = url.split("://", 1)
    if scheme == "file" and rest.startswith("/"):
        return LocalStore(Path(rest))
    if scheme == "s3":
        return _s3(url, what)
    if scheme == "file":
        raise ConfigError(f"{what}: a file:// URL names a host.", "Write file:///, then the path.")
    # What stands before :// is shown only if it cannot be a secret.
    shown = f"{scheme}:// URLs" if re.fullmatch(r"[a-z]{1,10}", scheme) else "this kind of URL"
    raise ConfigError(
        f"{what}: this version has no store for {shown}.",
        "Give a folder that all parties reach, as a path or file:// URL, or s3://bucket/prefix.",
    )


def store_of(connection: Mapping[str, str], what: str) -> Store:
    """The store that a connection of Airflow's names.

    Args:
        connection: Its fields: ``host`` is the bucket, ``schema`` the prefix, ``login`` and
            ``password`` the access key; perhaps ``endpoint``, ``region`` and ``session_token``.
        what: What it is called in errors.

    Raises:
        ConfigError: It is none of a store, or half a login, or names no bucket.
    """
    if connection["conn_type"] != CONNECTION:
        raise ConfigError(
            f"{what} is of another type than {CONNECTION}.", "Make it one of that type."
        )
    if bool(connection["login"]) != bool(connection["password"]):
        raise ConfigError(
            f"{what} has half a login.",
            "Give the access key's id and the access key, or neither: then those of the "
            "worker's environment are used.",
        )
    login = Login(
        connection["login"],
        connection["password"],
        connection.get("session_token", ""),
        connection.get("endpoint", ""),
        connection.get("region", ""),
    )
    place = f"{connection['host']}/{connection['schema'].strip('/')}"
    return _s3(f"s3://{place.rstrip('/')}", what, login)


def _connected(name: str) -> Store:
    connection = connection_of(name)
    if connection is None:
        raise ConfigError(
            f"store: no connection {name} is in the secrets backends of this worker's own Airflow.",
            "Set it on this party's workers only, for example as AIRFLOW_CONN_"
            f"{name.upper()}. The database of an Airflow that parties share is not asked.",
        )
    return store_of(connection, f"store (the connection {name})")


def _s3(url: str, what: str, login: Login | None = None) -> ObjectStore:
    form = "Write s3://bucket/prefix."
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is None or "@" in url or parts.query or parts.fragment or "?" in url:
        raise ConfigError(
            f"{what}: the URL carries credentials or options, which do not belong there.",
            f"{form} Credentials come from the environment: AWS_ACCESS_KEY_ID and the like.",
        )
    prefix = parts.path.strip("/")
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", parts.netloc):
        raise ConfigError(f"{what}: the URL names no bucket.", form)
    if prefix and not all(re.match(PLAIN_NAME, part) for part in prefix.split("/")):
        raise ConfigError(f"{what}: the prefix in the URL is not one of plain names.", form)
    return ObjectStore(S3Bucket(parts.netloc, prefix, login))
