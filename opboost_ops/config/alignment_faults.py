"""What a federation file may not ask of the way in which common people are found."""

from collections.abc import Iterator

from opboost_ops.config.alignment import PrivateAlignment
from opboost_ops.config.federation import Federation
from opboost_ops.errors import Fault


def alignment_faults(federation: Federation) -> Iterator[Fault]:
    """Where ``alignment`` does not fit the rest of the file."""
    if federation.alignment_mode != "private":
        return
    yield from _decoy_faults(federation)
    for name, party in federation.parties.items():
        if party.encryption_key is None:
            yield Fault(
                f"parties.{name}.encryption_key",
                "is required for alignment: private",
                "make one with `opboost keys renew SITE encryption`, or declare alignment: keyed",
            )


def _decoy_faults(federation: Federation) -> Iterator[Fault]:
    terms = federation.alignment
    if not isinstance(terms, PrivateAlignment):
        return
    if terms.epoch is None and terms.decoys is None:
        yield Fault(
            "alignment",
            "is a mapping that names neither epoch nor decoys",
            "write `alignment: private`, or declare one of them",
        )
    if terms.decoys is None:
        return
    place = "alignment.decoys"
    if (count := len(federation.feature_holders)) > 1:
        yield Fault(
            place,
            f"is for one feature holder, and there are {count}: of several, either the label "
            "holder would learn every overlap, or each would be told who is common",
            "leave it out",
        )
    if terms.epoch is not None:
        yield Fault(
            place,
            "does not go with epoch: the label holder could put values to everybody about whom it "
            "asked in another run of the month",
            "leave one of them out",
        )
    if "routed" in federation.scoring.modes:
        yield Fault(
            place,
            "does not go with routed scoring, in which comparisons are answered by person: the "
            "feature holder must know whose",
            "leave one of them out",
        )
