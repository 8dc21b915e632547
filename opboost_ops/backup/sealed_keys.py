"""A party's keys in a file of their own, encrypted by a passphrase or to a public key.

Whoever has the noise secret can undo the party's noise, for the past as well. So the keys are
never in a backup, and this file is to lie where the backups do not.

Passphrase: scrypt (RFC 7914) with N = 2^17, r = 8, p = 1, which takes 128 MiB. Public key: X25519
with an ephemeral key, and HKDF-SHA256 over both. Either gives a key for AES-256-GCM, which binds
the head.
"""

import base64
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from pydantic import Field, ValidationError

from opboost_ops.config.schema import Name, Record
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.encryption import PrivateKey, key_name
from opboost_ops.exchange.key_files import write_private
from opboost_ops.mechanisms import noise

_COST, _BLOCKS, _LANES = 2**17, 8, 1

#: Fewest characters of a passphrase: the file is to be found by others, and tried for years.
LEAST = 12

#: Most bytes that are read of a file.
_LIMIT = 2**20


class _Head(Record):
    """What is readable of the file: how it is opened, and whose it is."""

    version: Literal[1] = 1
    party: Name
    to: str
    salt: str
    nonce: str


class _File(Record):
    head: _Head
    content: str = Field(max_length=_LIMIT)


@dataclass(frozen=True)
class PartyKeys:
    """A party's keys.

    Attributes:
        party: Whose.
        files: Contents by the name that ``site.yaml`` has for each, a former key as
            ``NAME.until-...``; keys that the site does not keep in files are not among them.
    """

    party: str
    files: dict[str, bytes]

    @property
    def secret(self) -> noise.Secret | None:
        """The noise secret; None where the site does not keep it in a file, or it is none."""
        return noise.parse_secret(self.files.get("secret", b""))


def keys_of(site: Site) -> PartyKeys:
    """The keys that a site keeps in files, former ones too.

    Args:
        site: The party's.

    Raises:
        ConfigError: The noise secret is missing or damaged.
    """
    site.noise_secret()
    found: dict[str, bytes] = {}
    for name, path in _places(site).items():
        for file in [path, *sorted(path.parent.glob(f"{path.name}.until-*"))]:
            if file.is_file():
                found[name + file.name.removeprefix(path.name)] = file.read_bytes()
    return PartyKeys(site.party, found)


def require_same(site: Site, keys: PartyKeys) -> None:
    """Refuse keys at whose places others lie.

    Args:
        site: The party's.
        keys: Its keys.

    Raises:
        ConfigError: Saying which.
    """
    wanted = _wanted(site, keys)
    other = [p.name for p, content in wanted.items() if p.exists() and p.read_bytes() != content]
    if other:
        raise ConfigError(
            f"{', '.join(other)} of {site.party} is another key than the one in the keys file.",
            "Move it away if the one in the file is meant. Nothing was changed.",
        )


def put_back(site: Site, keys: PartyKeys) -> list[Path]:
    """Write the keys that a site lacks; a file that is there is never changed.

    Args:
        site: The party's.
        keys: Its keys.

    Returns:
        The files that were written.
    """
    wanted = _wanted(site, keys)
    made = [path for path in wanted if not path.exists()]
    for path in made:
        write_private(path, wanted[path])
    return made


def write_keys(
    keys: PartyKeys, target: Path, *, passphrase: str | None = None, to: str | None = None
) -> None:
    """Write them into one file, encrypted.

    Args:
        keys: What to write.
        target: The file; it must not be there yet.
        passphrase: By which it can be opened.
        to: Instead of one: the X25519 public key whose other half opens it, base64.

    Raises:
        ConfigError: The file is there, the passphrase is short, or the public key is none.
    """
    if target.exists():
        raise ConfigError(
            f"{target.name} is there already; nothing was written.", "Name another file."
        )
    salt, nonce = secrets.token_bytes(32), secrets.token_bytes(12)
    if to is not None:
        ephemeral = X25519PrivateKey.generate()
        salt = ephemeral.public_key().public_bytes_raw()
        key = _shared(ephemeral, to, salt)
        name = key_name(to)
    else:
        if passphrase is None or len(passphrase) < LEAST:
            raise ConfigError(
                f"The passphrase has fewer than {LEAST} characters; nothing was written.",
                "Take a longer one: whoever finds the file may try for years.",
            )
        key, name = _stretched(passphrase, salt), ""
    head = _Head(party=keys.party, to=name, salt=_text(salt), nonce=_text(nonce))
    plain = json.dumps({name: _text(raw) for name, raw in keys.files.items()}).encode()
    sealed = AESGCM(key).encrypt(nonce, plain, head.model_dump_json().encode())
    file = _File(head=head, content=_text(sealed))
    write_private(target, file.model_dump_json(indent=1).encode())


def read_keys(
    source: Path, *, passphrase: str | None = None, private: PrivateKey | None = None
) -> PartyKeys:
    """Read a file that `write_keys` wrote.

    Args:
        source: The file.
        passphrase: By which it was encrypted.
        private: Instead of one: the private key to whose other half it was encrypted.

    Raises:
        ConfigError: It is no such file, or opens in another way; nothing was changed.
    """
    file: _File | None = None
    with suppress(OSError, ValueError, ValidationError, RecursionError):
        file = _File.model_validate_json(source.read_bytes())
    if file is None:
        raise ConfigError(f"{source.name} is no file of a party's keys, or is damaged.")
    head = file.head
    with suppress(InvalidTag, ValueError, TypeError):
        salt = base64.b64decode(head.salt, validate=True)
        if head.to and private is not None:
            key = _derived(private.shared(head.salt), salt, base64.b64decode(private.public))
        elif not head.to and passphrase is not None:
            key = _stretched(passphrase, salt)
        else:
            how = f"the private half of the key {head.to}" if head.to else "a passphrase"
            raise ConfigError(f"{source.name} opens with {how}.", "Nothing was changed.")
        sealed, nonce = base64.b64decode(file.content), base64.b64decode(head.nonce)
        plain = AESGCM(key).decrypt(nonce, sealed, head.model_dump_json().encode())
        found = {name: base64.b64decode(text) for name, text in json.loads(plain).items()}
        return PartyKeys(head.party, found)
    raise ConfigError(
        f"{source.name} does not open with this, or was edited.", "Nothing was changed."
    )


def _places(site: Site) -> dict[str, Path]:
    """Where the site keeps each key; those of the environment are kept elsewhere."""
    names = ("secret", "signing_key", "encryption_key", "alignment_key")
    paths: dict[str, Path] = {name: getattr(site, name) for name in names}
    return {name: path for name, path in paths.items() if path.is_absolute()}


def _wanted(site: Site, keys: PartyKeys) -> dict[Path, bytes]:
    """Where each key belongs at a site."""
    found: dict[Path, bytes] = {}
    places = _places(site)
    for name, content in keys.files.items():
        known, dot, end = name.partition(".")
        if known in places and "/" not in end:
            found[places[known].with_name(places[known].name + dot + end)] = content
    return found


def _stretched(passphrase: str, salt: bytes) -> bytes:
    scrypt = Scrypt(salt=salt, length=32, n=_COST, r=_BLOCKS, p=_LANES)
    return scrypt.derive(passphrase.encode())


def _shared(ephemeral: X25519PrivateKey, to: str, salt: bytes) -> bytes:
    with suppress(ValueError):
        receiver = base64.b64decode(to, validate=True)
        shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(receiver))
        return _derived(shared, salt, receiver)
    raise ConfigError(
        "That is no X25519 public key; nothing was written.",
        "`opboost keys init` in a folder of its own makes a pair.",
    )


def _derived(shared: bytes, ephemeral: bytes, receiver: bytes) -> bytes:
    info = b"opboost:keys-file:" + ephemeral + receiver
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(shared)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
