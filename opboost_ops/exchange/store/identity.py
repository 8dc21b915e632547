"""A store's identity: a small file at its root that says which store it is.

It is written once, by the first run. It is no secret and no proof: anyone who may write the store
can change or delete it, and then runs stop. It protects from mistakes, such as a share that is not
mounted, behind whose empty folder a new store would begin.
"""

import hashlib
import re

from opboost_ops.errors import ArtifactError

#: Where it lies; no name of a federation begins with a dot.
IDENTITY = ".identity"

#: Most bytes of it that are read.
MOST = 64

_FORM = re.compile(r"[0-9a-f]{32}")


def identity_from(agreement: str, run: str) -> str:
    """The identity of a store that begins with a run; it tells nothing but which run that was.

    Args:
        agreement: Digest of what the run's parties have agreed to, their keys among it.
        run: The run's id.
    """
    return hashlib.sha256(f"{agreement}/{run}".encode()).hexdigest()[:32]


def parsed(raw: bytes) -> str:
    """The identity in a file.

    Args:
        raw: The file's content.

    Raises:
        ArtifactError: It is none.
    """
    text = raw[:MOST].decode("ascii", "replace").strip()
    if not _FORM.fullmatch(text):
        raise damaged()
    return text


def damaged() -> ArtifactError:
    """The error of a reader that finds something else in its place."""
    return ArtifactError(
        f"The store's {IDENTITY} is damaged or was changed: it is not 32 hex digits.",
        "See who may write there. Put it back from a copy, or remove it; then `opboost ledger "
        "recover SITE --yes` writes the one that this party has pinned.",
    )


def contents(identity: str) -> bytes:
    """The text of an identity's file."""
    return f"{identity}\n".encode()
