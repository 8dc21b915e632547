"""Agreements of a party with federations: agreeing, withdrawing, stopping.

Agreements are numbered and dated, with an entry in the party's audit log. A federation has one
agreement in force; a new one replaces the former. A version trained under a former agreement can
be scored only if the party's own audit log has its training and its people keep it by name.

A party that has stopped takes part in no run of the federation until it resumes.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from opboost_ops.config.agreement import PROTOCOL, digest_of, document, fields
from opboost_ops.config.federation import Federation
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError, PolicyError
from opboost_ops.exchange.encryption import key_name
from opboost_ops.exchange.kinds import KINDS, TRAIN
from opboost_ops.exchange.party_state import PartyState, agreements_of, open_state
from opboost_ops.pipeline.party import clock
from opboost_ops.pipeline.party.trust import require_honest
from opboost_ops.privacy.consent.agreements import Agreement
from opboost_ops.privacy.consent.exposure import exposure_words
from opboost_ops.privacy.edge_charges import require_charged
from opboost_ops.privacy.ledger.tables import now

#: Kinds of artifacts of training runs only: a party that has sent one took part in training.
_TRAINED = frozenset(kind.name for kind in KINDS.values() if kind.runs == TRAIN)

#: Number of parts of an artifact's place after the federation: run, kind and sender.
_ARTIFACT = 3

#: Maximum fields in a message; `opboost agree` shows all.
_NAMED = 20

#: Suffix in the audit log of a person who acted through Airflow.
THROUGH_AIRFLOW = " through Airflow"

#: File beside ``site.yaml`` that marks a party of a demo or an experiment.
MADE_UP = ".made-up"


def agree(
    site: Site,
    federation: Federation,
    keep: Collection[str] = (),
    *,
    by: str = "",
    because: str = "",
) -> Agreement:
    """Agree to a federation as declared; return the existing agreement if nothing has changed.

    A new agreement replaces the former one.

    Args:
        site: The party's site.
        federation: The federation as declared.
        keep: Versions that may still be scored under the agreement they were trained under.
        by: The person who agrees for the party.
        because: The reason.

    Returns:
        The agreement in force.

    Raises:
        ConfigError: The party is not in the federation; an agreement was changed by hand; the
            database is missing; the terms have ended; the uuid differs from the agreed one; a key
            is not allowed; or the party has no record of a version to keep.
    """
    require_member(site, federation)
    until = federation.terms.until
    # Under expired terms the party would answer nothing.
    if clock.today() > until:
        raise ConfigError(
            f"The terms of {federation.name} ended on {until}.",
            "Write a later day as terms.until in the federation file.",
        )
    content = document(federation)
    digest = digest_of(content)
    with open_state(site) as state, state.transaction():
        agreements = state.agreements.read()
        newest = agreements.newest(federation.name)
        versions = _kept_agreements(state, federation.name, keep)
        if newest is not None and newest.digest == digest:
            if versions:
                state.agreements.keep(federation.name, versions, fresh=False)
                detail = f"number {newest.number}{_in_words(versions)}"
                _log_agreement(state, "agreed", newest, federation.label_holder, detail)
            return newest
        _require_same_uuid(agreements.of(federation.name), federation)
        require_honest(agreements, federation, clock.today())
        require_charged(state.releases, federation, site.party)
        new = Agreement(
            number=max((a.number for a in agreements.agreements), default=0) + 1,
            federation=federation.name,
            at=now(),
            digest=digest,
            content=content,
        )
        state.agreements.add(new)
        state.agreements.keep(federation.name, versions, fresh=True)
        gone = [key_name(k) for spec in federation.parties.values() for k in spec.revoked_keys]
        revoked = f", revoked {' '.join(gone)}" if gone else ""
        who = f", by {by.strip()}" if by.strip() else ""
        why = f", because {because.strip()}" if because.strip() else ""
        detail = f"number {new.number}{revoked}{_in_words(versions)}{who}{why}"
        if means := exposure_words(federation, site.party):
            detail = f"{detail}. {means}"
        _log_agreement(state, "agreed", new, federation.label_holder, detail)
    return new


def _require_same_uuid(before: Sequence[Agreement], federation: Federation) -> None:
    """Refuse a changed uuid: it would hold out people whom earlier models were trained on."""
    agreed = {agreement.content["federation"]["uuid"] for agreement in before}
    if agreed - {str(federation.uuid)}:
        raise ConfigError(
            f"The uuid of {federation.name} differs from the one agreed before, so that models "
            "would be evaluated on people whom earlier ones were trained on.",
            f"Write `uuid: {min(agreed)}`, or give another federation another name.",
        )


def trained_under(state: PartyState, federation: str) -> dict[str, Agreement]:
    """Return the agreement in force at the training of each version, newest version first.

    Only versions that the party helped to train are included.

    Args:
        state: The party's state.
        federation: Name of the federation.
    """
    by_number = {
        agreement.number: agreement for agreement in state.agreements.read().of(federation)
    }
    by_version: dict[str, Agreement] = {}
    in_force: Agreement | None = None
    # The order of the log decides: entries may share a second, and clocks may be set back.
    for _number, entry, _hash in state.audit.entries():
        name, _, rest = entry.place.partition("/")
        if name != federation:
            continue
        parts = rest.split("/")
        if entry.action == "agreed":
            in_force = by_number.get(int(parts[1]))
        trained = entry.action == "sent" and len(parts) == _ARTIFACT and parts[1] in _TRAINED
        if trained and in_force is not None:
            by_version.setdefault(parts[0], in_force)
    return dict(reversed(by_version.items()))


def _kept_agreements(
    state: PartyState, federation: str, versions: Collection[str]
) -> dict[str, int]:
    """Return the number of the agreement that each version was trained under."""
    if not versions:
        return {}
    trained = trained_under(state, federation)
    for version in versions:
        if version not in trained:
            raise ConfigError(
                f"This party has no record of a version {version} of {federation}.",
                "Nothing was agreed to. `opboost agree` lists the versions that it has helped to "
                "train.",
            )
        under = trained[version]
        if under.withdrawn is not None or under.content["protocol"] != PROTOCOL:
            why = "was withdrawn" if under.withdrawn is not None else "is of another protocol"
            raise ConfigError(
                f"Version {version} was trained under agreement {under.number}, which {why}.",
                "Nothing was agreed to. Train another version under the federation as it is now.",
            )
    return {version: trained[version].number for version in versions}


def _in_words(agreements: dict[str, int]) -> str:
    return "".join(f", keeps {version} under {number}" for version, number in agreements.items())


def lacking(site: Site, federation: Federation) -> str:
    """Describe the parts of a federation that a party has not agreed to; empty if none.

    Args:
        site: The party's site.
        federation: The federation as declared.

    Raises:
        ConfigError: An agreement was changed by hand.
    """
    newest = agreements_of(site).newest(federation.name)
    if newest is None:
        return f"has not agreed to {federation.name}"
    new = fields(newest.content, federation)
    more = f", and {len(new) - _NAMED} more" if len(new) > _NAMED else ""
    return f"has not agreed to what is new in {', '.join(new[:_NAMED])}{more}" if new else ""


def withdraw(site: Site, number: int) -> tuple[Agreement, ...]:
    """Withdraw an agreement and all agreements with the same content.

    Args:
        site: The party's site.
        number: The agreement's number.

    Returns:
        The withdrawn agreements.

    Raises:
        ConfigError: The agreement does not exist or was withdrawn before.
    """
    with open_state(site) as state, state.transaction():
        agreements = state.agreements.read()
        named = next((a for a in agreements.agreements if a.number == number), None)
        if named is None or named.withdrawn is not None:
            standing = [str(a.number) for a in agreements.agreements if a.withdrawn is None]
            raise ConfigError(
                f"{site.party} has no agreement {number} in force.",
                f"These do: {', '.join(standing)}." if standing else "None does.",
            )
        gone = frozenset(
            a.number
            for a in agreements.of(named.federation)
            if a.digest == named.digest and a.withdrawn is None
        )
        state.agreements.withdraw(gone, now())
        numbers = ", ".join(str(n) for n in sorted(gone))
        _log_agreement(state, "withdrawn", named, site.party, f"number {numbers}")
        return tuple(a for a in state.agreements.read().agreements if a.number in gone)


def require_member(site: Site, federation: Federation) -> None:
    """Require that the site's party belongs to a federation.

    Raises:
        ConfigError: It does not.
    """
    if site.party not in federation.parties:
        raise ConfigError(
            f"{site.party} is not a party of {federation.name}.",
            f"Its parties are {', '.join(federation.parties)}.",
        )


def _log_agreement(
    state: PartyState,
    action: Literal["agreed", "withdrawn"],
    agreement: Agreement,
    party: str,
    detail: str,
) -> None:
    place = f"{agreement.federation}/agreement/{agreement.number}"
    state.audit.add(action, place, party, agreement.digest, detail)


@dataclass(frozen=True)
class Stop:
    """A party's current stop in one federation.

    Attributes:
        at: Start, UTC.
        by: The Airflow user who requested it; empty for a stop at home, because the party's own
            people are not named to outsiders.
        at_home: True if it was made at home; then it can only be ended at home.
    """

    at: str
    by: str
    at_home: bool


def stopped(state: PartyState, federation: str) -> Stop | None:
    """Return a party's current stop in a federation from its audit log; None if it takes part.

    Args:
        state: The party's state.
        federation: Name of the federation.
    """
    entries = state.audit.of("stopped", "resumed")
    entries_of = [entry for entry in entries if entry.place.partition("/")[0] == federation]
    if not entries_of or entries_of[-1].action != "stopped":
        return None
    last = entries_of[-1]
    at_home = last.place == f"{federation}/home/act"
    by = "" if at_home else (last.detail or "").rpartition(f"{THROUGH_AIRFLOW}: ")[0]
    return Stop(last.at, by, at_home)


def require_taking_part(site: Site, federation: str) -> None:
    """Require that a party has not stopped taking part in a federation.

    Args:
        site: The party's site.
        federation: Name of the federation.

    Raises:
        PolicyError: The party has stopped.
    """
    with open_state(site) as state:
        stop = stopped(state, federation)
    if stop is not None:
        raise PolicyError(
            f"{site.party} has stopped taking part in {federation}.",
            "Its own people decide when it does again, by `opboost resume`.",
        )
