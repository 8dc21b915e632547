"""What a topology remembers about itself, in files of root's own."""

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence

from pydantic import Field

from opboost_ops.config.schema import Record
from opboost_ops.orchestration.parties.places import Places, write
from opboost_ops.orchestration.processes import free_port


class Secrets(Record):
    """Passwords and keys; none but the first of `redis` leaves the coordinator.

    Attributes:
        redis: Each party's password for its own queue.
        broker: The coordinator's password for Redis.
        database: The password of PostgreSQL.
        tokens: Signs the tokens of tasks and of people.
        pages: Signs the sessions of the API server.
        fernet: Encrypts Connections and Variables in the database.
        admin: The password for the Airflow UI.
    """

    redis: Mapping[str, str]
    broker: str
    database: str
    tokens: str
    pages: str
    fernet: str
    admin: str


class Ports(Record):
    """Ports on 127.0.0.1, chosen anew whenever the topology starts."""

    database: int
    broker: int
    api: int


class State(Record):
    """What runs.

    Attributes:
        ports: Where the servers listen.
        environment: Folder of the Python environment.
        parties: All parties.
        sessions: The process that leads each component's session.
    """

    ports: Ports
    environment: str
    parties: tuple[str, ...]
    sessions: Mapping[str, int] = Field(default_factory=dict)


def read_secrets(places: Places, parties: Sequence[str]) -> Secrets:
    """The topology's secrets; what is missing is made.

    Args:
        places: Where they lie.
        parties: Who has a queue.
    """
    old = places.secrets.exists()
    known = Secrets.model_validate_json(places.secrets.read_bytes()) if old else new_secrets()
    redis = {party: known.redis.get(party) or _password() for party in parties}
    found = known.model_copy(update={"redis": redis})
    if not old or found != known:
        write(places.secrets, found.model_dump_json())
    return found


def new_secrets(parties: Sequence[str] = ()) -> Secrets:
    """Fresh passwords and keys.

    Args:
        parties: Who has a queue.
    """
    return Secrets(
        redis={party: _password() for party in parties},
        broker=_password(),
        database=_password(),
        tokens=_password(),
        pages=_password(),
        fernet=urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        admin=_password(),
    )


def read_state(places: Places) -> State | None:
    """What ran when it was last written down."""
    if not places.state.exists():
        return None
    return State.model_validate_json(places.state.read_bytes())


def write_state(places: Places, state: State) -> None:
    """Write down what runs."""
    write(places.state, state.model_dump_json())


def new_ports() -> Ports:
    """Three free ports."""
    found: set[int] = set()
    while len(found) < 3:
        found.add(free_port())
    database, broker, api = found
    return Ports(database=database, broker=broker, api=api)


def _password() -> str:
    return secrets.token_urlsafe(24)
