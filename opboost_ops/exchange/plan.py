"""The plan: what a run is to do, as the label holder signs it at the beginning."""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Any, get_args

from opboost_ops.alignment.epochs import is_epoch
from opboost_ops.config.declared_map import differing
from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import parse_federation
from opboost_ops.config.removed_keys import without_spelled_out
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.json_text import read_json
from opboost_ops.exchange.manifest import is_run_id
from opboost_ops.exchange.rejection import Rejected

_KEYS = {"agreement", "protocol", "federation", "purpose", "model", "form"}
#: Only there where it differs from the model.
_REFERENCE = "reference"
#: The month of the exponents; only where people are queried.
_EPOCH = "epoch"
#: Only there where feature holders must know which of their rows are held out.
_HOLDOUT = "holdout"
#: Only there where it decides which keys are good.
_DAY = "day"
_OPTIONAL = {_REFERENCE, _EPOCH, _HOLDOUT, _DAY}
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HOLDOUT_KEY = re.compile(r"[12]:[0-9a-f]{64}")


@dataclass(frozen=True)
class Plan:
    """What a run is to do. It holds nothing that is not public.

    Attributes:
        federation: The federation file, with the form's values in it.
        purpose: What the run is for.
        agreement: Digest of the agreement under which the run is; every party has pinned it.
        protocol: Version of the protocol that the label holder speaks.
        model: The version that a scoring run uses; the champion to which a training run will
            compare its model, None before the first.
        form: What the trigger form asked for.
        reference: The version to which a training run compares its model, by `stages/reference.py`;
            the champion when absent. So a plan names two versions at most.
        epoch: The month in which the label holder opened the run, where people are queried.
        holdout: Key of the hash by which rows are held out, hex after its schedule, where routed
            scoring is evaluated: a feature holder seals comparisons of held-out rows alone.
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
    holdout: str | None = None
    day: date | None = None

    def document(self) -> dict[str, Any]:
        """The document of the plan's artifact."""
        named = {} if self.reference is None else {_REFERENCE: self.reference}
        if self.epoch is not None:
            named[_EPOCH] = self.epoch
        if self.holdout is not None:
            named[_HOLDOUT] = self.holdout
        named |= {} if self.day is None else {_DAY: self.day.isoformat()}
        declared = differing(self.federation)
        # Without what says nothing: a former release does not know later entries. Of training,
        # some defaults hang on other entries.
        declared["training"] = self.federation.training.model_dump(mode="json")
        return {
            **named,
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
    if not isinstance(document, dict) or set(document) - _OPTIONAL != _KEYS:
        raise Rejected("malformed", f"{what}: it is not a plan.")
    purpose, model, form = document["purpose"], document["model"], document["form"]
    agreement, protocol = document["agreement"], document["protocol"]
    known = purpose in get_args(Purpose) and isinstance(form, dict)
    known = known and isinstance(agreement, str) and bool(_DIGEST.fullmatch(agreement))
    known = known and type(protocol) is int
    reference = document.get(_REFERENCE)
    known = known and (reference is None or (is_run_id(reference) and purpose == "train"))
    day, opened = document.get(_DAY), None
    if day is not None:
        with contextlib.suppress(TypeError, ValueError):
            opened = date.fromisoformat(day)
        # One spelling alone: a plan's bytes are its name.
        known = known and opened is not None and opened.isoformat() == day
    if not known or not (is_run_id(model) or (model is None and purpose == "train")):
        raise Rejected("malformed", f"{what}: it plans nothing that this software knows.")
    try:
        federation = parse_federation(without_spelled_out(document["federation"]), what)
    except ConfigError as error:
        raise Rejected("malformed", error.problem) from None
    epoch, holdout = document.get(_EPOCH), document.get(_HOLDOUT)
    if epoch is not None if not asks(federation, purpose) else not is_epoch(epoch):
        raise Rejected("malformed", f"{what}: it names no month, or needs none.")
    named = isinstance(holdout, str) and bool(_HOLDOUT_KEY.fullmatch(holdout))
    if not named if names_holdout(federation, purpose) else holdout is not None:
        raise Rejected("malformed", f"{what}: it names no key of held-out rows, or needs none.")
    return Plan(
        federation, purpose, model, agreement, protocol, form, reference, epoch, holdout, opened
    )


def asks(federation: Federation, purpose: Purpose) -> bool:
    """Whether a run asks feature holders about people.

    Args:
        federation: As declared.
        purpose: What the run is for.
    """
    vertical = federation.learning == "vertical"
    return vertical and (purpose == "train" or federation.scoring.mode != "local")


def names_holdout(federation: Federation, purpose: Purpose) -> bool:
    """Whether a run's plan says by which key rows are held out.

    Args:
        federation: As declared.
        purpose: What the run is for.
    """
    vertical = federation.learning == "vertical"
    return vertical and purpose == "train" and "routed" in federation.scoring.modes
