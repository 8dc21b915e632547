"""A party's keys: made, shown, and renewed with the old one beside the new one."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

from opboost_ops.config.key_sources import in_a_file
from opboost_ops.config.loading import load_site
from opboost_ops.config.public_keys import KeyUse, fingerprint
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.encryption import PrivateKey, key_name, new_encryption_key
from opboost_ops.exchange.key_files import each
from opboost_ops.exchange.party_state import agreements_of
from opboost_ops.exchange.signing import Signer, new_signing_key
from opboost_ops.extras.datasets.workspace import make_private, write_encryption_key, write_keys
from opboost_ops.mechanisms import noise
from opboost_ops.tables.spill.files import whole_file


def make_keys(folder: Path) -> dict[str, str]:
    """Make noise secret, signing key and encryption key of a new party.

    Args:
        folder: Of the party's ``site.yaml``, which need not be there yet.

    Returns:
        The public keys as the federation file names them.

    Raises:
        ConfigError: One of them exists already; nothing was made.
    """
    keys = folder / "keys"
    names = ["noise.secret", "signing.key", "encryption.key"]
    existing = [name for name in names if (keys / name).exists()]
    if existing:
        raise ConfigError(
            f"keys/{', keys/'.join(existing)} exist already; nothing was made.",
            "Another secret hashes people otherwise, so that no pin would be found.",
        )
    public = write_keys(keys)
    make_private(folder)
    return public


def show_keys(folder: Path) -> dict[str, str | list[str]]:
    """A party's public keys and all keys' fingerprints; never a secret.

    Args:
        folder: Of the party's ``site.yaml``; without that file, keys are where `make_keys` puts
            them.

    Raises:
        ConfigError: A key is missing or cannot be read.
    """
    site = _site(folder)
    signing, *former = (s.public for s in each(site.signing_key, Signer.from_file))
    shown: dict[str, str | list[str]] = {}
    if site.party != _UNNAMED:
        shown["party"] = site.party
    encryption = None
    shown |= {"signing_key": signing}
    if site.encryption_key.exists() or not in_a_file(site.encryption_key):
        keys = each(site.encryption_key, PrivateKey.from_file)
        encryption, *opening = (key.public for key in keys)
        former += opening
        shown["encryption_key"] = encryption
    shown["fingerprint"] = fingerprint(signing, encryption)
    shown["noise_secret_fingerprint"] = noise.fingerprint(site.noise_secret())
    if former:
        shown["former_keys"] = former
    return shown


_UNNAMED = "unnamed"


def _site(folder: Path) -> Site:
    if (folder / "site.yaml").is_file() or not (folder / "keys").is_dir():
        return load_site(folder / "site.yaml")
    site = Site(version=1, party=_UNNAMED, store="")
    places = ("secret", "signing_key", "encryption_key")
    return site.model_copy(update={name: folder / getattr(site, name) for name in places})


def renew_key(folder: Path, use: KeyUse, today: date, until: date | None) -> Iterator[str]:
    """Put a new key in the old one's place, and keep the old one beside it.

    A party without an encryption key gets its first one.

    Args:
        folder: Of the party's ``site.yaml``.
        use: Which key.
        today: From when on the new one is good.
        until: The last day of the old one; None if it is revoked.

    Yields:
        The lines of the party's entry in the federation file, then what to do.

    Raises:
        ConfigError: The key is not kept in a file, or cannot be read; nothing was made.
    """
    site = load_site(folder / "site.yaml")
    signs = use == "signing"
    path = site.signing_key if signs else site.encryption_key
    if not in_a_file(path):
        raise ConfigError(
            f"The {use} key of {site.party} is not in a file but in {path}.",
            f"Nothing was made. Make one elsewhere, and keep the old one as {path}_FORMER.",
        )
    if not signs and not path.exists():
        yield f"encryption_key: {write_encryption_key(path.parent)}"
        return
    old = Signer.from_file(path).public if signs else PrivateKey.from_file(path).public
    private, public = new_signing_key() if signs else new_encryption_key()
    replaced = [*dict.fromkeys([old, *_agreed_keys(site, use)])]
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
        f"Put these into parties.{site.party} of the federation file, beside keys that are listed "
        f"there already, and let every party agree. The old key is kept in {aside.name}: runs "
        "under way need it."
    )
    if signs:
        yield (
            f"Others then pin the new key: opboost keys trust SITE {site.party} {public} --replace"
        )


def _agreed_keys(site: Site, use: KeyUse) -> Iterator[str]:
    """The party's keys in what it answers now: another one where a renewal was interrupted."""
    agreements = agreements_of(site)
    for name in dict.fromkeys(agreement.federation for agreement in agreements.agreements):
        newest = agreements.newest(name)
        parties = {} if newest is None else newest.content["federation"]["parties"]
        if key := parties.get(site.party, {}).get(f"{use}_key"):
            yield key


def _replace(path: Path, content: bytes, aside: Path) -> None:
    """Put a new key in the place of one that is kept under another name."""
    # First the second name: whatever is killed here has lost no key.
    if not aside.exists():
        aside.hardlink_to(path)
    with whole_file(path) as file:
        file.write(content)
