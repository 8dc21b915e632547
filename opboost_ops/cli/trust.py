"""`opboost keys show` and `keys trust`: public keys, one's own and those of others."""

from pathlib import Path
from typing import Annotated

import typer

_Site = Annotated[Path, typer.Argument(help="Folder of the party's site.yaml.")]


def show(
    site: _Site,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """Print a party's public keys and all keys' fingerprints; never a secret."""
    import json

    from opboost_ops.config.key_sources import in_a_file
    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.encryption import PrivateKey, key_name
    from opboost_ops.exchange.key_files import each
    from opboost_ops.exchange.signing import Signer
    from opboost_ops.mechanisms import noise

    declared = load_site(site / "site.yaml")
    signing, *before = (s.public for s in each(declared.signing_key, Signer.from_file))
    found: dict[str, str | list[str]] = {
        "party": declared.party,
        "signing_key": signing,
        "signing_key_fingerprint": key_name(signing),
    }
    if declared.encryption_key.exists() or not in_a_file(declared.encryption_key):
        keys = each(declared.encryption_key, PrivateKey.from_file)
        encryption, *opening = (key.public for key in keys)
        before += opening
        found["encryption_key"] = encryption
        found["encryption_key_fingerprint"] = key_name(encryption)
    found["noise_secret_fingerprint"] = noise.fingerprint(declared.noise_secret())
    if before:
        found["former_keys"] = before
    if as_json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name}: {value if isinstance(value, str) else ', '.join(value)}")


def trust(
    site: _Site,
    party: Annotated[str, typer.Argument(help="The receiver, as the federation file names it.")],
    key: Annotated[str, typer.Argument(help="Its public signing key.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace another key that is pinned for it.")
    ] = False,
) -> None:
    """Pin a receiver's public signing key in a party's policy.yaml.

    Compare the fingerprint with the one that its people read to you from `opboost keys show`.
    """
    from opboost_ops.cli.pinning import pin
    from opboost_ops.config.loading import POLICY
    from opboost_ops.exchange.encryption import key_name

    changed = pin(site / POLICY, party, key, replace)
    done = "is pinned now" if changed else "was pinned already"
    print(f"{party}: signing key {key_name(key)} {done} in {POLICY}.")
