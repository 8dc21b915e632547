"""Common parts of all stores: places, waiting for one, disk space to send, and the identity.

The identity is written once, by the first run. It is no secret and no proof: anyone who may
write the store can change or delete it, and then runs stop. It protects from mistakes, such as a
share that is not mounted, behind whose empty folder a new store would begin.
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

#: A name of a folder or file in a store; a dot at its beginning is for what is not published.
PLAIN_NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"

_PLAIN = re.compile(PLAIN_NAME)

#: Most bytes of an identity that are read.
IDENTITY_BYTES = 64

_FORM = re.compile(r"[0-9a-f]{32}")

#: Where a store's identity lies; no name of a federation begins with a dot.
IDENTITY = ".identity"


def parts_of(reference: str) -> list[str]:
    """The folders of a place, outermost first.

    Args:
        reference: Place, or the beginning of one.

    Raises:
        ArtifactError: It would lead out of the store, or to what is not published.
    """
    parts = reference.split("/")
    if not all(map(_PLAIN.match, parts)):
        raise ArtifactError(f"{reference!r} is not a place in a store.")
    return parts


def run_of(federation: str, run: str) -> str:
    """The place of a whole run.

    Raises:
        ArtifactError: It would be more or less than one run.
    """
    place = f"{federation}/{run}"
    if len(parts_of(place)) != 2:
        raise ArtifactError(f"{place!r} is not a run.")
    return place


def manifest_last(reference: str, files: Mapping[str, bytes]) -> list[str]:
    """Names of the files of an artifact in the order in which they are written.

    Raises:
        ArtifactError: The manifest is not among them, or a name is not plain.
    """
    if MANIFEST not in files or not all(re.match(PLAIN_NAME, name) for name in files):
        raise ArtifactError(f"{reference}: these files are not an artifact.")
    return sorted(files, key=lambda name: (name == MANIFEST, name))


def conflict(reference: str) -> ArtifactError:
    """The error of a writer that finds other content at its place."""
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
    """The files at a place as soon as they are whole; looks ever more slowly.

    Args:
        get: Reads the place once.
        reference: The place.
        timeout: Seconds to wait.
        pause: Seconds before the second look.

    Raises:
        ArtifactError: They were not there in time.
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
    """Test that of two writers of one place at once, and a later one, at most one succeeds.

    Args:
        write: Writes the place if nothing is there; returns whether this writer was first.
        read: What is there.
    """
    with ThreadPoolExecutor(2) as pool:
        first = [*pool.map(write, (b"one", b"two"))]
    late = write(b"late")
    # The first answer may be lost on its way and its repetition refused: nobody has won, then.
    return not late and sum(first) < 2 and read() in (b"one", b"two")


def require_room(folder: Path, party: str, needed: int) -> None:
    """Refuse parts that the disk cannot hold, before the first of them is written.

    Args:
        folder: Where they wait.
        party: Whose, for the error.
        needed: Bytes that they may take.

    Raises:
        ContractError: There is less room.
    """
    private_folder(folder)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ContractError(
            f"What {party} sends needs up to {needed / 1e6:,.0f} MB in its home folder "
            f"while it is sent, and {free / 1e6:,.0f} MB are free.",
            "Free some, set keep_runs_days, or move home in site.yaml to a larger disk. Then "
            "clear this task: nothing was written.",
        )


def identity_from(agreement: str, run: str) -> str:
    """The identity of a store that begins with a run; it tells nothing but which run that was.

    Args:
        agreement: Digest of what the run's parties have agreed to, their keys among it.
        run: The run's id.
    """
    return hashlib.sha256(f"{agreement}/{run}".encode()).hexdigest()[:32]


def parse_identity(raw: bytes) -> str:
    """The identity in a file.

    Args:
        raw: The file's content.

    Raises:
        ArtifactError: It is none.
    """
    text = raw[:IDENTITY_BYTES].decode("ascii", "replace").strip()
    if not _FORM.fullmatch(text):
        raise damaged_identity()
    return text


def damaged_identity() -> ArtifactError:
    """The error of a reader that finds something else in its place."""
    return ArtifactError(
        f"The store's {IDENTITY} is damaged or was changed: it is not 32 hex digits.",
        "See who may write there. Put it back from a copy, or remove it; then `opboost ledger "
        "recover SITE --yes` writes the one that this party has pinned.",
    )


def identity_contents(identity: str) -> bytes:
    """The text of an identity's file."""
    return f"{identity}\n".encode()
