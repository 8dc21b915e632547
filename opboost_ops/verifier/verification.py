"""All checks of some places."""

from pathlib import Path

from opboost_ops.verifier.champion_promises import check_champion
from opboost_ops.verifier.holder_promises import check_holder
from opboost_ops.verifier.outcomes import DAMAGED, Outcome
from opboost_ops.verifier.party_promises import OwnSide, check_charges, check_party
from opboost_ops.verifier.party_state import read_state
from opboost_ops.verifier.places import Party, find_places
from opboost_ops.verifier.plans import Plan
from opboost_ops.verifier.store_promises import check_store
from opboost_ops.verifier.stores import Run, read_store


def verify(places: list[Path]) -> list[Outcome]:
    """Check every promise that can be checked from some places.

    Returns:
        One outcome per store and per party.

    Raises:
        CannotBeginError: A place is none of these.
    """
    found = find_places(places)
    declared = {name: federation["parties"] for name, federation in found.federations.items()}
    outcomes = []
    for folder in found.stores:
        outcomes.append(check_store(f"store {folder.name}", read_store(folder), declared))
    outcomes += [_check_one(party) for party in found.parties]
    return outcomes


def _check_one(party: Party) -> Outcome:
    outcome = Outcome(f"party {party.name}")
    promise = outcome.promise("database", "The database is the party's, and can be read.")
    if party.database is None:
        promise.run([(None, "its database in a SQLite file")])
        return outcome
    try:
        state = read_state(party.database)
    except DAMAGED:
        promise.run([(False, "it cannot be read")], party.database.name)
        return outcome
    promise.run([(state.party == party.name, "of another party")], party.database.name)
    runs = read_store(party.store) if party.store and party.store.is_dir() else []
    own = OwnSide(party, state, _of_party(party.name, runs))
    check_party(outcome, own)
    if any(party.name in plan.feature_holders for _, plan in own.runs) or state.releases:
        check_charges(outcome, own)
        check_holder(outcome, own)
    if any(party.name == plan.label_holder for _, plan in own.runs):
        check_champion(outcome, own)
    return outcome


def _of_party(name: str, runs: list[Run]) -> list[tuple[Run, Plan]]:
    """The runs that a party takes part in; a damaged plan is a fault of the store's outcome."""
    found = []
    for run in runs:
        for artifact in [a for a in run.artifacts.values() if a.kind == "plan"][:1]:
            try:
                plan = Plan.read(artifact)
                if name in plan.parties:
                    found.append((run, plan))
            except DAMAGED:
                continue
    return found
