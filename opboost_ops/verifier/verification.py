"""The entry point, and the list of all checks: each promise with the things it is checked on."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from opboost_ops.verifier import champion_promises, holder_promises, party_promises, store_promises
from opboost_ops.verifier.outcomes import READ_ERRORS, Check, Checks, NotCheckableError, Outcome
from opboost_ops.verifier.party_promises import OwnRecords
from opboost_ops.verifier.party_state import PartyState
from opboost_ops.verifier.places import Artifacts, Party, Places, local_copy, read_store
from opboost_ops.verifier.plans import RELEASES, Plan


def verify(places: Sequence[str | Path]) -> list[Outcome]:
    """Check every promise that can be checked from the given folders and store URLs.

    A store with a URL is first copied to a temporary folder.

    Raises:
        InvalidPlaceError: A place is neither a federation's, a party's nor a store's.
    """
    everything = Places(places)
    outcomes, plans = [], dict[str, list[Plan]]()
    with TemporaryDirectory() as temporary:
        for number, store in enumerate(everything.stores):
            name = store.rstrip("/").rpartition("/")[2]
            try:
                folder = local_copy(store, Path(temporary, str(number)))
                runs = read_store(folder)
            except OSError:
                outcomes.append(Outcome(f"store {name}").check([(check_store, [("", ())])]))
                continue
            plans[store] = []
            for artifacts in runs.values():
                with suppress(*READ_ERRORS):  # `check_plan` reports damaged plans.
                    plans[store].append(Plan.read(artifacts))
            checks = _store_checks(folder, runs, plans[store], everything.federations)
            outcomes.append(Outcome(f"store {name}").check(checks))
        for party in everything.parties.values():
            checks = _party_checks(party, plans.get(party.store, []))
            outcomes.append(Outcome(f"party {party.name}").check(checks))
    return outcomes


def check_store() -> Iterator[Check]:
    """The store is readable."""
    yield None, "read access to the store"


def check_database(party: Party, own: OwnRecords | None) -> Iterator[Check]:
    """The database is readable and belongs to the party."""
    if party.database is None:
        raise NotCheckableError("the database in a SQLite file")
    yield own is not None, "it cannot be read"
    yield own is None or own.state.party == party.name, "it belongs to another party"


def _read_own_records(party: Party, plans: Sequence[Plan]) -> OwnRecords | None:
    own_plans = [plan for plan in plans if party.name in plan.parties]
    with suppress(*READ_ERRORS):
        return OwnRecords(party, PartyState(party.database), own_plans) if party.database else None
    return None


def _store_checks(
    folder: Path,
    runs: Mapping[str, Artifacts],
    plans: Sequence[Plan],
    federations: Mapping[str, Mapping[str, Any]],
) -> Iterator[Checks]:
    """Checks for anyone who can read the store; ``federations`` are known files by name."""
    yield store_promises.check_plan, [(run, (artifacts,)) for run, artifacts in runs.items()]
    yield store_promises.check_keys, [(plan.run, (plan, federations)) for plan in plans]
    yield store_promises.check_strays, [("", (folder, runs))]
    every = [(a.place, (a, plan)) for plan in plans for a in plan.artifacts.values()]
    for check in store_promises.ARTIFACT_CHECKS:
        yield check, every
    states: store_promises.States = {}
    yield store_promises.check_checkpoints, [(place, (*each, states)) for place, each in every]


def _party_checks(party: Party, plans: Sequence[Plan]) -> Iterator[Checks]:
    """Checks for a party that has its own folder."""
    own = _read_own_records(party, plans)
    yield check_database, [("database", (party, own))]
    if own is None:
        return
    state = own.state

    def published(*kinds: str) -> list[tuple[str, tuple[Any, ...]]]:
        return [(a.place, (own, a, plan)) for a, plan in own.published if a.kind in kinds]

    yield party_promises.check_audit, [("audit log", (own,))]
    plans_used = {plan.run: (own, plan) for _, plan in own.published}
    yield party_promises.check_agreement, plans_used.items()
    every = [(a.place, (own, a, plan)) for a, plan in own.published]
    yield party_promises.check_ledger, every
    yield party_promises.check_state, every
    yield party_promises.check_history, [("checkpoints", (own,))]
    if own.lost:
        yield party_promises.check_recovered, [(a.place, (own, a, plan)) for a, plan in own.lost]
    received = [(a, plan) for a, plan in own.artifacts if plan.receiver(a) == party.name]
    if received:
        yield party_promises.check_received, [(a.place, (own, a, p)) for a, p in received]
    if any(party.name in plan.feature_holders for plan in own.plans) or state.releases:
        yield party_promises.check_releases, published(*RELEASES)
        yield party_promises.check_charges, [("ledger", (own,))]
        yield party_promises.check_budgets, [("ledger", (own,))]
        yield party_promises.check_queries, [("queries", (own,))]
        yield holder_promises.check_pins, [("pins", (own,))]
        if state.forgotten:
            yield holder_promises.check_forgotten, [("pins", (own,))]
        yield holder_promises.check_responses, published(*RELEASES, "routes", "shares")
        yield holder_promises.check_splits, published("split_values")
        yield holder_promises.check_answers, published("psi_answer")
    if any(party.name == plan.label_holder or plan.is_horizontal for plan in own.plans):
        trained = [plan for plan in own.plans if plan.document["purpose"] == "train"]
        versions = [champion_promises.Version(own, plan) for plan in trained]
        versions = [version for version in versions if version.folder.is_dir()]
        registered = [(version.plan.run, (version,)) for version in versions]
        yield champion_promises.check_versions, registered
        yield champion_promises.check_champion, registered
        yield champion_promises.check_model, registered
        vertical = [(v.plan.run, (v,)) for v in versions if not v.plan.is_horizontal]
        yield champion_promises.check_thresholds, vertical
        yield champion_promises.check_card, registered
        yield champion_promises.check_metrics, registered
        yield champion_promises.check_gate, registered
        champions = [(v.plan.run, (v,)) for v in versions if v.is_champion]
        if state.forgotten and champions:
            yield champion_promises.check_forgotten, champions
