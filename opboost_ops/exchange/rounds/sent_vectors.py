"""A party's record of the vectors that it sends: one mask is never used for two."""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from opboost_ops.errors import ContractError
from opboost_ops.exchange.rounds.protocol import Round
from opboost_ops.tables.spill.files import private_folder, whole_file

#: Where digests of exact vectors are kept: a line each, added before the vector is sent.
DIGESTS = "digests"

_HEX = 64


class SentVectors:
    """The masked vectors of one session, kept before they are sent.

    Args:
        folder: A private folder of the session.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: Digests of exact vectors by round, as far as their file was read.
        self._digests: dict[str, str] = {}
        self._read = -1

    def keep(self, name: Round, raw: bytes) -> None:
        """Keep the digest of a vector that is about to be sent; at a later try, see that it is its.

        Args:
            name: Its round.
            raw: Its bytes.

        Raises:
            ContractError: Another one was kept for this round: nothing may be sent.
        """
        if self._read < 0:
            private_folder(self._folder)
            self._read = 0
        # A retry makes the vector again, so its digest is enough.
        digest = hashlib.sha256(raw).hexdigest()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        handle = os.open(self._folder / DIGESTS, flags, 0o600)
        try:
            # Another process of this party may have written since: it is never written blindly.
            if (size := os.fstat(handle).st_size) != self._read:
                self._digests |= _digests_in(os.pread(handle, size, 0))
            recorded = self._digests.get(name.name)
            if recorded is None:
                # A line that was cut off by a kill is of a vector that was not sent.
                line = f"\n{name.name} {digest}\n".encode()
                self._read = size + os.write(handle, line)
                self._digests[name.name] = recorded = digest
        finally:
            os.close(handle)
        if recorded != digest:
            raise _another(name)

    def keep_drawn(self, name: Round, exact: bytes, make: Callable[[], bytes]) -> bytes:
        """The vector of a round with noise: made once, and at a later try the one that was kept.

        Args:
            name: Its round.
            exact: What it is made of, without noise.
            make: Draws the noise, and masks.

        Returns:
            Its bytes.

        Raises:
            ContractError: It was made of something else before, or was kept and is gone: its noise
                is never drawn twice.
        """
        path = self._path(name.name)
        origin, digest = path.with_suffix(".exact"), hashlib.sha256(exact).hexdigest()
        if path.with_suffix(".sha256").is_file():
            raise ContractError(
                f"{name}: its decision is no longer in the store; noise is never drawn twice.",
                "Trigger a new run, which is charged again.",
            )
        if path.is_file():
            if not origin.is_file() or origin.read_text() != digest:
                raise _another(name)
            return path.read_bytes()
        private_folder(self._folder)
        origin.write_text(digest)
        raw = make()
        with whole_file(path) as file:
            file.write(raw)
        return raw

    def keep_total(self, name: Round, total: np.ndarray) -> None:
        """Keep the sum of a round, from which a later one may be derived after a retry.

        Args:
            name: The round.
            total: int64.
        """
        with open(f"{self._folder}/{name.name}.sum", "wb", buffering=0) as file:
            file.write(total.astype("<i8", copy=False).data)

    def total(self, name: Round) -> np.ndarray:
        """The sum that `keep_total` has kept, int64.

        Args:
            name: The round.

        Raises:
            ContractError: It is gone.
        """
        try:
            raw = self._path(name.name).with_suffix(".sum").read_bytes()
        except FileNotFoundError:
            raw = None
        if raw is None:
            raise ContractError(
                f"{name}: its sum is missing from this party's home.",
                "Trigger a new run.",
            )
        return np.frombuffer(raw, dtype="<i8").astype(np.int64)

    def forget(self, names: Iterable[str]) -> None:
        """Remove vectors and sums of rounds that are decided, but for the vectors' digests.

        Args:
            names: The rounds'.
        """
        for name in names:
            path = self._path(name)
            path.with_suffix(".sum").unlink(missing_ok=True)
            if path.is_file():
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                path.with_suffix(".sha256").write_text(digest)
                path.unlink()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.bin"


def _digests_in(raw: bytes) -> dict[str, str]:
    """By round, the first digest of each; lines that are not whole say nothing."""
    digests: dict[str, str] = {}
    for line in raw.decode(errors="replace").split("\n")[:-1]:
        name, _, digest = line.partition(" ")
        if len(digest) == _HEX:
            digests.setdefault(name, digest)
    return digests


def _another(name: Round) -> ContractError:
    return ContractError(
        f"{name}: this party has made another vector in this round before; one mask is "
        "never used for two.",
        "Its table, or the decision before this round, has changed since: check the table, ask the "
        "active party, and trigger a new run.",
    )
