"""``agreement.json``: what a party has agreed to, as it lies at its site, sealed.

The seal's key follows from the party's noise secret, so that a file that was edited by hand, or is
another party's, is refused.
"""

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from opboost_ops.config.declared_map import canonical
from opboost_ops.config.schema import Name, Record
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms import noise

#: Most bytes that are read of the file.
_LIMIT = 256 * 2**20


class Agreed(Record):
    """One agreement.

    Attributes:
        number: Counted at this party, over all its federations.
        federation: The federation's name.
        at: When the party agreed, UTC, to the second.
        digest: Of the content.
        content: What was agreed; see `config.agreement.document`.
        withdrawn: When the party withdrew it; None as long as it stands.
    """

    number: int = Field(ge=1)
    federation: Name
    at: str
    digest: str
    content: Mapping[str, Any]
    withdrawn: str | None = None


class Agreements(Record):
    """All that a party has agreed to.

    Attributes:
        version: Of this format.
        party: Whose.
        agreements: By rising number.
        columns: By column UUID, what its first agreement says of the way from a raw cell to an
            integer; version 1 of the map's digest holds as long as that does not change.
    """

    version: Literal[1] = 1
    party: Name
    agreements: tuple[Agreed, ...] = ()
    columns: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)

    def of(self, federation: str) -> tuple[Agreed, ...]:
        """The agreements of one federation, withdrawn ones too, by rising number."""
        return tuple(a for a in self.agreements if a.federation == federation)

    def newest(self, federation: str) -> Agreed | None:
        """What training plans of a federation must bear; None if it was withdrawn."""
        found = self.of(federation)
        return found[-1] if found and found[-1].withdrawn is None else None

    def standing(self, federation: str, digest: str) -> Agreed | None:
        """The newest agreement of a digest that was not withdrawn."""
        found = [a for a in self.of(federation) if a.digest == digest and a.withdrawn is None]
        return found[-1] if found else None


def load(site: Site) -> Agreements:
    """What a party has agreed to; nothing if there is no file.

    Args:
        site: The party's.

    Raises:
        ConfigError: The file was changed by hand, or is damaged.
    """
    try:
        if site.agreement.stat().st_size > _LIMIT:
            raise _damaged(site)
        raw = site.agreement.read_bytes()
    except FileNotFoundError:
        return Agreements(party=site.party)
    except OSError:
        raw = b""
    try:
        data = json.loads(raw)
        seal = data.pop("seal")
        if isinstance(seal, str) and hmac.compare_digest(seal, _seal(site.noise_secret(), data)):
            found = Agreements.model_validate(data)
            if found.party == site.party:
                return found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError):
        pass
    raise _damaged(site)


def seal_of(site: Site) -> str:
    """A name of the file as it is now; empty if there is none."""
    if not site.agreement.is_file():
        return ""
    return hashlib.sha256(site.agreement.read_bytes()).hexdigest()


def sealed(book: Agreements, secret: bytes) -> bytes:
    """The file's bytes under a noise secret: a rotated secret needs another seal.

    Args:
        book: What it says.
        secret: The party's noise secret.
    """
    data = book.model_dump(mode="json")
    return json.dumps({**data, "seal": _seal(secret, data)}, sort_keys=True, indent=1).encode()


def replace(path: Path, content: bytes) -> None:
    """Write the file, whole or not at all, readable by its owner alone."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _seal(secret: bytes, data: Any) -> str:
    return hmac.new(noise.agreement_key(secret), canonical(data), hashlib.sha256).hexdigest()


def _damaged(site: Site) -> ConfigError:
    return ConfigError(
        f"{site.agreement.name} of {site.party} was changed outside this software, or sealed under "
        "another noise secret: it is refused.",
        "Restore it from a copy; `opboost agree` alone writes it.",
    )
