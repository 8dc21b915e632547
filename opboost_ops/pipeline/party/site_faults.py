"""Faults of the parties' sites and tables, and limits that will block later runs."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import load_party
from opboost_ops.config.site import Site
from opboost_ops.errors import BudgetError, ConfigError, Fault, OpBoostError
from opboost_ops.exchange.encryption import all_keys, key_name, private_key
from opboost_ops.exchange.party_state import open_state
from opboost_ops.exchange.signing import Signer
from opboost_ops.exchange.store.store import Store, open_store
from opboost_ops.learning.registry.tracking import tracking_server
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.inputs.own_copy import borrowed
from opboost_ops.pipeline.inputs.raw_blocks import blocks
from opboost_ops.pipeline.inputs.rehearsal import common_people, rehearse, table_fault
from opboost_ops.pipeline.party import agreement, clock
from opboost_ops.pipeline.party.local_party import LocalParty
from opboost_ops.pipeline.party.party_sites import site_files
from opboost_ops.pipeline.party.trust import require_known_store
from opboost_ops.pipeline.runner import mailboxes
from opboost_ops.pipeline.runner.run_releases import require_within
from opboost_ops.pipeline.stage import Home, PartyContext
from opboost_ops.privacy.consent.agreements import policy_after_agreement
from opboost_ops.privacy.consent.compliance import require_consent
from opboost_ops.privacy.declarations import declarations
from opboost_ops.privacy.ledger.budgets import budget_of
from opboost_ops.privacy.ledger.database import has_tables
from opboost_ops.tables.people import PEOPLE

#: A party's first stage, which looks for upcoming limits.
STAGE = "check_table"

#: Report by party and purpose of how IDs and aggregates turned a table's rows into people, see
#: `tables.people.write_ids`; nothing for tables used unchanged. It never leaves the party.
MadePeople = dict[str, dict[Purpose, Mapping[str, Any]]]

#: Context and folder of ``site.yaml`` by party.
Parties = Mapping[str, tuple[PartyContext, Path]]

#: Days before a key's last day from which notices are sent.
_DAYS = 14


def site_faults(
    file: Path, federation: Federation
) -> tuple[list[Fault], dict[str, tuple[PartyContext, Path]], MadePeople]:
    """Return all faults of the parties' sites and tables, of those whose site is known here.

    Args:
        file: Path of ``federation.yaml``.
        federation: Its content.

    Returns:
        The faults; context and site folder of each readable party; and how rows of their tables
        become people.
    """
    faults: list[Fault] = []
    if clock.today() > federation.terms.until:
        faults.append(Fault("terms.until", "has passed: no party answers", "agree on a later day"))
    contexts: dict[str, tuple[PartyContext, Path]] = {}
    for party, path in site_files(file, federation, every=False).items():
        own_faults, context = _of_party(federation, party, path)
        faults += own_faults
        if context is not None:
            contexts[party] = (context, path.parent)
    people: MadePeople = {}
    faults += _table_faults(federation, contexts, people)
    return faults, contexts, people


def _of_party(
    federation: Federation, party: str, file: Path
) -> tuple[list[Fault], PartyContext | None]:
    faults: list[Fault] = []
    try:
        site, policy = load_party(file)
    except ConfigError as error:
        inner = [
            Fault(f"{party}/{error.file}:{f.where}", f.problem, f.suggestion) for f in error.faults
        ]
        return inner or [Fault(party, error.problem, error.remedy)], None

    def require_policy() -> None:
        nonlocal policy
        if agreement.lacking(site, federation):
            # Agreeing pins keys and columns; until then `require_agreed` reports what is missing.
            policy = policy_after_agreement(policy, federation)
        require_consent(policy, federation, party)

    own = federation.parties[party].signing_key
    checks: dict[str, Callable[[], object]] = {"site.yaml:secret": site.read_secret}
    if federation.learning == "horizontal":
        checks["policy.yaml:receivers"] = partial(
            mailboxes.pinned_keys, party, policy, federation, own
        )
    elif site.alignment_key.is_file():
        checks["site.yaml:alignment_key"] = partial(noise.read_secret, site.alignment_key)
    checks["policy.yaml"] = require_policy
    checks["site.yaml:models_to"] = partial(tracking_server, site, federation.name)
    for place, check in checks.items():
        try:
            check()
        except OpBoostError as error:
            faults.append(Fault(f"{party}/{place}", error.problem, error.remedy))
    faults += key_faults(federation, party, site)
    if not faults:  # The state opens with the secret alone.
        faults += _lost_pins(party, site)
    try:
        store = open_store(site.store)
    except OpBoostError as error:
        return [*faults, Fault(f"{party}/site.yaml:store", error.problem, error.remedy)], None
    faults += _store_faults(federation, party, site, store)
    if not faults:
        faults += _budget_faults(federation, LocalParty(party, site, policy, store))
    return faults, PartyContext(federation, "", party, site, policy, Home(site.home))


def _budget_faults(federation: Federation, party: LocalParty) -> list[Fault]:
    """Budgets that the next training would exceed; empty before the party's first agreement."""
    if not has_tables(party.site.ledger_url()):
        return []
    with open_state(party.site) as state:
        try:
            require_within(state, party, federation, "", "train", clock.today())
        except BudgetError as error:
            return [Fault(f"{party.name}/policy.yaml", error.problem, error.remedy)]
    return []


def _lost_pins(party: str, site: Site) -> list[Fault]:
    if not has_tables(site.ledger_url()):
        return []
    with open_state(site) as state:
        lost = [release.feature for release in state.releases.lost()]
    return [
        Fault(
            f"{party}/pins",
            f"the pin file of {feature} is lost",
            "put the newest files back, or see `opboost ledger recover`",
        )
        for feature in lost
    ]


def _store_faults(federation: Federation, party: str, site: Site, store: Store) -> Sequence[Fault]:
    """Return faults of a store that differs from the one that the party has pinned."""
    where = f"{party}/site.yaml:store"
    try:
        require_known_store(site, store, federation.name)
    except OpBoostError as error:
        return (Fault(where, error.problem, error.remedy),)
    except ConnectionError as error:
        return (Fault(where, str(error), "Do this again later."),)
    return ()


def key_faults(federation: Federation, party: str, site: Site) -> list[Fault]:
    """Return faults of a party's signing and encryption keys.

    Args:
        federation: The federation as declared.
        party: Name of the party.
        site: The party's site.
    """
    spec, faults = federation.parties[party], []
    today = datetime.now(UTC).date()
    good = spec.signing(today)
    try:
        own_keys = [signer.public for signer in all_keys(site.signing_key, Signer.from_file)]
        if not set(own_keys) & set(spec.all_signing_keys):
            faults.append(
                Fault(
                    f"parties.{party}.signing_key",
                    "is not the public key of the party's signing key",
                    f"its site's is {own_keys[0]}",
                )
            )
        elif not set(own_keys) & set(good):
            key = next(key for key in own_keys if key in spec.all_signing_keys)
            why = spec.fault_on(key, today)
            faults.append(
                Fault(
                    f"parties.{party}.signing_key",
                    f"is not valid today: {key_name(key)}, which the site has, {why}",
                    "`opboost keys renew SITE signing` makes another one",
                )
            )
    except OpBoostError as error:
        faults.append(Fault(f"{party}/site.yaml:signing_key", error.problem, error.remedy))
    try:
        private_key(site.encryption_key, spec.encryption_key)
    except OpBoostError as error:
        faults.append(Fault(f"{party}/site.yaml:encryption_key", error.problem, error.remedy))
    return faults


def key_dates(federation: Federation) -> list[str]:
    """Return printable lines with the dates of keys in the federation file.

    Args:
        federation: The federation as declared.
    """
    lines = []
    for name, spec in federation.parties.items():
        first, last = spec.signing_key_from, spec.signing_key_expires
        dates = [f"from {first}" if first else "", f"until {last}" if last else ""]
        if any(dates):
            span = " ".join(filter(None, dates))
            lines.append(f"{name}: signing key {key_name(spec.signing_key)} {span}")
        lines += [
            f"{name}: former {former.use} key {key_name(former.key)} until {former.until}"
            for former in spec.former_keys
        ]
        lines += [f"{name}: key {key_name(key)} is revoked" for key in spec.revoked_keys]
    return lines


def _table_faults(federation: Federation, parties: Parties, people: MadePeople) -> list[Fault]:
    """Return the faults that the first stages of a training and a scoring run would report."""
    faults = _faults_of_tables(federation, parties, "train", tuple(federation.parties), people)
    scored = scoring_parties(federation, parties)
    if not scored and federation.scoring.cron is None:
        return faults
    for party in scorers(federation):
        if party in parties and party not in scored:
            why = f"{', '.join(scored)} does" if scored else "scoring.cron is set"
            faults.append(
                Fault(
                    f"{party}/site.yaml:tables.{federation.name}.score",
                    f"names no table of new rows, and {why}",
                    "name the file of rows to score, or remove it everywhere",
                )
            )
    return faults + _faults_of_tables(federation, parties, "score", scored, people)


def scorers(federation: Federation) -> tuple[str, ...]:
    """Return the parties that need a table of new rows if any rows are scored.

    Args:
        federation: The federation as declared.
    """
    if federation.learning == "vertical" and federation.scoring.mode == "local":
        return (federation.label_holder,)
    return tuple(federation.parties)


def scoring_parties(federation: Federation, parties: Parties) -> tuple[str, ...]:
    """Return those of `scorers` whose ``site.yaml`` names a table of new rows.

    Args:
        federation: The federation as declared.
        parties: Context and folder of ``site.yaml`` of each party with a valid site.
    """
    return tuple(
        party
        for party in scorers(federation)
        if party in parties
        and (tables := parties[party][0].site.tables.get(federation.name))
        and tables.score is not None
    )


def _faults_of_tables(
    federation: Federation,
    parties: Parties,
    purpose: Purpose,
    whose: tuple[str, ...],
    people: MadePeople,
) -> list[Fault]:
    """Return the faults of tables for one purpose; each source is copied only once."""
    faults: list[Fault] = []
    read: list[PartyContext] = []
    with ExitStack() as stack:
        for party in whose:
            if party not in parties:
                continue
            context, folder = parties[party]
            context = replace(context, purpose=purpose)
            try:
                lent = stack.enter_context(borrowed(context))
            except OpBoostError as error:
                faults.append(table_fault(context, error))
                continue
            read.append(lent)
            if lent.home.has(PEOPLE):
                people.setdefault(party, {})[purpose] = lent.home.json(PEOPLE)
            faults += rehearse(lent, folder)
        concerned = federation.parties if purpose == "train" else scorers(federation)
        if federation.learning == "vertical" and len(read) == len(concerned) > 1:
            common = common_people(read)
            if common == 0:
                problem = f"no value of {federation.id.column} is in the tables of all parties"
                advice = "look at which column names a person, and how each party writes it"
                faults.append(Fault(f"{purpose} tables", problem, advice))
            elif common is not None:
                faults += _too_many_queries(purpose, read)
    return faults


def _too_many_queries(purpose: Purpose, read: Sequence[PartyContext]) -> list[Fault]:
    """Faults of parties whose caps are below the label holder's rows: each row is one query."""
    owner = next(reader for reader in read if reader.party == reader.federation.label_holder)
    rows = sum(block.height for block in blocks(owner, [owner.federation.id.column]))
    faults = []
    for context in read:
        rules = context.policy.alignment
        caps = {name: getattr(rules, name) for name in ("max_new_queries", "max_queries_total")}
        for name, cap in caps.items() if context is not owner else ():
            if cap is not None and cap < rows:
                problem = (
                    f"is {cap:,}, and {owner.party} queries the {rows:,} people of its {purpose} "
                    "table"
                )
                where = f"{context.party}/policy.yaml:alignment.{name}"
                faults.append(Fault(where, problem, "raise it, or narrow that table"))
    return faults


def ahead(party: LocalParty, federation: Federation) -> Iterator[str]:
    """Yield the names of notices about upcoming limits, from public facts alone.

    Args:
        party: The party.
        federation: The plan's federation.
    """
    if releases_left(party, federation) == 0:
        yield "budget_low"
    today = clock.today()
    last = last_day(party, federation)
    if last is not None and last - today <= timedelta(days=_DAYS):
        yield "key_expires"


def releases_left(party: LocalParty, federation: Federation) -> int | None:
    """Return how many yearly releases fit into the budget with the least room.

    None if no feature with a budget has ``refresh: yearly``: no other release opens by itself.

    Args:
        party: The party.
        federation: The plan's federation.
    """
    declared = declarations(federation, party.name, party.policy, party.site).values()
    with open_state(party.site) as state:
        spent = state.releases.spent()
    left = [
        max(0, int((Fraction(budget) - before) // yearly.loss)) if before < math.inf else 0
        for yearly in declared
        if yearly.refresh == "yearly" and yearly.loss
        if (budget := budget_of(party.policy, yearly.column)) is not None
        for before in [spent.get(yearly.column, Fraction(0))]
    ]
    return min(left, default=None)


def last_day(party: LocalParty, federation: Federation) -> date | None:
    """Return the last day on which a party can sign with its keys; None if unlimited.

    Args:
        party: The party.
        federation: The plan's federation.
    """
    spec = federation.parties[party.name]
    dates: list[date] = []
    own_keys = [signer.public for signer in all_keys(party.site.signing_key, Signer.from_file)]
    if spec.signing_key in own_keys:
        if spec.signing_key_expires is None:
            return None
        dates.append(spec.signing_key_expires)
    dates += [f.until for f in spec.former_keys if f.use == "signing" and f.key in own_keys]
    return max(dates, default=None)
