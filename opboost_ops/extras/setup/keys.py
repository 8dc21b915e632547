"""Making, showing and renewing a party's keys, and pinning receivers' keys."""

import base64
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from opboost_ops.config.federation import Federation
from opboost_ops.config.key_sources import is_file_entry
from opboost_ops.config.loading import POLICY, load_policy, load_site
from opboost_ops.config.public_keys import KeyUse, fingerprint
from opboost_ops.config.schema import Name, PublicKey
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.encryption import (
    PrivateKey,
    all_keys,
    key_name,
    new_encryption_key,
)
from opboost_ops.exchange.party_state import agreements_of
from opboost_ops.exchange.signing import Signer, new_signing_key
from opboost_ops.extras.datasets.workspace import make_private, write_encryption_key, write_keys
from opboost_ops.mechanisms import noise
from opboost_ops.privacy.consent.agreements import unpinned_receiver
from opboost_ops.tables.spill.files import replace_text, whole_file

_UNNAMED = "unnamed"


def make_keys(folder: Path) -> dict[str, str]:
    """Make noise secret, signing key and encryption key of a new party.

    Args:
        folder: Folder of the party's ``site.yaml``, which need not exist yet.

    Returns:
        The public keys as the federation file names them.

    Raises:
        ConfigError: A key exists already; nothing was made.
    """
    keys = folder / "keys"
    names = ["noise.secret", "signing.key", "encryption.key"]
    existing = [name for name in names if (keys / name).exists()]
    if existing:
        raise ConfigError(
            f"keys/{', keys/'.join(existing)} exist already; nothing was made.",
            "A different secret would give people other hashes, so that no pin would be found.",
        )
    public = write_keys(keys)
    make_private(folder)
    return public


def show_keys(folder: Path) -> dict[str, str | list[str]]:
    """Return a party's public keys, and the fingerprints of all keys.

    Args:
        folder: Folder of the party's ``site.yaml``; without that file, keys are expected where
            `make_keys` writes them.

    Raises:
        ConfigError: A key is missing or cannot be read.
    """
    site = _site(folder)
    signing, *former = (s.public for s in all_keys(site.signing_key, Signer.from_file))
    shown: dict[str, str | list[str]] = {}
    if site.party != _UNNAMED:
        shown["party"] = site.party
    encryption = None
    shown |= {"signing_key": signing}
    if site.encryption_key.exists() or not is_file_entry(site.encryption_key):
        keys = all_keys(site.encryption_key, PrivateKey.from_file)
        encryption, *opening = (key.public for key in keys)
        former += opening
        shown["encryption_key"] = encryption
    shown["fingerprint"] = fingerprint(signing, encryption)
    shown["noise_secret_fingerprint"] = noise.fingerprint(site.read_secret())
    if former:
        shown["former_keys"] = former
    return shown


def _site(folder: Path) -> Site:
    if (folder / "site.yaml").is_file() or not (folder / "keys").is_dir():
        return load_site(folder / "site.yaml")
    site = Site(version=1, party=_UNNAMED, store="")
    places = ("secret", "signing_key", "encryption_key")
    return site.model_copy(update={name: folder / getattr(site, name) for name in places})


def renew_key(folder: Path, use: KeyUse, today: date, until: date | None) -> Iterator[str]:
    """Replace a key by a new one, and keep the old one beside it.

    A party without an encryption key gets its first one.

    Args:
        folder: Folder of the party's ``site.yaml``.
        use: The use of the key.
        today: First day on which the new key is valid.
        until: Last day on which the old key is valid; None if it is revoked.

    Yields:
        The lines of the party's entry in the federation file, then instructions.

    Raises:
        ConfigError: The key is not in a file, or cannot be read; nothing was made.
    """
    site = load_site(folder / "site.yaml")
    signs = use == "signing"
    path = site.signing_key if signs else site.encryption_key
    if not is_file_entry(path):
        raise ConfigError(
            f"The {use} key of {site.party} is not in a file but in {path}.",
            f"Nothing was made. Make a new one there, and keep the old one as {path}_FORMER.",
        )
    if not signs and not path.exists():
        yield f"encryption_key: {write_encryption_key(path.parent)}"
        return
    old = Signer.from_file(path).public if signs else PrivateKey.from_file(path).public
    private, public = new_signing_key() if signs else new_encryption_key()
    replaced = [*dict.fromkeys([old, *_agreed_keys(site, use, today)])]
    aside = path.with_name(f"{path.name}.until-{key_name(old)}")
    _replace(path, private.encode() + b"\n", aside)
    yield f"{use}_key: {public}"
    if signs:
        yield f"signing_key_from: {today}"
    if until is None:
        yield f"revoked_keys: [{', '.join(replaced)}]"
    else:
        entries = [f"{{use: {use}, key: {key}, until: {until}}}" for key in replaced]
        yield f"former_keys: [{', '.join(entries)}]"
    yield ""
    yield (
        f"Add these to parties.{site.party} of the federation file, beside keys that are listed "
        f"there already, and let every party agree. The old key is kept in {aside.name}: runs in "
        "progress need it."
    )
    if signs:
        yield (
            f"Others then pin the new key: opboost keys trust SITE {site.party} {public} --replace"
        )


def _agreed_keys(site: Site, use: KeyUse, today: date) -> Iterator[str]:
    """Yield the party's keys in its agreements; after an interrupted renewal they may differ."""
    agreements = agreements_of(site)
    for name in dict.fromkeys(agreement.federation for agreement in agreements.agreements):
        newest = agreements.newest(name)
        agreed = {} if newest is None else newest.content["federation"]
        # The agreement of a federation that has ended may name keys that were replaced since.
        over = agreed and date.fromisoformat(agreed["terms"]["until"]) < today
        key = agreed.get("parties", {}).get(site.party, {}).get(f"{use}_key")
        if key and not over:
            yield key


def _replace(path: Path, content: bytes, aside: Path) -> None:
    """Replace a key by a new one, and keep the old one under another name."""
    # Link the old key first, so that a kill loses no key.
    if not aside.exists():
        aside.hardlink_to(path)
    with whole_file(path) as file:
        file.write(content)


def require_public_key(key: str) -> str:
    """Return a key if it is the canonical base64 of 32 bytes.

    Raises:
        ConfigError: It is not.
    """
    # The last of 43 digits has two unused bits, so only one of its four spellings is canonical.
    if _fits(PublicKey, key) and base64.b64encode(base64.b64decode(key)).decode() == key:
        return key
    raise ConfigError(
        "That is not a public key: it must be the base64 of 32 bytes, 44 characters.",
        "Copy it completely, as its party's `opboost keys show` prints it.",
    )


def pin(site: Path, federation: Federation) -> list[str]:
    """Pin the label holder's signing key in ``policy.yaml``, if none is pinned.

    Args:
        site: Folder of the party's ``site.yaml``.
        federation: The federation that the party agrees to.

    Returns:
        Descriptions of the keys that were pinned.

    Raises:
        ConfigError: The file cannot be extended.
    """
    if not (site / POLICY).is_file():
        return []
    pinned = []
    holder = unpinned_receiver(load_policy(site / POLICY), federation)
    if holder is not None:
        pin_key(site / POLICY, holder, federation.parties[holder].signing_key, replace=False)
        pinned.append(f"the signing key of {holder}")
    return pinned


def pin_key(path: Path, party: str, key: str, replace: bool) -> bool:
    """Pin a receiver's signing key.

    Args:
        path: The ``policy.yaml``.
        party: The receiver.
        key: Its public key, base64.
        replace: Whether a different pinned key may be replaced.

    Returns:
        True if the file changed.

    Raises:
        ConfigError: A different key is pinned, or the file cannot be changed in this place only.
    """
    require_public_key(key)
    if not _fits(Name, party):
        raise ConfigError("That is not a party's name.", "Use its name in the federation file.")
    policy = load_policy(path)
    if party == policy.party:
        raise ConfigError(f"{path.name} is {party}'s own; a party is not its own receiver.")
    pinned = policy.receivers.get(party)
    if pinned is not None and pinned.signing_key == key:
        return False
    if pinned is not None and not replace:
        raise ConfigError(
            f"{path.name} pins a different signing key for {party}; nothing was changed.",
            f"If you have the new key from {party} over a channel that you trust, pass --replace.",
        )
    text = path.read_bytes().decode()
    data = yaml.safe_load(text)
    receivers = data.get("receivers", {})
    # Copy, because entries that share an anchor are one object, and only this one may change.
    receiver = {**receivers.get(party, {}), "signing_key": key}
    expected = {**data, "receivers": {**receivers, party: receiver}}
    by_hand = f"receivers: {{{party}: {{signing_key: {key}}}}}"
    _replace_text(path, _with_pin(text, party, key), expected, by_hand)
    return True


def _with_pin(text: str, party: str, key: str) -> str:
    receivers = _child(yaml.compose(text, Loader=yaml.SafeLoader), "receivers")
    # Some names, such as `on`, are strings in YAML only if they are quoted.
    name = party if yaml.safe_load(party) == party else f'"{party}"'
    if receivers is None:
        end = "" if text.endswith("\n") else "\n"
        return f"{text}{end}receivers:\n  {name}:\n    signing_key: {key}\n"
    old = _child(_child(receivers, party), "signing_key")
    if old is not None:
        return text[: old.start_mark.index] + key + text[old.end_mark.index :]
    start = receivers.start_mark
    if receivers.flow_style:
        comma = ", " if receivers.value else ""
        at = start.index + 1
        return f"{text[:at]}{name}: {{signing_key: {key}}}{comma}{text[at:]}"
    indent = " " * start.column
    entry = f"{name}:\n{indent}  signing_key: {key}\n{indent}"
    return text[: start.index] + entry + text[start.index :]


def _child(node: Any, name: str) -> Any:
    """Return the node of a key in a composed mapping; None if it is missing."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return value
    return None


def _fits(form: Any, text: str) -> bool:
    try:
        TypeAdapter(form).validate_python(text)
    except ValidationError:
        return False
    return True


def _replace_text(path: Path, text: str, expected: Any, by_hand: str) -> None:
    """Replace a file's text atomically, with its permissions unchanged.

    Args:
        path: The file, or a link to it.
        text: The new text.
        expected: The expected content of the new text.
        by_hand: Lines to add by hand if the text has other content.

    Raises:
        ConfigError: The text has other content, or the file cannot be written.
    """
    parsed = None
    with suppress(yaml.YAMLError):
        parsed = yaml.safe_load(text)
    if parsed != expected:
        raise ConfigError(
            f"The form of {path.name} does not allow this command to extend it.",
            f"Add this by hand: {by_hand}",
        )
    try:
        replace_text(path, text)
    except OSError:
        raise ConfigError(
            f"{path.name} cannot be written; it was not changed.",
            "Check that this user may write to its folder.",
        ) from None
