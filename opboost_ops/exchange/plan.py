"""The plan: what a run is to do, as the label holder signs it at the beginning."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Any

from opboost_ops.config.columns import non_default
from opboost_ops.config.documents import read_json
from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import parse_federation
from opboost_ops.config.schema import Record
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.manifest import Digest, RunId
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.sealed.month_keys import is_epoch


class _Document(Record):
    """A plan's document as it is written; for what its entries are, see `Plan`."""

    federation: Any
    purpose: Purpose
    model: RunId | None
    agreement: Digest
    protocol: int
    form: dict[str, Any]
    reference: RunId | None = None
    epoch: str | None = None
    day: str | None = None


@dataclass(frozen=True)
class Plan:
    """The declaration of a run. It holds nothing that is not public.

    Attributes:
        federation: The federation file, with the form's values in it.
        purpose: What the run is for.
        agreement: Digest of the agreement under which the run is; every party has pinned it.
        protocol: Version of the protocol that the label holder speaks.
        model: The version that a scoring run uses; the champion to which a training run will
            compare its model, None before the first.
        form: What the trigger form asked for.
        reference: The version to which a training run compares its model, by
            `pipeline/evaluation/interval_gate.py`; the champion when absent. So a plan names two
            versions at most.
        epoch: The month in which the label holder opened the run, where people are queried.
        day: The day on which the run was opened, where keys have dates: all that the run makes is
            judged by the keys of that day, however late it is read.
    """

    federation: Federation
    purpose: Purpose
    model: str | None
    agreement: str
    protocol: int
    form: Mapping[str, Any] = field(default_factory=dict)
    reference: str | None = None
    epoch: str | None = None
    day: date | None = None

    def document(self) -> dict[str, Any]:
        """The document of the plan's artifact."""
        named = {
            "reference": self.reference,
            "epoch": self.epoch,
            "day": self.day and self.day.isoformat(),
        }
        declared = non_default(self.federation)
        # In training, some defaults depend on other entries.
        declared["training"] = self.federation.training.model_dump(mode="json")
        return {
            **{name: value for name, value in named.items() if value is not None},
            "agreement": self.agreement,
            "protocol": self.protocol,
            "federation": declared,
            "purpose": self.purpose,
            "model": self.model,
            "form": dict(self.form),
        }


@lru_cache(maxsize=4)
def read_plan(raw: bytes, what: str) -> Plan:
    """Read a plan's document from its bytes: each stage of a run reads the same one.

    Args:
        raw: JSON.
        what: Name of its place, for the error.

    Raises:
        Rejected: It is none.
    """
    try:
        document = read_json(raw)
    except (ValueError, RecursionError):
        document = None
    return parse_plan(document, what)


def parse_plan(document: Any, what: str) -> Plan:
    """Read a plan's document.

    Args:
        document: The artifact's.
        what: Name of its place, for the error.

    Raises:
        Rejected: It is none.
    """
    try:
        fields = _Document.model_validate(document)
        day = None if fields.day is None else date.fromisoformat(fields.day)
    except ValueError:
        raise Rejected("malformed", f"{what}: it is not a plan.") from None
    training = fields.purpose == "train"
    # Of a day there is one spelling alone: a plan's bytes are its name.
    supported = training or (fields.model is not None and fields.reference is None)
    if not supported or (day and day.isoformat()) != fields.day:
        raise Rejected("malformed", f"{what}: it plans nothing that this software knows.")
    try:
        federation = parse_federation(fields.federation, what)
    except ConfigError as error:
        raise Rejected("malformed", error.problem) from None
    if not (is_epoch(fields.epoch) if asks(federation, fields.purpose) else fields.epoch is None):
        raise Rejected("malformed", f"{what}: it names no month, or needs none.")
    return Plan(**{**dict(fields), "federation": federation, "day": day})


def asks(federation: Federation, purpose: Purpose) -> bool:
    """True if a run asks feature holders about people.

    Args:
        federation: As declared.
        purpose: What the run is for.
    """
    vertical = federation.learning == "vertical"
    return vertical and (purpose == "train" or federation.scoring.mode != "local")
