"""A new signing or encryption key beside the old one, and what the federation file says of both."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

from opboost_ops.config.key_sources import in_a_file
from opboost_ops.config.loading import load_site
from opboost_ops.config.public_keys import KeyUse
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.encryption import PrivateKey, key_name, new_encryption_key
from opboost_ops.exchange.key_files import write_private
from opboost_ops.exchange.signing import Signer, new_signing_key


def renew_key(folder: Path, use: KeyUse, today: date, until: date | None) -> Iterator[str]:
    """Put a new key in the old one's place, and keep the old one beside it.

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
            f"The {use} key of {site.party} lies in no file, but is {path}.",
            f"Nothing was made. Make one elsewhere, and keep the old one as {path}_FORMER.",
        )
    old = Signer.from_file(path).public if signs else PrivateKey.from_file(path).public
    private, public = new_signing_key() if signs else new_encryption_key()
    kept = path.with_name(f"{path.name}.until-{key_name(old)}")
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    write_private(fresh, private.encode() + b"\n")
    # First the old key's second name: whatever is killed here has lost no key.
    if not kept.exists():
        kept.hardlink_to(path)
    fresh.replace(path)
    yield f"{use}_key: {public}"
    if signs:
        yield f"signing_key_from: {today}"
    if until is None:
        yield f"revoked_keys: [{old}]"
    else:
        yield f"former_keys: [{{use: {use}, key: {old}, until: {until}}}]"
    yield ""
    yield (
        f"Put these into parties.{site.party} of the federation file, beside keys that are listed "
        f"there already, and let every party agree. The old key is kept in {kept.name}: runs under "
        "way need it."
    )
    if signs:
        yield (
            f"Others then pin the new key: opboost keys trust SITE {site.party} {public} --replace"
        )
