"""The file of a backup: an encrypted zip whose last entry, a sealed manifest, lists all others.

Encryption to a public key shows nobody's hand. So the manifest is sealed under the party's noise
secret, and a site that has its secret refuses what somebody else has encrypted to the same key.
"""

import hashlib
import hmac
import json
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, ValidationError

from opboost_ops.backup.encryption import Decrypted, Encrypted, Key, Lock
from opboost_ops.config.schema import MOVING, Name, Record
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.manifest import Digest, File, KeyName
from opboost_ops.mechanisms import noise

#: Name of the manifest's entry.
MANIFEST = "backup.json"

#: Where the entries of each kind lie.
DATABASE, CELLS, MODELS, FILES, KEYS = "database/", "cells/", "models/", "files/", "keys/"

#: Entry of `FILES` by which a site is found.
SITE = "site.yaml"

#: Most bytes that are read of a manifest, and of an entry that is read as a whole.
_LIMIT, _SMALL = 64 * 2**20, 16 * 2**20

_BLOCK = 1 << 20

#: Told how many bytes of how many are done.
Progress = Callable[[int, int], None]

#: What is compressed already: Parquet and models' charts are not made smaller once more.
_STORED = (".parquet", ".png")


#: A line that is shown in a terminal.
Plain = Annotated[str, Field(pattern=rf"^[^\t\n\r\x85{MOVING}]*$")]


class Contents(Record):
    """What a backup says of itself.

    Attributes:
        version: Of this format.
        party: Whose.
        at: The moment of the state in it, UTC, to the second.
        software: Version of this software that made it.
        tables: Version of the database's tables.
        secret: Fingerprint of the noise secret under which it is sealed.
        secrets: Fingerprints of all noise secrets that lay at the site, the present one first.
        lines: How many lines the ledger has.
        entries: How many entries the audit log has.
        head: Hash of the last of them.
        files: All other entries.
        made: When each model version was made, by its folder: their order.
        left_out: What was not taken along, and why.
    """

    version: Literal[2] = 2
    party: Name
    at: Plain
    software: Plain
    tables: int = Field(ge=1)
    secret: KeyName
    secrets: tuple[KeyName, ...]
    lines: NonNegativeInt
    entries: NonNegativeInt
    head: Digest
    files: dict[str, File]
    made: dict[str, Annotated[int, Field(ge=0, lt=2**63)]]
    left_out: tuple[Plain, ...] = ()


class Writer:
    """Adds entries, and notes what they are.

    Args:
        file: Where to; it is only ever added to.
        lock: What it is encrypted to.
    """

    def __init__(self, file: IO[bytes], lock: Lock) -> None:
        self._file: Any = Encrypted(file, lock)
        self._zip = zipfile.ZipFile(self._file, "w", allowZip64=True)
        self.files: dict[str, File] = {}

    def add(self, name: str, blocks: Iterable[bytes]) -> None:
        """Add an entry.

        Args:
            name: Its name, with slashes.
            blocks: Its content.
        """
        for _ in self.adding(name, blocks):
            pass

    def adding(self, name: str, blocks: Iterable[bytes]) -> Iterator[int]:
        """Add an entry; it is whole when the last number was taken.

        Args:
            name: Its name, with slashes.
            blocks: Its content.

        Yields:
            The bytes of each block, once it is written.
        """
        digest, size = hashlib.sha256(), 0
        entry = zipfile.ZipInfo(name)
        stored = name.endswith(_STORED)
        entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
        with self._zip.open(entry, "w", force_zip64=True) as target:
            for block in blocks:
                target.write(block)
                digest.update(block)
                size += len(block)
                yield len(block)
        self.files[name] = File(sha256=digest.hexdigest(), size=size)

    def seal(self, contents: Contents, secret: bytes) -> None:
        """Add the manifest, sealed: the last entry."""
        data = contents.model_dump(mode="json")
        text = json.dumps({**data, "seal": _seal(secret, data)}, sort_keys=True, indent=1)
        self._zip.writestr(MANIFEST, text, zipfile.ZIP_DEFLATED)

    def close(self) -> None:
        """End the file."""
        self._zip.close()
        self._file.close()


class Reader:
    """An opened backup whose manifest was read.

    Args:
        file: The zip.
        contents: What it says of itself, not yet believed.
        seal: What seals that.
    """

    def __init__(self, file: zipfile.ZipFile, contents: Contents, seal: str) -> None:
        self._zip = file
        self.contents = contents
        self._seal = seal

    def require_sealed(self, secret: bytes) -> None:
        """Refuse a manifest that was not written under a noise secret.

        Args:
            secret: The one that `Contents.secret` names.

        Raises:
            ArtifactError: It was changed.
        """
        if not hmac.compare_digest(
            self._seal, _seal(secret, self.contents.model_dump(mode="json"))
        ):
            raise _edited(MANIFEST)
        names = [entry.filename for entry in self._zip.infolist()]
        if sorted(names) != sorted([*self.contents.files, MANIFEST]):
            raise _edited("its list of entries")

    def blocks(self, name: str) -> Iterator[bytes]:
        """An entry's content.

        Args:
            name: One of `Contents.files`.

        Raises:
            ArtifactError: After the last block, or before: it is not what the manifest says.
        """
        expected, digest, size = self.contents.files[name], hashlib.sha256(), 0
        good = False
        try:
            with self._zip.open(name) as source:
                while size <= expected.size and (block := source.read(_BLOCK)):
                    digest.update(block)
                    size += len(block)
                    yield block
            good = size == expected.size and digest.hexdigest() == expected.sha256
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
            pass
        if not good:
            raise _edited(name)

    def read(self, name: str) -> bytes:
        """The whole of a small entry; see `blocks`.

        Raises:
            ArtifactError: It is not small.
        """
        if self.contents.files[name].size > _SMALL:
            raise _edited(name)
        return b"".join(self.blocks(name))

    def below(self, folder: str) -> list[str]:
        """Names of the entries of a kind, in order."""
        return sorted(name for name in self.contents.files if name.startswith(folder))


@contextmanager
def opened(path: Path, key: Key) -> Iterator[Reader]:
    """A backup whose manifest is well-formed; nothing else of it was looked at.

    Args:
        path: The file.
        key: What opens it.

    Raises:
        ArtifactError: It cannot be read, is cut short, or is no backup that this software knows.
        ConfigError: It does not open with this key.
    """
    try:
        file = path.open("rb")
    except OSError:
        file = None
    if file is None:
        raise ArtifactError(
            f"The backup {path.name} cannot be read.", "Take another one. Nothing was changed."
        )
    with file:
        content: Any = Decrypted(file, key)
        try:
            entries = zipfile.ZipFile(content)
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            entries = None
        if entries is None:
            raise _edited("its list of entries")
        with entries:
            yield Reader(entries, *_manifest(entries, path.name))


def _manifest(file: zipfile.ZipFile, name: str) -> tuple[Contents, str]:
    data: object = None
    try:
        if file.getinfo(MANIFEST).file_size <= _LIMIT:
            data = json.loads(file.read(MANIFEST))
        if isinstance(data, dict) and isinstance(seal := data.pop("seal"), str):
            return Contents.model_validate(data), seal
    except (KeyError, ValueError, ValidationError, RecursionError, zipfile.BadZipFile, zlib.error):
        pass
    version = data.get("version") if isinstance(data, dict) else None
    if isinstance(version, int) and version > 2:
        raise ArtifactError(
            f"The backup {name} has format version {version}; this software knows 2.",
            "Restore it with the software that made it, or a later one. Nothing was changed.",
        )
    raise _edited(MANIFEST)


def _seal(secret: bytes, data: object) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    return hmac.new(noise.keyed_by(secret, "backup"), text, hashlib.sha256).hexdigest()


def _edited(what: str) -> ArtifactError:
    return ArtifactError(
        f"The backup is damaged or was edited: {what} is not as it was written.",
        "Take another one. Nothing was changed.",
    )
