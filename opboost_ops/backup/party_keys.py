"""The private keys of a party, as a backup takes them along."""

from collections.abc import Callable, Mapping
from pathlib import Path

from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.key_files import write_private

#: Contents by the name that ``site.yaml`` has for each, a former key as ``NAME.until-...``; keys
#: that the site does not keep in files are not among them.
PartyKeys = Mapping[str, bytes]


def keys_of(site: Site) -> PartyKeys:
    """The keys that a site keeps in files, former ones too.

    Args:
        site: The party's.

    Raises:
        ConfigError: The noise secret is missing or damaged.
    """
    site.noise_secret()
    found: dict[str, bytes] = {}
    for name, path in key_places(site).items():
        for file in [path, *sorted(path.parent.glob(f"{path.name}.until-*"))]:
            if file.is_file():
                found[name + file.name.removeprefix(path.name)] = file.read_bytes()
    return found


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
            f"{', '.join(other)} of {site.party} is another key than the one in the backup.",
            "Move it away if the one in the backup is meant. Nothing was changed.",
        )


def put_back(site: Site, keys: PartyKeys, made: Callable[[Path], None]) -> None:
    """Write the keys that a site lacks; a file that is there is never changed.

    Args:
        site: The party's.
        keys: Its keys.
        made: Told each file that is written.
    """
    for path, content in _wanted(site, keys).items():
        if not path.exists():
            made(path)
            write_private(path, content)


def key_places(site: Site) -> dict[str, Path]:
    """Where a site keeps each key that lies in a file.

    Args:
        site: The party's.
    """
    names = ("secret", "signing_key", "encryption_key", "alignment_key", "cells_key")
    paths: dict[str, Path | None] = {name: getattr(site, name) for name in names}
    return {name: path for name, path in paths.items() if path and path.is_absolute()}


def _wanted(site: Site, keys: PartyKeys) -> dict[Path, bytes]:
    """Where each key belongs at a site."""
    found: dict[Path, bytes] = {}
    places = key_places(site)
    for name, content in keys.items():
        known, dot, end = name.partition(".")
        if known in places and "/" not in end:
            found[places[known].with_name(places[known].name + dot + end)] = content
    return found
