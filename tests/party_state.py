"""A party's state in a test's workspace."""

from contextlib import AbstractContextManager

from opboost_ops.config.site import Site
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.pipeline.stage import Home, PartyContext
from opboost_ops.privacy.ledger.entries import LedgerEntry
from tests.federation import Workspace


def state_of(workspace: Workspace, party: str) -> AbstractContextManager[PartyState]:
    """Ledger, pins and audit log of a party."""
    return open_state(workspace.site(party))


def entries_of(workspace: Workspace, party: str) -> list[LedgerEntry]:
    """Entries of a party's ledger."""
    with state_of(workspace, party) as state:
        return state.ledger.entries()


def context_of(workspace: Workspace, party: str) -> PartyContext:
    """What a stage of a party's may use."""
    site, policy = workspace.site(party), workspace.policy(party)
    home = Home(workspace.home(party))
    return PartyContext(workspace.declared, workspace.run, party, site, policy, home)


def forget(site: Site, person: str | int) -> None:
    """Put a person on a party's list of the forgotten."""
    with open_state(site) as state:
        state.forgotten.add([state.forgotten.hashed(person)])


def edit_agreement(site: Site, old: str, new: str) -> None:
    """Change the text of all agreements in a party's database, as somebody with its file can."""
    with open_state(site) as state, state.database.writing() as connection:
        rows = connection.exec_driver_sql("SELECT number, content FROM agreements").all()
        for number, content in rows:
            assert old in content
            content = content.replace(old, new, 1)
            connection.exec_driver_sql(
                "UPDATE agreements SET content = ? WHERE number = ?", (content, number)
            )


def pin_files(state: PartyState) -> dict[str, bytes]:
    """The files to which a party's database points, by name."""
    names = [one.pins.name for one in state.releases.all() if one.pins]
    folder = state.pins.folder
    return {name: (folder / name).read_bytes() for name in sorted(names)}
