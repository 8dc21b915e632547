"""The key of a session: drawn once, kept at home for retries, gone when the session has ended."""

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from opboost_ops.errors import ContractError
from opboost_ops.exchange.party_state import PartyState
from opboost_ops.learning.private.noise import fresh_key
from opboost_ops.pipeline.stage import Home
from opboost_ops.privacy.ledger.sessions import name_of
from opboost_ops.tables.spill.files import whole_file

_FILE = "session.json"


@dataclass(frozen=True)
class SessionKeys:
    """What a party keeps of a session.

    Attributes:
        key: Its key, 32 bytes; None once the session has ended, so that it is only read again.
        decisions: The key of the decisions, once the session has ended.
    """

    key: bytes | None
    decisions: bytes | None = None


def open_session(state: PartyState, federation: str, run: str, home: Home) -> SessionKeys:
    """The key of a run's session: a new one, or at a retry the same.

    The file comes before the ledger's line: after a crash in between nothing was sent, and the file
    counts. From then on a home without the key of a session that the ledger knows was removed.

    Args:
        state: The party's.
        federation: The federation's name.
        run: The run's id.
        home: The party's private folder for the run.

    Returns:
        Its keys.

    Raises:
        ContractError: The session was removed at this party. What it kept of the vectors that it
            sent is gone, so nothing more can be sent in it.
    """
    with state.together():
        known = state.sessions.find(federation, run)
        kept = _read(home.folder / _FILE)
        if known is None:
            key = (kept and kept[1]) or _draw(home.folder / _FILE)
            state.sessions.begin(federation, run, key)
            return SessionKeys(key)
    name, key_or_none, _ = kept or ("", None, None)
    if name == known.name and known.ended_at is not None:
        return SessionKeys(None, kept and kept[2])
    if name != known.name or key_or_none is None:
        raise _removed()
    return SessionKeys(key_or_none)


def end_session(
    state: PartyState, federation: str, run: str, home: Home, decisions: bytes | None
) -> None:
    """Note that a session has ended, and destroy its key: no later leak takes its masks off.

    Args:
        state: The party's.
        federation: The federation's name.
        run: The run's id.
        home: The party's private folder for the run.
        decisions: The key of the decisions, which tell no more than the model that lies beside.
    """
    state.sessions.end(federation, run)
    known = state.sessions.find(federation, run)
    assert known is not None
    kept = {"name": known.name, "key": None, "decisions": decisions and decisions.hex()}
    home.write(_FILE, json.dumps(kept).encode())


def _removed() -> ContractError:
    return ContractError(
        "The rounds of this run took place before, and this party's session was removed: a "
        "session never takes place twice.",
        "Trigger a new run.",
    )


def _read(path: Path) -> tuple[str, bytes | None, bytes | None] | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(path.read_bytes())
        key = None if kept["key"] is None else bytes.fromhex(kept["key"])
        if key is None or name_of(key) == kept["name"]:
            decisions = kept.get("decisions")
            return str(kept["name"]), key, bytes.fromhex(decisions) if decisions else None
    return None


def _draw(path: Path) -> bytes:
    key = fresh_key()
    with whole_file(path) as file:
        file.write(json.dumps({"name": name_of(key), "key": key.hex()}).encode())
    return key
