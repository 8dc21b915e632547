"""The manifest: a run's id, and what an exchange artifact says of itself and its signer signs."""

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

#: How Airflow's ids begin of runs that were opened in another Airflow; the run's own id follows.
JOINED = "joined__"


def run_id(dag_id: str, airflow_run_id: str) -> str:
    """The run's id: path-safe, and the same after clear and retry.

    Args:
        dag_id: The DAG's id.
        airflow_run_id: Airflow's id of the run.
    """
    return joined_run(airflow_run_id) or own_run_id(dag_id, airflow_run_id)


def own_run_id(dag_id: str, airflow_run_id: str) -> str:
    """The id of a run that this Airflow began, whatever run its Airflow id names.

    Args:
        dag_id: The DAG's id.
        airflow_run_id: Airflow's id of the run.
    """
    # No id has an end of line: no two pairs give the same text.
    return hashlib.sha256(f"{dag_id}\n{airflow_run_id}".encode()).hexdigest()[:16]


def joined_run(airflow_run_id: str) -> str | None:
    """The run that Airflow's id names, if it was opened in another Airflow.

    Args:
        airflow_run_id: Airflow's id of the run.
    """
    run = airflow_run_id.removeprefix(JOINED)
    return run if airflow_run_id.startswith(JOINED) and is_run_id(run) else None


#: The first two numbers of a release.
_RELEASE = re.compile(r"^(\d{1,6})\.(\d{1,6})(?!\d)")


def too_far_apart(mine: str, theirs: str) -> int:
    """Compare two releases that speak one protocol.

    Args:
        mine: This software's version.
        theirs: The other's, as its manifest says.

    Returns:
        0 if they work together, or nothing can be said of them; -1 if this software is too old for
        the other one, 1 if the other one is too old for this.
    """
    here, there = _minor(mine), _minor(theirs)
    if here is None or there is None:
        return 0
    if here[0] == there[0] and abs(here[1] - there[1]) <= 1:
        return 0
    return -1 if here < there else 1


def _minor(version: str) -> tuple[int, int] | None:
    numbers = _RELEASE.match(version)
    return (int(numbers[1]), int(numbers[2])) if numbers else None


if TYPE_CHECKING:
    Kind = str
else:
    #: Kinds of artifact, in protocol order.
    Kind = Literal[*KINDS]

#: Kinds of horizontal learning, of which a run has many: each lies in its round's own place.
ROUND_KINDS = tuple(kind.name for kind in KINDS.values() if kind.runs == ("train_horizontal",))

_RUN_ID = r"^[0-9a-f]{16}$"

RunId = Annotated[str, Field(pattern=_RUN_ID)]

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

ReleaseId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]

RoundName = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")]

KeyName = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]

MANIFEST = "manifest.json"

SIGNATURE = "manifest.sig"

#: Version of the format.
VERSION: Literal[1] = 1

#: Up to so many bytes a manifest is read once more if it is refused, to say why.
_SMALL = 1 << 20


class File(Record):
    """One file of an artifact."""

    sha256: Digest
    size: NonNegativeInt


class Manifest(Record):
    """The signed description of an artifact, without time: a retry makes the same bytes.

    Attributes:
        version: Of this format.
        protocol: What the signer speaks with other parties; see `PROTOCOL`.
        federation: Which federation.
        run: Which run of it.
        kind: Which arrow of the protocol.
        party: Who signs.
        about: The party whose rows or features it is about; the publisher itself, or the one
            that the label holder addresses.
        round: Its round, for the kinds of horizontal learning; not among the bytes of others.
        answers: Digest of the artifact that this one answers.
        columns: Features inside, in order.
        rows: Rows of its table; entries for a plan or a split request.
        losses: Loss curve of each feature released here.
        releases: Id of the signer's release that each feature's responses belong to.
        files: The artifact's other files, as they are before any encryption: salted if they lie
            there encrypted.
        encrypted_to: Name of the receiver's key under which they lie in the store; None if they
            lie there as they are.
        experiment: Made with predictable, seeded noise, or with edges read off a private table:
            without any guarantee.
        software: Version of this software that made it.
        head: The signer's checkpoint towards its receiver; see `privacy.ledger.checkpoints`.
        seen: By party, the latest checkpoint that the signer had received from it.
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
        """The canonical bytes that are signed and stored."""
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
        """Name of the artifact's content: sha256 of the canonical bytes."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def reference(self) -> str:
        """Where the artifact lies in a store."""
        return reference(self.federation, self.run, self.kind, self.about, self.round)


def reference(
    federation: str, run: str, kind: str, about: str, round_name: str | None = None
) -> str:
    """The place of an artifact in a store: ``<federation>/<run>/<kind>/<party>``.

    A message of a round has a place of its own below that.
    """
    place = f"{federation}/{run}/{kind}/{about}"
    return place if round_name is None else f"{place}/{round_name}"


def sender_of(kind: Kind, about: str, label_holder: str) -> str:
    """Who alone may sign an artifact.

    Args:
        kind: Its kind.
        about: The party it is about.
        label_holder: The federation's.
    """
    return label_holder if KINDS[kind].signer == "label_holder" else about


def receiver_of(kind: Kind, about: str, label_holder: str) -> str | None:
    """Whom an artifact is addressed to; None for what is for all.

    Args:
        kind: Its kind.
        about: The party it is about.
        label_holder: The federation's.
    """
    return {"all": None, "party": about, "label_holder": label_holder}[KINDS[kind].reader]


def checkpoint_towards(kind: Kind, about: str, label_holder: str) -> str:
    """Towards whom a manifest's checkpoint is given; what is for all counts as the label holder's.

    Args:
        kind: The artifact's kind.
        about: The party it is about.
        label_holder: The federation's.
    """
    return receiver_of(kind, about, label_holder) or label_holder


def is_run_id(name: object) -> bool:
    """True if a name is one of a run: 16 hex digits."""
    return isinstance(name, str) and re.match(_RUN_ID, name) is not None


def parse_manifest(raw: bytes, what: str) -> Manifest:
    """Read a manifest's bytes.

    Raises:
        Rejected: They are no manifest of this format's version, or are not in canonical form.
    """
    # What is canonical has each key once and finite numbers alone: then it need not be looked for.
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
    """Refuse what another release has made that this one would misread.

    Args:
        manifest: The artifact's, its signature verified.
        what: Name of its place, for the error.

    Raises:
        Rejected: Saying which party has to upgrade.
    """
    spoken = manifest.protocol == PROTOCOL
    apart = too_far_apart(__version__, manifest.software) if spoken else 0
    if spoken and not apart:
        return
    release = manifest.software if re.match(r"^[0-9A-Za-z.+-]{1,40}$", manifest.software) else "?"
    older = apart > 0 if spoken else manifest.protocol < PROTOCOL
    behind = manifest.party if older else "this party"
    if spoken:
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
