"""Functions common to all stores: places, waiting, disk space for sending, and the identity.

The identity is written once, by the first run. It is neither a secret nor a proof: anyone who may
write to the store can change or delete it, and then runs stop. It protects from mistakes, such as
an unmounted share, in whose empty mount point a new store would begin.
"""

import hashlib
import re
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from opboost_ops.errors import ArtifactError, ContractError
from opboost_ops.exchange.manifest import MANIFEST
from opboost_ops.tables.spill.files import private_folder

#: Names of folders and files in a store; names that begin with a dot are not published.
PLAIN_NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"

_PLAIN = re.compile(PLAIN_NAME)

#: Maximum bytes of an identity that are read.
IDENTITY_BYTES = 64

_IDENTITY_PATTERN = re.compile(r"[0-9a-f]{32}")

#: Place of a store's identity; names of federations never begin with a dot.
IDENTITY = ".identity"


def parts_of(reference: str) -> list[str]:
    """Return the folders of a place, outermost first.

    Args:
        reference: Place, or the beginning of one.

    Raises:
        ArtifactError: The place is outside of the store, or unpublished.
    """
    parts = reference.split("/")
    if not all(map(_PLAIN.match, parts)):
        raise ArtifactError(f"{reference!r} is not a place in a store.")
    return parts


def run_of(federation: str, run: str) -> str:
    """Return the place of a whole run.

    Raises:
        ArtifactError: The names are not those of one run.
    """
    place = f"{federation}/{run}"
    if len(parts_of(place)) != 2:
        raise ArtifactError(f"{place!r} is not a run.")
    return place


def manifest_last(reference: str, files: Mapping[str, bytes]) -> list[str]:
    """Return the names of an artifact's files in the order of writing, the manifest last.

    Raises:
        ArtifactError: The manifest is missing, or a name does not match `PLAIN_NAME`.
    """
    if MANIFEST not in files or not all(re.match(PLAIN_NAME, name) for name in files):
        raise ArtifactError(f"{reference}: these files are not an artifact.")
    return sorted(files, key=lambda name: (name == MANIFEST, name))


def conflict(reference: str) -> ArtifactError:
    """Return the error of a writer that finds other content at its place."""
    return ArtifactError(
        f"{reference}: this run has already published something else here.",
        "A table or a setting changed between two tries of one run: trigger a new run.",
    )


def wait_for(
    get: Callable[[str], Mapping[str, bytes] | None],
    reference: str,
    timeout: float,
    pause: float,
) -> Mapping[str, bytes]:
    """Poll a place until it is published, at growing intervals, and return its files.

    Args:
        get: Reads the place once.
        reference: The place.
        timeout: Seconds to wait.
        pause: Seconds between the first two polls.

    Raises:
        ArtifactError: Nothing was published in time.
    """
    deadline = time.monotonic() + timeout
    while (files := get(reference)) is None:
        left = deadline - time.monotonic()
        if left < 0:
            raise ArtifactError(
                f"{reference}: nothing was published here within {timeout:.0f} s.",
                "Check that party's tasks or log; then run this again.",
            )
        time.sleep(min(pause, left + 0.001))
        pause = min(pause * 1.2, 1.0)
    return files


def only_one_wins(write: Callable[[bytes], bool], read: Callable[[], bytes | None]) -> bool:
    """Return True if at most one of two concurrent writers and a later one succeeds at a place.

    Args:
        write: Writes the place if it is empty; returns whether this writer was first.
        read: Reads the place.
    """
    with ThreadPoolExecutor(2) as pool:
        first = [*pool.map(write, (b"one", b"two"))]
    late = write(b"late")
    # If the first response is lost and its repetition rejected, no writer knows that it was first.
    return not late and sum(first) < 2 and read() in (b"one", b"two")


def require_room(folder: Path, party: str, needed: int) -> None:
    """Check the free disk space before parts are written.

    Args:
        folder: Folder of the parts.
        party: Their party, for the error.
        needed: Maximum bytes of the parts.

    Raises:
        ContractError: Less space is free.
    """
    private_folder(folder)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ContractError(
            f"{party} needs up to {needed / 1e6:,.0f} MB in its home folder to send this, but only "
            f"{free / 1e6:,.0f} MB are free.",
            "Free some space, set keep_runs_days, or move home in site.yaml to a larger disk. Then "
            "clear this task: nothing was written.",
        )


def identity_from(agreement: str, run: str) -> str:
    """Return the identity of a store that begins with a run; it identifies this run only.

    Args:
        agreement: Digest of the agreement of the run's parties, including their keys.
        run: ID of the run.
    """
    return hashlib.sha256(f"{agreement}/{run}".encode()).hexdigest()[:32]


def parse_identity(raw: bytes) -> str:
    """Parse the file of an identity.

    Args:
        raw: Content of the file.

    Raises:
        ArtifactError: It is not an identity.
    """
    text = raw[:IDENTITY_BYTES].decode("ascii", "replace").strip()
    if not _IDENTITY_PATTERN.fullmatch(text):
        raise damaged_identity()
    return text


def damaged_identity() -> ArtifactError:
    """Return the error for a file that is not an identity."""
    return ArtifactError(
        f"The store's {IDENTITY} is damaged or was changed: it is not 32 hex digits.",
        "Check who may write to the store. Restore the file from a copy, or remove it; then "
        "`opboost ledger recover SITE --yes` writes the identity that this party has pinned.",
    )


def identity_contents(identity: str) -> bytes:
    """Return the content of an identity's file."""
    return f"{identity}\n".encode()
