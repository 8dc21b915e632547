"""All checks of some places."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from opboost_ops.verifier.champion_promises import check_champion
from opboost_ops.verifier.holder_promises import check_holder
from opboost_ops.verifier.outcomes import DAMAGED, Check, Outcome
from opboost_ops.verifier.party_promises import OwnSide, check_charges, check_party
from opboost_ops.verifier.party_state import PartyState, read_state
from opboost_ops.verifier.places import Party, Run, copied, find_places, read_store
from opboost_ops.verifier.plans import Plan
from opboost_ops.verifier.store_promises import check_store


def verify(places: Sequence[str | Path]) -> list[Outcome]:
    """Check every promise that can be checked from some places.

    Args:
        places: Folders, or URLs of stores, which are copied to a temporary folder.

    Returns:
        One outcome per store and per party.

    Raises:
        CannotBeginError: A place is none of these.
    """
    sorted_places = find_places(places)
    declared = {
        name: federation["parties"] for name, federation in sorted_places.federations.items()
    }
    outcomes = []
    with TemporaryDirectory() as temporary:
        runs = {}
        for number, store in enumerate(sorted_places.stores):
            outcome = Outcome(f"store {store.rstrip('/').rpartition('/')[2]}")
            try:
                runs[store] = read_store(copied(store, Path(temporary, str(number))))
                outcome = check_store(outcome.place, runs[store], declared)
            except OSError:
                outcome.promise(_store).run([(None, "read access to the store")])
            outcomes.append(outcome)
        outcomes += [
            _check_one(party, runs.get(party.store, [])) for party in sorted_places.parties
        ]
    return outcomes


def _store() -> Iterator[Check]:
    """The store can be read."""
    return iter(())


def _check_one(party: Party, runs: list[Run]) -> Outcome:
    outcome = Outcome(f"party {party.name}")
    promise = outcome.promise(_database)
    if party.database is None:
        promise.run([(None, "its database in a SQLite file")])
        return outcome
    try:
        state = read_state(party.database)
    except DAMAGED:
        promise.run([(False, "it cannot be read")], party.database.name)
        return outcome
    promise.run(_database(party, state), party.database.name)
    own = OwnSide(party, state, _of_party(party.name, runs))
    check_party(outcome, own)
    if any(party.name in plan.feature_holders for _, plan in own.runs) or state.releases:
        check_charges(outcome, own)
        check_holder(outcome, own)
    if any(party.name == plan.label_holder or plan.is_horizontal for _, plan in own.runs):
        check_champion(outcome, own)
    return outcome


def _database(party: Party, state: PartyState) -> Iterator[Check]:
    """The database is the party's, and can be read."""
    yield state.party == party.name, "of another party"


def _of_party(name: str, runs: list[Run]) -> list[tuple[Run, Plan]]:
    """The runs that a party takes part in; a damaged plan is a fault of the store's outcome."""
    pairs = []
    for run in runs:
        for artifact in [a for a in run.artifacts.values() if a.kind == "plan"][:1]:
            try:
                plan = Plan.read(artifact)
                if name in plan.parties:
                    pairs.append((run, plan))
            except DAMAGED:
                continue
    return pairs
