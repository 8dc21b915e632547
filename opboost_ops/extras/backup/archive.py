"""The file of a backup: a tar archive in the age format, which `age -d | tar x` also opens.

Anyone with the public key can encrypt to it. Therefore the manifest, which lists all other entries,
has a MAC under the party's secret, and a site with its secret rejects backups that others made. The
archive is not compressed, so it never unpacks to more bytes than its file has.
"""

import hashlib
import hmac
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Annotated

import pyrage
from pydantic import Field, NonNegativeInt, ValidationError

from opboost_ops.config.schema import CONTROL_CHARACTERS, Name, Record
from opboost_ops.errors import ArtifactError, ConfigError
from opboost_ops.exchange.manifest import Digest, KeyName
from opboost_ops.mechanisms import noise

#: Names of the manifest and of the site's declaration.
MANIFEST, SITE = "backup.json", "site.yaml"

#: Folders of the entries of each kind.
DATABASE, PINS, MODELS, KEYS = "database", "pins", "models", "keys"

#: Maximum bytes of a manifest.
_LIMIT = 64 * 2**20

_BLOCK = 1 << 20

#: Called with the bytes done and all bytes.
Progress = Callable[[int, int], None]

#: Text without control characters.
Plain = Annotated[str, Field(pattern=rf"^[^\t\n\r\x85{CONTROL_CHARACTERS}]*$")]


class Contents(Record):
    """The manifest of a backup.

    Attributes:
        party: The party.
        at: Time of its state, UTC, to the second.
        software: Version of the software that made it.
        tables: Version of the database's tables.
        secret: Fingerprint of the party's secret, the key of its MAC.
        lines: Number of ledger entries.
        entries: Number of audit entries.
        head: Hash of the last audit entry.
        files: SHA-256 of all other entries.
        left_out: Files that are not in it, with reasons.
    """

    party: Name
    at: Plain
    software: Plain
    tables: int = Field(ge=1)
    secret: KeyName
    lines: NonNegativeInt
    entries: NonNegativeInt
    head: Digest
    files: dict[str, Digest]
    left_out: tuple[Plain, ...] = ()


def recipient_of(text: str) -> pyrage.x25519.Recipient:
    """Parse the recipient of a backup.

    Args:
        text: A public key, as `age-keygen` prints it.

    Raises:
        ConfigError: It is not a public key.
    """
    with suppress(pyrage.RecipientError):
        return pyrage.x25519.Recipient.from_str(text)
    raise ConfigError(
        "The recipient is not an age public key (age1...); nothing was written.",
        "`age-keygen -o officer.key` makes a key pair and prints the public key.",
    )


def identity_of(path: Path) -> pyrage.x25519.Identity:
    """Read the private key that opens a backup.

    Args:
        path: Its file, as `age-keygen` writes it.

    Raises:
        ConfigError: The file has no private key.
    """
    with suppress(OSError, UnicodeDecodeError, pyrage.IdentityError):
        lines = path.read_text(encoding="utf-8").split()
        return pyrage.x25519.Identity.from_str(
            next((line for line in lines if line.startswith("AGE-SECRET-KEY-")), "")
        )
    raise ConfigError(
        f"{path.name} cannot be read, or has no age private key.",
        "Name the file that `age-keygen -o` wrote. Nothing was changed.",
    )


def seal(folder: Path, contents: Contents, secret: bytes) -> None:
    """Write the manifest, with its MAC, into the folder to back up.

    Args:
        folder: The folder.
        contents: Content of the manifest.
        secret: The party's secret.
    """
    data = contents.model_dump(mode="json")
    text = json.dumps({**data, "seal": _seal(secret, data)}, sort_keys=True, indent=1)
    (folder / MANIFEST).write_text(text)


def require_sealed(folder: Path, contents: Contents, secret: bytes) -> None:
    """Verify the MAC of a manifest.

    Args:
        folder: Folder of the unpacked backup.
        contents: Its manifest.
        secret: The party's secret.

    Raises:
        ArtifactError: The MAC was not made with this secret.
    """
    seal = str(json.loads((folder / MANIFEST).read_bytes())["seal"])
    expected = _seal(secret, contents.model_dump(mode="json"))
    if not hmac.compare_digest(seal.encode(), expected.encode()):
        raise damaged(MANIFEST)


def pack(folder: Path, file: IO[bytes], recipient: pyrage.x25519.Recipient, done: Progress) -> None:
    """Encrypt the files of a folder.

    Args:
        folder: The folder.
        file: The backup.
        recipient: The recipient.
        done: Called with the progress of writing.

    Raises:
        OSError: The disk is full.
        pyrage.EncryptError: The disk is full.
    """
    source, sink = os.pipe()

    def encrypt() -> None:
        with open(source, "rb") as plain:
            pyrage.encrypt_io(plain, file, [recipient])

    whole, count = sum(path.lstat().st_size for path in folder.rglob("*")), 0
    with ThreadPoolExecutor(1) as pool:
        encrypting = pool.submit(encrypt)
        with (
            suppress(BrokenPipeError),  # The other thread raises the cause.
            open(sink, "wb") as plain,
            tarfile.open(fileobj=plain, mode="w|", dereference=True) as tar,
        ):
            for path in sorted(folder.rglob("*")):
                tar.add(
                    path,
                    path.relative_to(folder).as_posix(),
                    recursive=False,
                    filter=_without_owner,
                )
                done(count := count + path.lstat().st_size, whole)
        encrypting.result()


def unpack(path: Path, identity: pyrage.x25519.Identity, folder: Path, done: Progress) -> Contents:
    """Decrypt a backup into an empty folder, and compare each entry with the manifest.

    Args:
        path: The backup.
        identity: The private key that opens it.
        folder: The folder.
        done: Called with the progress of reading.

    Returns:
        The manifest; the caller must verify its MAC.

    Raises:
        ArtifactError: The backup cannot be read, is truncated, or was changed.
        ConfigError: The backup does not open with this key.
        OSError: The disk is full.
    """
    try:
        source = path.open("rb")
    except OSError:
        raise ArtifactError(
            f"The backup {path.name} cannot be read.", "Use another one. Nothing was changed."
        ) from None
    end, sink = os.pipe()

    def decrypt() -> None:
        with source, open(sink, "wb") as plain:
            pyrage.decrypt_io(source, plain, [identity])

    size = path.stat().st_size
    whole = False
    with ThreadPoolExecutor(1) as pool:
        decrypting = pool.submit(decrypt)
        with (
            suppress(tarfile.TarError, ValueError, EOFError, RecursionError),
            suppress(NotADirectoryError, IsADirectoryError, FileExistsError),
            open(end, "rb") as plain,
            tarfile.open(fileobj=plain, mode="r|") as tar,
        ):
            # Python before 3.11.4 has no filters; then only `_regular_entries` decides.
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            tar.extractall(folder, _regular_entries(tar, size, done))  # noqa: S202  the filter is set above
            while plain.read(_BLOCK):
                pass
            whole = True
        error = decrypting.exception()
    if isinstance(error, pyrage.DecryptError):
        raise ConfigError(
            "The backup does not open with this key, or is not a backup.",
            "Name the private key that it was encrypted to. Nothing was changed.",
        )
    if error is not None or not whole:
        raise damaged("its list of entries")
    return _verified(folder)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damaged(what: str) -> ArtifactError:
    """Return the error for a backup that was changed.

    Args:
        what: The part that was changed.
    """
    return ArtifactError(
        f"The backup is truncated, damaged or was edited: {what} is not as it was written.",
        "Use another one. Nothing was changed.",
    )


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove an entry's users, and all permissions but the owner's."""
    entry.mode &= 0o700
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _regular_entries(tar: tarfile.TarFile, size: int, done: Progress) -> Iterator[tarfile.TarInfo]:
    """Yield an archive's entries; reject links, repeated names and paths out of the folder."""
    names: set[str] = set()
    for entry in tar:
        parts = PurePosixPath(entry.name).parts
        inside = entry.name == "/".join(parts) and not {"..", "/"} & {*parts}
        regular = entry.isdir() or (entry.type == tarfile.REGTYPE and entry.sparse is None)
        if not inside or "\\" in entry.name or not entry.name.isprintable():
            raise ArtifactError(
                "An entry of the backup would be written outside of its folder.",
                "Use another one. Nothing was changed.",
            )
        if not regular or entry.name in names:
            raise damaged("an entry")
        names.add(entry.name)
        yield _without_owner(entry)
        done(min(size, entry.offset_data + entry.size), size)


def _verified(folder: Path) -> Contents:
    files: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        version = parts[0] == MODELS and len(parts) > 3
        path.chmod(0o700 if path.is_dir() else 0o400 if version else 0o600)
        if path.is_file():
            files["/".join(parts)] = digest_of(path)
    try:
        if files.pop(MANIFEST) and (folder / MANIFEST).stat().st_size <= _LIMIT:
            data = json.loads((folder / MANIFEST).read_bytes())
            contents = Contents.model_validate({k: v for k, v in data.items() if k != "seal"})
            if contents.files == files and "seal" in data:
                return contents
    except (KeyError, ValueError, ValidationError, RecursionError, AttributeError):
        pass
    raise damaged(MANIFEST)


def _seal(secret: bytes, data: object) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    return hmac.new(noise.keyed_by(secret, "backup"), text, hashlib.sha256).hexdigest()
