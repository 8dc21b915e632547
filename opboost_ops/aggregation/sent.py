"""What a party keeps of the vectors that it sends: one mask is never used for two."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from opboost_ops.boosting.rounds import Round
from opboost_ops.errors import ContractError


class SentVectors:
    """The masked vectors of one session, kept before they are sent.

    Args:
        folder: A private folder of the session.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, name: Round, raw: bytes) -> None:
        """Keep a vector that is about to be sent; at a later try, see that it is the same.

        Args:
            name: Its round.
            raw: Its bytes.

        Raises:
            ContractError: Another one was kept for this round: nothing may be sent.
        """
        path = self._path(name.name)
        digest = path.with_suffix(".sha256")
        if digest.is_file():
            same = digest.read_text() == hashlib.sha256(raw).hexdigest()
        elif path.is_file():
            same = path.read_bytes() == raw
        else:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            part = path.with_suffix(".part")
            part.write_bytes(raw)
            part.replace(path)
            return
        if not same:
            raise ContractError(
                f"{name}: this party has made another vector in this round before; one mask is "
                "never used for two.",
                "Its table has changed since: trigger a new run.",
            )

    def forget(self, names: Iterable[str]) -> None:
        """Remove vectors of rounds that are decided, but for their digests.

        Args:
            names: The rounds'.
        """
        for name in names:
            path = self._path(name)
            if path.is_file():
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                path.with_suffix(".sha256").write_text(digest)
                path.unlink()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.bin"
