"""Exchange artifacts: drafts become signed bytes, and bytes become verified artifacts."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from opboost_ops import __version__
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.encoding import table_from_bytes, table_to_bytes
from opboost_ops.exchange.manifest import (
    MANIFEST,
    SIGNATURE,
    File,
    Kind,
    Manifest,
    parse_manifest,
)
from opboost_ops.exchange.signing import Signer, verify
from opboost_ops.privacy.loss import LossCurve

TABLE = "table.parquet"
DOCUMENT = "document.json"


@dataclass(frozen=True)
class Draft:
    """What a stage wants to publish; the runner signs it and puts it into the store.

    Attributes:
        kind: Which arrow of the protocol.
        about: The party whose rows or features it is about.
        table: Its table, if it has one.
        document: Its JSON document, if it has one.
        columns: Features inside.
        rows: Rows of the table, or entries of the document.
        answers: Digest of the artifact that it answers.
        losses: Loss curve of each feature that it releases.
        discloses: What it tells its reader outside any epsilon; a ledger line.
    """

    kind: Kind
    about: str
    rows: int
    discloses: str
    table: pa.Table | None = None
    document: Mapping[str, Any] | None = None
    columns: tuple[str, ...] = ()
    answers: str | None = None
    losses: Mapping[str, LossCurve] = field(default_factory=dict)

    def seal(
        self, signer: Signer, federation: str, run: str, party: str, experiment: bool
    ) -> tuple[Manifest, dict[str, bytes]]:
        """Sign the draft.

        Returns:
            The manifest, and all files to publish, manifest and signature among them.
        """
        files: dict[str, bytes] = {}
        if self.table is not None:
            files[TABLE] = table_to_bytes(self.table)
        if self.document is not None:
            files[DOCUMENT] = json.dumps(
                self.document, separators=(",", ":"), allow_nan=False
            ).encode()
        manifest = Manifest(
            federation=federation,
            run=run,
            kind=self.kind,
            party=party,
            about=self.about,
            answers=self.answers,
            columns=self.columns,
            rows=self.rows,
            losses=dict(self.losses),
            files={
                name: File(sha256=hashlib.sha256(raw).hexdigest(), size=len(raw))
                for name, raw in files.items()
            },
            experiment=experiment,
            software=__version__,
        )
        raw = manifest.to_bytes()
        return manifest, {**files, MANIFEST: raw, SIGNATURE: signer.sign(raw)}


@dataclass(frozen=True)
class Expected:
    """What the reader of an artifact insists on.

    Attributes:
        federation: Its federation.
        run: Its run.
        kind: Its kind.
        party: Its signer.
        about: The party it is about.
        key: The signer's pinned public key.
        rows: Its row count, where the reader knows it.
        columns: Its features in order, where the reader knows them.
        answers: Digest of what it must answer, where the reader knows it.
    """

    federation: str
    run: str
    kind: Kind
    party: str
    about: str
    key: str
    rows: int | None = None
    columns: tuple[str, ...] | None = None
    answers: str | None = None


@dataclass(frozen=True)
class Artifact:
    """A verified artifact."""

    manifest: Manifest
    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """Digest of its manifest."""
        return self.manifest.digest

    @property
    def table(self) -> pa.Table:
        """Its table."""
        return table_from_bytes(self._file(TABLE), self.manifest.reference)

    @property
    def document(self) -> Any:
        """Its JSON document."""
        try:
            return json.loads(self._file(DOCUMENT))
        except ValueError:
            pass
        raise ArtifactError(
            f"{self.manifest.reference}: its document is damaged.", "Trigger a new run."
        )

    @property
    def size(self) -> int:
        """Bytes of all its files, manifest and signature included."""
        return sum(len(raw) for raw in self.files.values())

    def _file(self, name: str) -> bytes:
        if name not in self.files:
            raise ArtifactError(
                f"{self.manifest.reference}: {name} is missing.", "Trigger a new run."
            )
        return self.files[name]


def open_artifact(files: Mapping[str, bytes], expected: Expected) -> Artifact:
    """Verify an artifact: signature first, then what it says of itself, then its content.

    Args:
        files: All its files, as the store gave them.
        expected: What it must be.

    Raises:
        ArtifactError: It is anything else.
    """
    what = f"{expected.federation}/{expected.run}/{expected.kind}/{expected.about}"
    raw, signature = files.get(MANIFEST), files.get(SIGNATURE)
    if raw is None or signature is None:
        raise ArtifactError(f"{what}: manifest or signature is missing.", "Trigger a new run.")
    verify(expected.key, raw, signature, what)
    manifest = parse_manifest(raw, what)
    for name in ("federation", "run", "kind", "party", "about", "rows", "columns", "answers"):
        wanted, found = getattr(expected, name), getattr(manifest, name)
        if wanted is not None and wanted != found:
            raise ArtifactError(
                f"{what}: its {name} is not the expected one.",
                "It belongs to another place, run or request; nothing of it was used.",
            )
    content = {name: raw for name, raw in files.items() if name not in (MANIFEST, SIGNATURE)}
    if set(content) != set(manifest.files):
        raise ArtifactError(f"{what}: its files are not those it lists.", "Trigger a new run.")
    for name, file in manifest.files.items():
        if hashlib.sha256(content[name]).hexdigest() != file.sha256:
            raise ArtifactError(f"{what}: {name} was changed.", "Trigger a new run.")
    artifact = Artifact(manifest, dict(files))
    if TABLE in content and artifact.table.num_rows != manifest.rows:
        raise ArtifactError(f"{what}: its row count is off.", "Trigger a new run.")
    return artifact
