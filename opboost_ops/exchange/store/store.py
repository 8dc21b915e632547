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

#: Type of Airflow connections that name a store.
CONNECTION = "opboost_store"

#: Prefix of ``store`` if an environment variable contains the URL.
ENVIRONMENT = "env:"


class Store(Protocol):
    """Artifacts, which are folders of files: each is written once, atomically.

    All methods raise ``ConnectionError`` if the network or a server fails, so that a retry may
    help, and an ``OpBoostError`` in all other cases.
    """

    @property
    def throwaway(self) -> bool:
        """True if the store was made for an experiment and may hold seeded noise."""

    def identity(self) -> str | None:
        """Return the store's identity, 32 hex digits; None if it has none yet.

        Raises:
            ArtifactError: The identity is damaged.
        """

    def set_identity(self, identity: str) -> None:
        """Write the store's identity, if it has none yet.

        Args:
            identity: 32 hex digits.
        """

    def keeps_first(self, federation: str) -> bool:
        """Test whether only the first of several writers to a place succeeds, and its data stays.

        Args:
            federation: Federation in whose folder a temporary place is used.
        """

    def put_once(self, reference: str, files: Mapping[str, bytes], *, durable: bool = True) -> bool:
        """Publish an artifact.

        Args:
            reference: Its place.
            files: Its files by name, including a manifest.
            durable: Whether the artifact must survive a power cut from now on. Otherwise some
                stores write much faster, and a power cut may leave the place empty or damaged;
                other processes never see that.

        Returns:
            True if it is new, False if the same content was already published.

        Raises:
            ArtifactError: Other content was already published there.
        """

    def get(self, reference: str, admit: Admit | None = None) -> Mapping[str, bytes] | None:
        """Return the files of an artifact; None if it is not published.

        Parts of a long list are read from the store at each access.

        Args:
            reference: Its place.
            admit: Verifies manifest and signature before other files are read, and returns the
                sizes of these. Required if the contents are used rather than only shown.

        Raises:
            Rejected: The files are not those that ``admit`` returns, or there is a link, pipe or
                device.
        """

    def wait(
        self, reference: str, timeout: float, admit: Admit | None = None
    ) -> Mapping[str, bytes]:
        """Wait until an artifact is published, and return its files.

        Args:
            reference: Its place.
            timeout: Seconds to wait.
            admit: See `get`.

        Raises:
            ArtifactError: Nothing was published there in time.
            Rejected: See `get`.
        """

    def written(self, reference: str) -> float | None:
        """Return the time at which an artifact was published, by the store's clock.

        Args:
            reference: Its place.

        Returns:
            Seconds since 1970, not signed by anyone; None if nothing is published there.
        """

    def runs(self, federation: str) -> list[str]:
        """Return the IDs of all runs in the store, sorted; the list may lag behind.

        Args:
            federation: Federation of the runs.
        """

    def garbage(self, older_than_seconds: float) -> list[str]:
        """Return the remains of crashed writers; never published artifacts.

        Args:
            older_than_seconds: Minimum seconds since their last change.

        Returns:
            Names inside the store, for people.
        """

    def collect(self, older_than_seconds: float) -> list[str]:
        """Remove the remains that `garbage` returns.

        Args:
            older_than_seconds: Minimum seconds since their last change.

        Returns:
            The removed names.
        """

    def remove_run(self, federation: str, run: str) -> int:
        """Remove a run with all its artifacts, each atomically.

        Args:
            federation: Federation of the run.
            run: ID of the run.

        Returns:
            Number of artifacts of the run.
        """

    # The last method, because its name hides the builtin from here on.
    def list(self, prefix: str) -> list[str]:
        """Return the places of artifacts below ``prefix``, sorted; the list may lag behind."""


def open_store(url: str, environ: Mapping[str, str] = os.environ) -> Store:
    """Open the store that ``store`` in ``site.yaml`` names; see docs/exchange.md.

    Args:
        url: A folder, a ``file://`` or ``s3://`` URL, ``env:NAME`` for an environment variable that
            contains one of these, or ``airflow:NAME`` for a connection of this worker's Airflow.
        environ: The environment variables.

    Raises:
        ConfigError: The URL is of an unknown kind, or contains credentials.
    """
    what = "store"
    if url.startswith(AIRFLOW):
        return _connected(url.removeprefix(AIRFLOW))
    if url.startswith(ENVIRONMENT):
        name = url.removeprefix(ENVIRONMENT)
        what, url = f"store (from the variable {name})", environ.get(name, "")
        if not url or url.startswith(ENVIRONMENT):
            raise ConfigError(
                f"store: the environment variable {name} contains no URL.",
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
        raise ConfigError(
            f"{what}: the file:// URL names a host.", "Write file:///, then the path."
        )
    # Show the text before :// only if it cannot be a secret.
    shown = f"{scheme}:// URLs" if re.fullmatch(r"[a-z]{1,10}", scheme) else "this kind of URL"
    raise ConfigError(
        f"{what}: this version has no store for {shown}.",
        "Give a folder that all parties reach, as a path or file:// URL, or s3://bucket/prefix.",
    )


def store_of(connection: Mapping[str, str], what: str) -> Store:
    """Open the store that an Airflow connection names.

    Args:
        connection: Its fields: ``host`` is the bucket, ``schema`` the prefix, ``login`` and
            ``password`` the access key; ``endpoint``, ``region``, ``session_token`` are optional.
        what: Name of the connection in errors.

    Raises:
        ConfigError: The connection is of another type, has half a login, or names no bucket.
    """
    if connection["conn_type"] != CONNECTION:
        raise ConfigError(f"{what} is not of type {CONNECTION}.", "Change its type.")
    if bool(connection["login"]) != bool(connection["password"]):
        raise ConfigError(
            f"{what} has half a login.",
            "Give the access key's ID and the access key, or neither to use those of the worker's "
            "environment.",
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
            f"store: the secrets backends of this worker's own Airflow have no connection {name}.",
            "Set it on this party's workers only, for example as AIRFLOW_CONN_"
            f"{name.upper()}. The database of an Airflow that parties share is not used.",
        )
    return store_of(connection, f"store (the connection {name})")


def _s3(url: str, what: str, login: Login | None = None) -> ObjectStore:
    advice = "Write s3://bucket/prefix."
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is None or "@" in url or parts.query or parts.fragment or "?" in url:
        raise ConfigError(
            f"{what}: the URL contains credentials or options, which are not allowed there.",
            f"{advice} Credentials come from the environment, such as AWS_ACCESS_KEY_ID.",
        )
    prefix = parts.path.strip("/")
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", parts.netloc):
        raise ConfigError(f"{what}: the URL names no bucket.", advice)
    if prefix and not all(re.match(PLAIN_NAME, part) for part in prefix.split("/")):
        raise ConfigError(f"{what}: the prefix in the URL has invalid characters.", advice)
    return ObjectStore(S3Bucket(parts.netloc, prefix, login))
