"""An object store: an artifact is published by one small object that can be created only once.

The files of an artifact are stored at ``<place>/.<attempt>/<name>``. Each try to publish has its
own attempt, so that two writers never share an object. ``<place>/published.json`` names the
published attempt, and has the digest of every file. It is written last, if it does not exist yet.
"""

import hashlib
import json
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Literal, Protocol

from pydantic import Field, ValidationError

from opboost_ops.config.schema import Record
from opboost_ops.errors import ArtifactError, OpBoostError
from opboost_ops.exchange.manifest import Digest, is_run_id
from opboost_ops.exchange.store.folder import THROWAWAY
from opboost_ops.exchange.store.places import (
    IDENTITY,
    IDENTITY_BYTES,
    PLAIN_NAME,
    conflict,
    identity_contents,
    manifest_last,
    only_one_wins,
    parse_identity,
    parts_of,
    run_of,
    wait_for,
)
from opboost_ops.exchange.store.reads import Admit, read_within, too_large
from opboost_ops.tables.s3 import ListedObject

#: The object that publishes an artifact.
PUBLISHED = "published.json"

#: Seconds after which a writer gives up, so that older attempts can be collected safely.
LONGEST_WRITE = 3600.0

#: Maximum bytes of ``published.json``.
_MAX_PUBLISHED = 1 << 20

_ATTEMPT = re.compile(r"^(?P<place>.+)/\.(?P<attempt>[0-9a-f]{32})/[^/]+$")


class Bucket(Protocol):
    """The operations of an object storage service."""

    def get(self, key: str, most: int) -> bytes | None:
        """Return an object's content, up to ``most`` + 1 bytes; None if it does not exist."""

    def put(self, key: str, content: bytes) -> None:
        """Write an object."""

    def put_new(self, key: str, content: bytes) -> bool:
        """Create an object atomically; return False if one of this name exists."""

    def list(self, prefix: str) -> Iterable[ListedObject]:
        """Return objects whose names begin with ``prefix``; the newest may still be missing."""

    def folders(self, prefix: str) -> Iterable[str]:
        """Return the distinct names between ``prefix`` and the next slash in objects' names."""

    def delete(self, key: str) -> None:
        """Remove an object, if it exists."""


class Publication(Record):
    """The content of ``published.json``.

    Attributes:
        version: Version of this format.
        attempt: The attempt that wrote the files.
        files: Digest of each file, including manifest and signature.
    """

    version: Literal[1] = 1
    attempt: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    files: Mapping[Annotated[str, Field(pattern=PLAIN_NAME)], Digest]


class ObjectStore:
    """A store in an object storage service, such as S3.

    Args:
        bucket: The service.
        longest_write: Maximum seconds for publishing an artifact.
    """

    def __init__(self, bucket: Bucket, longest_write: float = LONGEST_WRITE) -> None:
        self._bucket = bucket
        self._longest_write = longest_write

    @property
    def throwaway(self) -> bool:
        """True if the store has the mark of experiments."""
        return self._bucket.get(THROWAWAY, _MAX_PUBLISHED) is not None

    def identity(self) -> str | None:
        """See `Store.identity`."""
        raw = self._bucket.get(IDENTITY, IDENTITY_BYTES)
        return parse_identity(raw) if raw is not None else None

    def set_identity(self, identity: str) -> None:
        """See `Store.set_identity`."""
        self._bucket.put_new(IDENTITY, identity_contents(identity))

    def keeps_first(self, federation: str) -> bool:
        """See `Store.keeps_first`; named as an attempt, so that it is collected after a crash."""
        parts_of(federation)
        key = f"{federation}/.{uuid.uuid4().hex}/probe"
        try:
            return only_one_wins(
                partial(self._bucket.put_new, key), partial(self._bucket.get, key, IDENTITY_BYTES)
            )
        finally:
            with suppress(OpBoostError, ConnectionError):
                self._bucket.delete(key)

    def put_once(
        self,
        reference: str,
        files: Mapping[str, bytes],
        *,
        durable: bool = True,  # noqa: ARG002
    ) -> bool:
        """See `Store.put_once`; written objects are always durable."""
        parts_of(reference)
        names = manifest_last(reference, files)
        mine = Publication(
            attempt=uuid.uuid4().hex,
            files={name: hashlib.sha256(files[name]).hexdigest() for name in names},
        )
        published = self._published(reference)
        if published is None:
            if self._write(reference, mine, files, names):
                return True
            published = self._published(reference)
            if published is None:
                raise ArtifactError(f"{reference}: its run was removed while it was published.")
            if published.attempt == mine.attempt:
                return True  # The response to this writer's first request was lost.
            with suppress(OpBoostError, ConnectionError):
                self._delete_attempt(reference, mine.attempt, names)
        if published.files != mine.files:
            raise conflict(reference)
        return False

    def get(self, reference: str, admit: Admit | None = None) -> Mapping[str, bytes] | None:
        """See `Store.get`; files are read by name, because listings may lag behind."""
        parts_of(reference)
        published = self._published(reference)
        if published is None:
            return None

        attempt, digests = published.attempt, published.files

        def read(name: str, most: int) -> bytes | None:
            content = self._bucket.get(f"{reference}/.{attempt}/{name}", most)
            if content is None:
                return None
            if len(content) > most:
                raise too_large(reference, name)
            if hashlib.sha256(content).hexdigest() != digests[name]:
                raise ArtifactError(f"{reference}: {name} was changed.", "Trigger a new run.")
            return content

        return read_within(list(published.files), read, admit, reference)

    def wait(
        self, reference: str, timeout: float, admit: Admit | None = None
    ) -> Mapping[str, bytes]:
        """See `Store.wait`."""
        return wait_for(lambda place: self.get(place, admit), reference, timeout, pause=0.05)

    def written(self, reference: str) -> float | None:
        """See `Store.written`."""
        parts_of(reference)
        key = f"{reference}/{PUBLISHED}"
        return next((item.modified for item in self._bucket.list(key) if item.key == key), None)

    def runs(self, federation: str) -> list[str]:
        """See `Store.runs`."""
        below = "/".join(parts_of(federation)) + "/"
        return sorted(filter(is_run_id, self._bucket.folders(below)))

    def garbage(self, older_than_seconds: float) -> list[str]:
        """See `Store.garbage`; only attempts older than twice ``longest_write``."""
        oldest = time.time() - max(older_than_seconds, 2 * self._longest_write)
        newest: dict[tuple[str, str], float] = {}
        for item in self._bucket.list(""):
            if match := _ATTEMPT.match(item.key):
                attempt = (match["place"], match["attempt"])
                newest[attempt] = max(newest.get(attempt, 0.0), item.modified)
        return sorted(
            f"{place}/.{attempt}"
            for (place, attempt), modified in newest.items()
            if modified <= oldest and not self._may_be_read(place, attempt)
        )

    def collect(self, older_than_seconds: float) -> list[str]:
        """See `Store.collect`."""
        names = self.garbage(older_than_seconds)
        for name in names:
            for item in self._bucket.list(f"{name}/"):
                self._bucket.delete(item.key)
        return names

    def remove_run(self, federation: str, run: str) -> int:
        """See `Store.remove_run`; if it crashes, `collect` removes the rest."""
        keys = [item.key for item in self._bucket.list(f"{run_of(federation, run)}/")]
        published = [key for key in keys if _is_published(key)]
        for key in published:
            self._bucket.delete(key)
        for key in keys:
            if key not in published:
                self._bucket.delete(key)
        return len(published)

    def _write(
        self, reference: str, mine: Publication, files: Mapping[str, bytes], names: list[str]
    ) -> bool:
        begun = time.monotonic()
        for name in names:
            self._bucket.put(f"{reference}/.{mine.attempt}/{name}", files[name])
        if time.monotonic() - begun > self._longest_write:
            # Others may collect these files by now, as those of a crashed writer.
            raise ConnectionError(f"{reference}: publishing this took too long.")
        content = json.dumps(mine.model_dump(mode="json"), sort_keys=True).encode()
        return self._bucket.put_new(f"{reference}/{PUBLISHED}", content)

    def _published(self, reference: str) -> Publication | None:
        raw = self._bucket.get(f"{reference}/{PUBLISHED}", _MAX_PUBLISHED)
        if raw is None:
            return None
        try:
            if len(raw) > _MAX_PUBLISHED:
                raise ArtifactError(f"{reference}: {PUBLISHED} is too large.", "Trigger a new run.")
            return Publication.model_validate_json(raw)
        except ValidationError:
            pass
        raise ArtifactError(f"{reference}: {PUBLISHED} is damaged.", "Trigger a new run.")

    def _may_be_read(self, place: str, attempt: str) -> bool:
        try:
            published = self._published(place)
        except ArtifactError:
            return True  # Damaged: left for people to examine.
        return published is not None and published.attempt == attempt

    def _delete_attempt(self, reference: str, attempt: str, names: list[str]) -> None:
        for name in names:
            self._bucket.delete(f"{reference}/.{attempt}/{name}")

    # Last of all, because from here on its name hides the builtin.
    def list(self, prefix: str) -> list[str]:
        """See `Store.list`."""
        below = "/".join(parts_of(prefix)) + "/" if prefix else ""
        end = f"/{PUBLISHED}"
        keys = (item.key for item in self._bucket.list(below))
        return sorted(key.removesuffix(end) for key in keys if _is_published(key))


def _is_published(key: str) -> bool:
    return key.endswith(f"/{PUBLISHED}") and "/." not in key
