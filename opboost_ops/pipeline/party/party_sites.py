"""Locations of the parties' ``site.yaml`` on one machine, and each party's environment."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from opboost_ops.config.documents import read_yaml
from opboost_ops.config.federation import Federation
from opboost_ops.config.source import ENVIRONMENT
from opboost_ops.errors import ConfigError
from opboost_ops.pipeline.runner.fork_server import PROGRAMS, THREADS

#: Variables of every party's process: those that programs need, TLS and proxies.
_COMMON = (
    *PROGRAMS,
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip

#: Prefixes of further variables: threads of libraries, S3 and PostgreSQL's client.
_PREFIXES = (*THREADS, "AWS_", "PG")

#: Suffix of the variable for the former of an ``env:NAME`` key, while it is still accepted.
_FORMER = "_FORMER"


def federation_file(path: Path) -> Path:
    """Return the path of ``federation.yaml``, given the file or its folder."""
    if path.is_dir():
        return path / "federation.yaml"
    return path


def site_variable(party: str) -> str:
    """Return the name of the environment variable for a party's ``site.yaml``."""
    return f"OPBOOST_SITE_{party.upper()}"


def party_site_file(federation_file: Path, party: str) -> Path | None:
    """Return the path of a party's ``site.yaml``, or None if there is none.

    The party's environment variable has precedence over the folder beside the federation file.
    """
    if named := os.environ.get(site_variable(party)):
        return Path(named)
    default = federation_file.parent / party / "site.yaml"
    return default if default.is_file() else None


def site_files(
    federation_file: Path, federation: Federation, *, every: bool = True
) -> dict[str, Path]:
    """Return the paths of the parties' ``site.yaml``; see `party_site_file`.

    Args:
        federation_file: Path of ``federation.yaml``.
        federation: Its content.
        every: False if one party's site is enough.

    Raises:
        ConfigError: Parties have no site; the message names all of them.
    """
    files = {party: party_site_file(federation_file, party) for party in federation.parties}
    existing = {party: file for party, file in files.items() if file is not None}
    missing = [f"{party} (set {site_variable(party)})" for party in files if party not in existing]
    if missing and (every or not existing):
        raise ConfigError(f"No site.yaml is known for {', '.join(missing)}.")
    return existing


def common_environment(sites: Mapping[str, Path]) -> dict[str, str]:
    """Return the part of this process's environment that no party's ``site.yaml`` names.

    Args:
        sites: ``site.yaml`` by party.
    """
    named = {name for file in sites.values() for name in _named_in(file)}
    return {n: v for n, v in os.environ.items() if n not in named and _is_common(n)}


def party_environment(party: str, sites: Mapping[str, Path]) -> dict[str, str]:
    """Return the environment for a party's own process.

    It has the variables that the party's ``site.yaml`` names with ``env:``, the common variables
    and the party's site. Variables that another party's ``site.yaml`` names are left out.

    Args:
        party: Name of the party.
        sites: ``site.yaml`` by party.
    """
    own = _named_in(sites[party])
    others = {n for name, file in sites.items() if name != party for n in _named_in(file)} - own
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in own or (name not in others and _is_common(name))
    }
    return {**environment, site_variable(party): str(sites[party].resolve())}


def _is_common(name: str) -> bool:
    return name in _COMMON or name.startswith(_PREFIXES)


def _named_in(site_file: Path) -> set[str]:
    """Return the variables that a ``site.yaml`` names with ``env:``, with those of former keys."""
    names = {text.removeprefix(ENVIRONMENT) for text in _texts(read_yaml(site_file))}
    return names | {f"{name}{_FORMER}" for name in names}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value.startswith(ENVIRONMENT):
        yield value
    for inner in value.values() if isinstance(value, dict) else ():
        yield from _texts(inner)
    for inner in value if isinstance(value, list) else ():
        yield from _texts(inner)
