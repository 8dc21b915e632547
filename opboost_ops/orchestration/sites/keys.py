"""The folders of keys that the coordinator and each site get."""

import base64
import json
import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from opboost_ops.errors import ConfigError
from opboost_ops.exchange.key_files import write_private
from opboost_ops.orchestration.sites.certificates import PARTY, Authority

#: Folders that are not a party's.
_OWN = ("authority", "coordinator")

#: What coordinator and sites share: it signs calls of the Edge API, and nothing else.
_SHARED = "edge.secret"


def write_sites(
    out: Path, parties: Sequence[str], hosts: Sequence[str] = (), days: int = 397
) -> list[Path]:
    """Make what is not there yet: authority, coordinator's keys, and a folder for each party.

    ``authority`` stays with the operator who admits parties, ``coordinator`` goes to the
    coordinator, and ``<party>`` to that party. Files are readable by their owner alone.

    Args:
        out: The folder of all these.
        parties: Parties as the federation files name them.
        hosts: Names or addresses by which sites call the proxy; needed the first time.
        days: How long certificates are valid.

    Returns:
        The folders that were made.

    Raises:
        ConfigError: A party has its folder already, or is called as no party can be, or the
            proxy's name is missing.
    """
    if wrong := [party for party in parties if party in _OWN or not PARTY.fullmatch(party)]:
        raise ConfigError(
            f"{', '.join(wrong)} cannot be a party here.",
            "Use the name that the federation file gives: a-z, 0-9 and _.",
        )
    folders = [out / party for party in parties]
    if known := [folder.name for folder in folders if (folder / "client.pem").exists()]:
        raise ConfigError(
            f"{', '.join(known)} have a certificate in {out.name}; nothing was made.",
            "To renew one, move its client.pem away first.",
        )
    coordinator = out / "coordinator"
    certified = (coordinator / "server.pem").exists()
    if not certified and not hosts:
        raise ConfigError(
            "The coordinator's proxy has no certificate yet.",
            "Say by --host under which names or addresses sites call it.",
        )
    authority = Authority(out / "authority")
    if not certified:
        authority.issue_proxy(coordinator, hosts, days)
    _write_coordinator(coordinator)
    for folder in folders:
        authority.issue_site(folder, folder.name, days)
        _once(folder / _SHARED, (coordinator / _SHARED).read_bytes())
    return [*([] if certified else [coordinator]), *folders]


def _write_coordinator(folder: Path) -> None:
    _once(folder / "database.password", secrets.token_hex(24).encode())
    password = (folder / "database.password").read_text()
    url = f"postgresql+psycopg2://airflow:{password}@postgres/airflow"
    _once(folder / "database.url", url.encode())
    # Of Airflow's simple login.
    _once(folder / "passwords.json", json.dumps({"admin": secrets.token_urlsafe(12)}).encode())
    _once(folder / "fernet.key", base64.urlsafe_b64encode(secrets.token_bytes(32)))
    _once(folder / _SHARED, secrets.token_urlsafe(48).encode())
    # It signs task tokens and logins, and nobody else has it.
    token_key = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _once(folder / "token.key", token_key)


def _once(path: Path, content: bytes) -> None:
    if not path.exists():
        write_private(path, content)
