"""The manifest of an exchange artifact, which its signer signs, and the IDs of runs."""

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, ValidationError

from opboost_ops import __version__
from opboost_ops.config.agreement import PROTOCOL
from opboost_ops.config.documents import read_json
from opboost_ops.config.schema import FeatureName, Name, Record
from opboost_ops.exchange.kinds import KINDS
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.privacy.ledger.checkpoints import Checkpoint
from opboost_ops.privacy.loss import LossCurve

#: Prefix of Airflow's IDs of runs that another Airflow opened; the run's ID follows.
JOINED = "joined__"


def run_id(dag_id: str, airflow_run_id: str) -> str:
    """Return the run's ID: safe in paths, and stable across clear and retry.

    Args:
        dag_id: ID of the DAG.
        airflow_run_id: Airflow's ID of the run.
    """
    return joined_run(airflow_run_id) or own_run_id(dag_id, airflow_run_id)


def own_run_id(dag_id: str, airflow_run_id: str) -> str:
    """Return the ID of a run that this Airflow began, whatever run its Airflow ID names.

    Args:
        dag_id: ID of the DAG.
        airflow_run_id: Airflow's ID of the run.
    """
    # IDs contain no line breaks, so different pairs give different texts.
    return hashlib.sha256(f"{dag_id}\n{airflow_run_id}".encode()).hexdigest()[:16]


def joined_run(airflow_run_id: str) -> str | None:
    """Return the run that Airflow's ID names, if another Airflow opened it.

    Args:
        airflow_run_id: Airflow's ID of the run.
    """
    run = airflow_run_id.removeprefix(JOINED)
    return run if airflow_run_id.startswith(JOINED) and is_run_id(run) else None


#: Major and minor version of a release.
_RELEASE = re.compile(r"^(\d{1,6})\.(\d{1,6})(?!\d)")


def too_far_apart(mine: str, theirs: str) -> int:
    """Compare two releases that use the same protocol version.

    Args:
        mine: Version of this software.
        theirs: Version in the other's manifest.

    Returns:
        0 if they are compatible or cannot be compared; -1 if this software is too old for the
        other, 1 if the other is too old for this one.
    """
    own, other = _minor(mine), _minor(theirs)
    if own is None or other is None:
        return 0
    if own[0] == other[0] and abs(own[1] - other[1]) <= 1:
        return 0
    return -1 if own < other else 1


def _minor(version: str) -> tuple[int, int] | None:
    numbers = _RELEASE.match(version)
    return (int(numbers[1]), int(numbers[2])) if numbers else None


if TYPE_CHECKING:
    Kind = str
else:
    #: Kinds of artifact, in protocol order.
    Kind = Literal[*KINDS]

#: Kinds of horizontal learning, which a run has many of: each has a place per round.
ROUND_KINDS = tuple(kind.name for kind in KINDS.values() if kind.runs == ("train_horizontal",))

_RUN_ID = r"^[0-9a-f]{16}$"

RunId = Annotated[str, Field(pattern=_RUN_ID)]

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

ReleaseId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]

RoundName = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")]

KeyName = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]

MANIFEST = "manifest.json"

SIGNATURE = "manifest.sig"

#: Version of the manifest format.
VERSION: Literal[1] = 1

#: A rejected manifest of up to this many bytes is parsed again to explain the rejection.
_SMALL = 1 << 20


class File(Record):
    """One file of an artifact."""

    sha256: Digest
    size: NonNegativeInt


class Manifest(Record):
    """The signed description of an artifact; it has no timestamp, so a retry makes the same bytes.

    Attributes:
        version: Version of this format.
        protocol: Protocol version of the signer; see `PROTOCOL`.
        federation: Name of the federation.
        run: ID of the run.
        kind: Kind of the artifact.
        party: The signer.
        about: The party whose rows or features it concerns: the publisher itself, or the party
            that the label holder addresses.
        round: Its round, for the kinds of horizontal learning; omitted from the bytes of others.
        answers: Digest of the artifact that it answers.
        columns: Its features, in order.
        rows: Rows of its table; entries for a plan or a split request.
        losses: Loss curve of each feature released in it.
        releases: ID of the signer's release that each feature's responses belong to.
        files: The artifact's other files before encryption; salted if they are encrypted.
        encrypted_to: Name of the receiver's key; None if the files are not encrypted.
        experiment: True if made with reproducible, seeded noise, or with edges read from a private
            table: without any guarantee.
        software: Version of the software that made it.
        head: The signer's checkpoint for its receiver; see `privacy.ledger.checkpoints`.
        seen: The latest checkpoint that the signer had received from each party.
    """

    version: Literal[1] = VERSION
    protocol: int = Field(default=PROTOCOL, ge=1)
    federation: Name
    run: RunId
    kind: Kind
    party: Name
    about: Name
    round: RoundName | None = None
    answers: Digest | None = None
    columns: tuple[FeatureName, ...] = ()
    rows: NonNegativeInt
    losses: Mapping[FeatureName, LossCurve] = Field(default_factory=dict)
    releases: Mapping[FeatureName, ReleaseId] = Field(default_factory=dict)
    files: Mapping[str, File]
    encrypted_to: KeyName | None = None
    experiment: bool = False
    software: str
    head: Checkpoint | None = None
    seen: Mapping[Name, Checkpoint] = Field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the canonical bytes that are signed and stored."""
        data = self.model_dump(mode="json")
        if self.round is None:
            del data["round"]
        del data["head"], data["seen"]
        if self.head is not None:
            data["head"] = self.head.plain()
        if self.seen:
            data["seen"] = {party: checkpoint.plain() for party, checkpoint in self.seen.items()}
        return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()

    @property
    def digest(self) -> str:
        """Digest of the artifact: the SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def reference(self) -> str:
        """Place of the artifact in a store."""
        return reference(self.federation, self.run, self.kind, self.about, self.round)


def reference(
    federation: str, run: str, kind: str, about: str, round_name: str | None = None
) -> str:
    """Return the place of an artifact in a store: ``<federation>/<run>/<kind>/<party>``.

    A message of a round has a place below that.
    """
    place = f"{federation}/{run}/{kind}/{about}"
    return place if round_name is None else f"{place}/{round_name}"


def sender_of(kind: Kind, about: str, label_holder: str) -> str:
    """Return the only party that may sign an artifact.

    Args:
        kind: Its kind.
        about: The party it is about.
        label_holder: The federation's label holder.
    """
    return label_holder if KINDS[kind].signer == "label_holder" else about


def receiver_of(kind: Kind, about: str, label_holder: str) -> str | None:
    """Return the party that an artifact is addressed to; None if it is for all parties.

    Args:
        kind: Its kind.
        about: The party it is about.
        label_holder: The federation's label holder.
    """
    return {"all": None, "party": about, "label_holder": label_holder}[KINDS[kind].reader]


def checkpoint_towards(kind: Kind, about: str, label_holder: str) -> str:
    """Return the receiver of a manifest's checkpoint; for artifacts to all, the label holder.

    Args:
        kind: The artifact's kind.
        about: The party it is about.
        label_holder: The federation's label holder.
    """
    return receiver_of(kind, about, label_holder) or label_holder


def is_run_id(name: object) -> bool:
    """Return whether a name is a run ID: 16 hex digits."""
    return isinstance(name, str) and re.match(_RUN_ID, name) is not None


def parse_manifest(raw: bytes, what: str) -> Manifest:
    """Parse a manifest.

    Raises:
        Rejected: It is invalid, of another format version, or not in canonical form.
    """
    # Canonical bytes have no duplicate keys and only finite numbers: no need to check for these.
    if len(raw) <= _SMALL:
        with suppress(ValueError, RecursionError):
            manifest = Manifest.model_validate_json(raw)
            if manifest.to_bytes() == raw:
                return manifest
    try:
        data: Any = read_json(raw)
        manifest = Manifest.model_validate(data)
    except (ValueError, ValidationError, RecursionError):
        version = data.get("version") if "data" in locals() and isinstance(data, dict) else None
        if isinstance(version, int) and version != VERSION:
            raise Rejected(
                "unsupported_version",
                f"{what}: its manifest has format version {version}; this software reads version "
                f"{VERSION} alone.",
            ) from None
        raise Rejected("malformed", f"{what}: its manifest is damaged.") from None
    if manifest.to_bytes() != raw:
        raise Rejected("malformed", f"{what}: its manifest is not in canonical form.")
    return manifest


def require_protocol(manifest: Manifest, what: str) -> None:
    """Reject artifacts of a release that this one could misinterpret.

    Args:
        manifest: The artifact's manifest, with a verified signature.
        what: Name of its place, for the error.

    Raises:
        Rejected: The releases are incompatible; the error names the party that must upgrade.
    """
    same_protocol = manifest.protocol == PROTOCOL
    apart = too_far_apart(__version__, manifest.software) if same_protocol else 0
    if same_protocol and not apart:
        return
    release = manifest.software if re.match(r"^[0-9A-Za-z.+-]{1,40}$", manifest.software) else "?"
    older = apart > 0 if same_protocol else manifest.protocol < PROTOCOL
    behind = manifest.party if older else "this party"
    if same_protocol:
        raise Rejected(
            "unsupported_version",
            f"{what}: {manifest.party} runs version {release}, and this party {__version__}; "
            f"releases work together that are at most one minor version apart: {behind} has to "
            "upgrade.",
        )
    raise Rejected(
        "unsupported_version",
        f"{what}: {manifest.party} runs version {release}, which speaks protocol "
        f"{manifest.protocol}, and this party speaks {PROTOCOL}: {behind} has to upgrade. A run "
        "cannot continue across an upgrade: trigger a new one.",
    )
