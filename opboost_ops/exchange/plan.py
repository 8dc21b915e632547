"""The plan of a run, which the label holder signs at its start."""

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
    """A plan's document as stored; for the meaning of its fields, see `Plan`."""

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
    """The declaration of a run; all of it is public.

    Attributes:
        federation: The federation file, with the values of the trigger form.
        purpose: Purpose of the run.
        agreement: Digest of the run's agreement, which every party has pinned.
        protocol: Protocol version of the label holder.
        model: The version that a scoring run uses; for a training run, the champion that its model
            is compared with, or None before the first champion.
        form: Values of the trigger form.
        reference: The version that a training run's model is compared with, by
            `pipeline/evaluation/reference.py`; by default the champion. So a plan names at most
            two versions.
        epoch: The month in which the label holder opened the run, if people are queried.
        day: The day on which the run was opened, if keys have dates: the keys of that day decide
            on everything in the run, however late it is read.
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
        """Return the document of the plan's artifact."""
        named = {
            "reference": self.reference,
            "epoch": self.epoch,
            "day": self.day and self.day.isoformat(),
        }
        declared = non_default(self.federation)
        # Some defaults of training depend on other entries.
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
    """Parse a plan from bytes, with a cache, because every stage of a run reads it.

    Args:
        raw: JSON.
        what: Name of its place, for the error.

    Raises:
        Rejected: It is not a valid plan.
    """
    try:
        document = read_json(raw)
    except (ValueError, RecursionError):
        document = None
    return parse_plan(document, what)


def parse_plan(document: Any, what: str) -> Plan:
    """Parse a plan's document.

    Args:
        document: The artifact's document.
        what: Name of its place, for the error.

    Raises:
        Rejected: It is not a valid plan.
    """
    try:
        fields = _Document.model_validate(document)
        day = None if fields.day is None else date.fromisoformat(fields.day)
    except ValueError:
        raise Rejected("malformed", f"{what}: it is not a plan.") from None
    training = fields.purpose == "train"
    # Only one spelling of a day is valid, because a plan's bytes identify it.
    supported = training or (fields.model is not None and fields.reference is None)
    if not supported or (day and day.isoformat()) != fields.day:
        raise Rejected("malformed", f"{what}: it plans nothing that this software supports.")
    try:
        federation = parse_federation(fields.federation, what)
    except ConfigError as error:
        raise Rejected("malformed", error.problem) from None
    queries = queries_people(federation, fields.purpose)
    if not (is_epoch(fields.epoch) if queries else fields.epoch is None):
        raise Rejected("malformed", f"{what}: it names no month, or needs none.")
    return Plan(**{**dict(fields), "federation": federation, "day": day})


def queries_people(federation: Federation, purpose: Purpose) -> bool:
    """Return whether the label holder queries people in a run.

    Args:
        federation: The declared federation.
        purpose: Purpose of the run.
    """
    vertical = federation.learning == "vertical"
    return vertical and (purpose == "train" or federation.scoring.mode != "local")
