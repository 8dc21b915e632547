"""A party's records of the vectors that it sends, so that no mask is used for two vectors."""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from opboost_ops.errors import ContractError
from opboost_ops.exchange.rounds.protocol import Round
from opboost_ops.tables.spill.files import locked_file, private_folder, whole_file

#: File with the digest of each exact vector, one line each, appended before the vector is sent.
DIGESTS = "digests"

_HEX = 64


class SentVectors:
    """Records of the masked vectors of one session, written before they are sent.

    Args:
        folder: A private folder of the session.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: Digests of exact vectors by round, up to the last read of their file.
        self._digests: dict[str, str] = {}
        self._read = -1

    def keep(self, name: Round, raw: bytes) -> None:
        """Record the digest of a vector to send; in a retry, compare it with the record.

        Args:
            name: Round of the vector.
            raw: The masked vector.

        Raises:
            ContractError: The round has the digest of a different vector: nothing may be sent.
        """
        if self._read < 0:
            private_folder(self._folder)
            self._read = 0
        # A retry computes the vector again, so its digest is enough.
        digest = hashlib.sha256(raw).hexdigest()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        handle = os.open(self._folder / DIGESTS, flags, 0o600)
        try:
            # Another process of this party may have appended since: read its lines first.
            if (size := os.fstat(handle).st_size) != self._read:
                self._digests |= _digests_in(os.pread(handle, size, 0))
            recorded = self._digests.get(name.name)
            if recorded is None:
                # If a kill cuts the line off, its vector was not sent.
                line = f"\n{name.name} {digest}\n".encode()
                self._read = size + os.write(handle, line)
                self._digests[name.name] = recorded = digest
        finally:
            os.close(handle)
        if recorded != digest:
            raise _different_vector(name)

    def keep_noisy(self, name: Round, exact: bytes, make: Callable[[], bytes]) -> bytes:
        """Draw and record the vector of a round with noise; a retry returns the recorded one.

        Args:
            name: Round of the vector.
            exact: The vector without noise.
            make: Adds noise and masks, and returns the bytes to send.

        Returns:
            The bytes to send.

        Raises:
            ContractError: The exact vector differs from that of an earlier try, or the recorded
                vector was removed; noise is never drawn twice.
        """
        path = self._path(name.name)
        origin, digest = path.with_suffix(".exact"), hashlib.sha256(exact).hexdigest()
        private_folder(self._folder)
        # Another process of this party may be in the same round.
        with locked_file(self._folder / "lock"):
            if path.with_suffix(".sha256").is_file():
                raise ContractError(
                    f"{name}: its decision is no longer in the store; noise is never drawn twice.",
                    "Trigger a new run, which is charged again.",
                )
            if path.is_file():
                if not origin.is_file() or origin.read_text() != digest:
                    raise _different_vector(name)
                return path.read_bytes()
            origin.write_text(digest)
            raw = make()
            with whole_file(path) as file:
                file.write(raw)
        return raw

    def keep_total(self, name: Round, total: np.ndarray) -> None:
        """Save the sum of a round, from which a retry may derive later sums.

        Args:
            name: The round.
            total: int64.
        """
        with open(f"{self._folder}/{name.name}.sum", "wb", buffering=0) as file:
            file.write(total.astype("<i8", copy=False).data)

    def total(self, name: Round) -> np.ndarray:
        """Return the sum that `keep_total` saved, int64.

        Args:
            name: The round.

        Raises:
            ContractError: The file is missing.
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
        """Remove vectors and sums of completed rounds; the vectors' digests remain.

        Args:
            names: Names of the rounds.
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
    """Return the first digest of each round; incomplete lines are ignored."""
    digests: dict[str, str] = {}
    for line in raw.decode(errors="replace").split("\n")[:-1]:
        name, _, digest = line.partition(" ")
        if len(digest) == _HEX:
            digests.setdefault(name, digest)
    return digests


def _different_vector(name: Round) -> ContractError:
    return ContractError(
        f"{name}: this party has computed a different vector in this round before; no mask may be "
        "used for two vectors.",
        "Its table, or the decision before this round, has changed since: check the table, ask the "
        "active party, and trigger a new run.",
    )
