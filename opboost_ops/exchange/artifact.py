"""Exchange artifacts: drafts that become signed and, if required, encrypted bytes."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from opboost_ops import __version__
from opboost_ops.config.documents import read_json
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.encryption import OVERHEAD, SUFFIX, Envelope
from opboost_ops.exchange.files import ENTRIES, Files, is_part, part_names, salted
from opboost_ops.exchange.manifest import (
    MANIFEST,
    SIGNATURE,
    File,
    Kind,
    Manifest,
    reference,
)
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.signing import Signer
from opboost_ops.privacy.ledger.checkpoints import Standing
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.tables.spill.arrays import release_memory

DOCUMENT = "document.json"
VECTOR = "vector.bin"


class Parts(Protocol):
    """A sequence of arrays that are computed on demand, possibly several times."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> np.ndarray: ...


@dataclass(frozen=True)
class Draft:
    """An artifact that a stage wants to publish; the runner signs it and writes it to the store.

    Attributes:
        kind: Its kind in the protocol.
        about: The party whose rows or features it concerns.
        document: Its JSON document, if any.
        vector: Its packed integers, if any.
        entries: Its points, shares or sealed rows, if any, uint8, shape (n, width), or one such
            array per part, which need not be in memory.
        round: Its round, for the kinds of horizontal learning.
        columns: Its features.
        rows: Number of people, or of entries of the document.
        answers: Digest of the artifact that it answers.
        losses: Loss curve of each feature that it releases.
        releases: ID of the release of each feature whose responses it contains.
        disclosures: Further exact entries for the ledger, each written once: by name (64 hex
            digits), the feature and what is disclosed about it.
        discloses: What it discloses outside any epsilon, if different from its kind's.
    """

    kind: Kind
    about: str
    rows: int
    discloses: str = ""
    document: Mapping[str, Any] | None = None
    vector: bytes | None = None
    entries: np.ndarray | Parts | None = None
    round: str | None = None
    columns: tuple[str, ...] = ()
    answers: str | None = None
    losses: Mapping[str, LossCurve] = field(default_factory=dict)
    releases: Mapping[str, str] = field(default_factory=dict)
    disclosures: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def seal(
        self,
        signer: Signer,
        federation: str,
        run: str,
        party: str,
        experiment: bool,
        envelope: Envelope | None = None,
        standing: Standing | None = None,
    ) -> tuple[Manifest, Mapping[str, bytes]]:
        """Sign the draft and encrypt its files.

        Args:
            signer: The party's signing key.
            federation: The run's federation.
            run: ID of the run.
            party: The publishing party.
            experiment: Whether it carries no guarantee.
            envelope: Encrypts to the receiver; None leaves the files unencrypted.
            standing: The party's checkpoints.

        Returns:
            The manifest, and all files to publish, including manifest and signature.

        Raises:
            ArtifactError: A part changed on disk during publication.
        """
        place = reference(federation, run, self.kind, self.about, self.round)
        contents = self._contents()

        def content(name: str) -> bytes:
            raw = contents[name]()
            release_memory()
            if envelope is None:
                return raw
            return salted(raw, envelope.salt(place, name), self.rows, len(self.columns))

        listed: dict[str, File] = {}
        ready: dict[str, bytes] = {}
        for name in list(contents):
            raw = content(name)
            listed[name] = File(sha256=hashlib.sha256(raw).hexdigest(), size=len(raw))
            if not is_part(name):
                ready[name] = raw
        manifest = Manifest(
            federation=federation,
            run=run,
            kind=self.kind,
            party=party,
            about=self.about,
            round=self.round,
            answers=self.answers,
            columns=self.columns,
            rows=self.rows,
            losses=dict(self.losses),
            releases=dict(self.releases),
            files=listed,
            encrypted_to=envelope.name if envelope else None,
            experiment=experiment,
            software=__version__,
            head=standing.head if standing else None,
            seen=standing.seen if standing else {},
        )
        head = manifest.to_bytes()
        digest, end = hashlib.sha256(head).hexdigest(), SUFFIX if envelope else ""

        def closed(name: str, raw: bytes) -> bytes:
            return envelope.encrypt(raw, digest, name) if envelope else raw

        def part(name: str) -> bytes:
            raw = content(name)
            # Never encrypt two contents under one key and nonce, even if the disk has changed.
            if hashlib.sha256(raw).hexdigest() != listed[name].sha256:
                raise ArtifactError(f"{place}: {name} changed at home.", "Clear this task.")
            return closed(name, raw)

        files = {name + end: closed(name, raw) for name, raw in ready.items()}
        files |= {MANIFEST: head, SIGNATURE: signer.sign(head)}
        later = {name + end: partial(part, name) for name in listed if name not in ready}
        more = OVERHEAD if envelope else 0
        sizes = {name + end: listed[name].size + more for name in listed if name not in ready}
        return manifest, Files(files, later, sizes) if later else files

    def _contents(self) -> dict[str, Callable[[], bytes]]:
        """Return functions that make each file; parts are made on demand to bound memory."""
        makers: dict[str, Callable[[], bytes]] = {}
        if self.document is not None:
            text = json.dumps(self.document, separators=(",", ":"), allow_nan=False)
            makers[DOCUMENT] = text.encode
        if self.vector is not None:
            makers[VECTOR] = self.vector.__bytes__
        if self.entries is not None:
            parts = self.entries
            several: Parts = [parts] if isinstance(parts, np.ndarray) else parts
            for i, name in enumerate(part_names(len(several))):
                makers[name] = partial(_bytes_of, several, i)
        return makers


def _bytes_of(parts: Parts, number: int) -> bytes:
    return parts[number].tobytes()


@dataclass(frozen=True)
class Artifact:
    """An accepted artifact.

    Attributes:
        manifest: Its manifest.
        files: All its files, decrypted.
    """

    manifest: Manifest
    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """Digest of its manifest."""
        return self.manifest.digest

    def vector(self, length: int) -> bytes:
        """Return its packed integers.

        Args:
            length: The expected number of bytes.
        """
        raw = self._file(VECTOR)
        if len(raw) != length:
            raise Rejected(
                "wrong_row_count", f"{self.manifest.reference}: its vector has another length."
            )
        return raw

    def entries(self, count: int, width: int) -> np.ndarray:
        """Return its points or tags, uint8, shape (count, width).

        Args:
            count: The expected number.
            width: Bytes of each.
        """
        raw = self._file(ENTRIES)
        if len(raw) != count * width:
            raise Rejected(
                "wrong_row_count", f"{self.manifest.reference}: its entries have another length."
            )
        return np.frombuffer(raw, dtype=np.uint8).reshape(count, width)

    @property
    def parts(self) -> int:
        """Number of files of its points, shares or sealed rows."""
        return max(1, sum(map(is_part, self.manifest.files)))

    def part(self, number: int, width: int) -> np.ndarray:
        """Return one part of its points, shares or sealed rows, uint8, shape (k, width).

        Args:
            number: Index of the part.
            width: Bytes per entry.
        """
        raw = self._file(part_names(self.parts)[number])
        if len(raw) % width:
            raise Rejected(
                "wrong_row_count", f"{self.manifest.reference}: its entries have another length."
            )
        return np.frombuffer(raw, dtype=np.uint8).reshape(-1, width)

    @property
    def document(self) -> Any:
        """Its JSON document."""
        try:
            return read_json(self._file(DOCUMENT))
        except (ValueError, RecursionError):
            pass
        raise Rejected("malformed", f"{self.manifest.reference}: its document is damaged.")

    @property
    def size(self) -> int:
        """Total bytes of its files, including manifest and signature."""
        return sum(len(raw) for raw in self.files.values())

    def _file(self, name: str) -> bytes:
        if name not in self.files:
            raise Rejected("malformed", f"{self.manifest.reference}: {name} is missing.")
        return self.files[name]
