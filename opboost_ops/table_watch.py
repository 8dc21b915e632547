"""Whether a party's table has changed since it was last told: assets do not watch files."""

import hashlib

from opboost_ops.config.loading import site_of
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.mechanisms import noise
from opboost_ops.privacy.events import Release
from opboost_ops.publication import enter
from opboost_ops.stages.stage import Home

_SEEN = "table_version"

DISCLOSES = "that the party's table has changed (a bit whenever it is looked at)"


def changed(party: str, federation: str, look: str) -> bool:
    """Whether the table's keyed fingerprint is another one than at the last look.

    Args:
        party: Whose table.
        federation: Name of the federation.
        look: Name of this look: a retry of the same one gives the same answer.

    Raises:
        ConfigError: ``site.yaml`` names no table for the federation.
        ContractError: The table cannot be read.
    """
    site, _ = site_of(party)
    tables = site.tables.get(federation)
    if tables is None:
        raise ConfigError(
            f"site.yaml of {party} names no table for {federation}.",
            f"Add tables.{federation}.train.",
        )
    digest: bytes | None = None
    try:
        with open(tables.train, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError:
        digest = None
    if digest is None:
        raise ContractError(
            f"The table of {party} cannot be read.",
            "Look at tables in its site.yaml, and at the job that writes the file.",
        )
    key = noise.receiver_secret(site.noise_secret(), ":table")
    fingerprint = hashlib.blake2b(digest, key=key, digest_size=16).hexdigest()
    home = Home(site.home / federation)
    seen = home.json(_SEEN) if (home.folder / f"{_SEEN}.json").is_file() else {}
    if seen.get("fingerprint") == fingerprint:
        return bool(seen.get("look") == look)
    line = Release(
        federation=federation,
        run="",
        party=party,
        receiver="everyone who sees the run",
        kind="look_at_table",
        artifact=hashlib.sha256(f"{federation}/{party}/{look}/table".encode()).hexdigest(),
        account="exact",
        rows=0,
        discloses=DISCLOSES,
    )
    enter(site, line)
    home.write_json(_SEEN, {"fingerprint": fingerprint, "look": look})
    return True
