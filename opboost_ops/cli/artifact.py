"""`opboost artifact`: what an exchange artifact says of itself, and whether that holds."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opboost_ops.errors import ArtifactError, ConfigError

if TYPE_CHECKING:
    from opboost_ops.config.federation import Federation


def command(
    path: Annotated[Path, typer.Argument(help="Folder with the artifact's manifest.json.")],
    key: Annotated[
        str | None, typer.Option(help="The signer's public key, as `opboost keys show` prints it.")
    ] = None,
    federation: Annotated[
        Path | None, typer.Option(help="federation.yaml, which names everybody's public key.")
    ] = None,
) -> None:
    """Print an artifact's manifest as JSON; with --key or --federation, verify it.

    Verifies signature, canonical form, and digests and sizes of the files. Prints no values.
    """
    import json

    from opboost_ops.exchange.manifest import MANIFEST, parse_manifest

    files = _read(path)
    if key is not None or federation is not None:
        _verify(path.name, files, key, federation)
        return
    parse_manifest(files[MANIFEST], path.name)
    print(json.dumps(json.loads(files[MANIFEST]), indent=1))
    typer.echo("Nothing of this was verified: --federation or --key verifies it.", err=True)


def _verify(
    what: str, files: Mapping[str, bytes], key: str | None, federation: Path | None
) -> None:
    from opboost_ops.config.loading import load_federation
    from opboost_ops.exchange import verification
    from opboost_ops.extras.setup.policy_file import require_public_key
    from opboost_ops.pipeline.party.party_sites import federation_file

    if key is not None and federation is not None:
        raise ConfigError("Name the signer's key: give either --key or --federation.")
    manifest = verification.read_manifest(files, what)
    declared = None if federation is None else load_federation(federation_file(federation))
    if declared is not None:
        keys = verification.declared_keys(declared, manifest, what)
    else:
        assert key is not None
        keys = (require_public_key(key),)
    by = verification.verify(manifest, files, keys, what)
    extent = (
        "signature, form, and the digests and sizes of all files are right"
        if manifest.encrypted_to is None
        else "signature, form, and the names and sizes of its encrypted files are right; only the "
        f"receiver, who holds key {manifest.encrypted_to}, can check their content"
    )
    print(f"{manifest.reference}, signed by {manifest.party}: {extent}.")
    if declared is not None and (of := _time_of(declared, manifest.party, by)):
        print(of)
    print(f"Digest: {manifest.digest}")


def _time_of(federation: "Federation", party: str, key: str) -> str:
    """When a key was good that is not a party's present one; empty for that."""
    from opboost_ops.exchange.encryption import key_name

    former = [f.until for f in federation.parties[party].former_keys if f.key == key]
    if not former:
        return ""
    return (
        f"By its former key {key_name(key)}: good for runs that began on {max(former)} or before."
    )


def _read(path: Path) -> Mapping[str, bytes]:
    from opboost_ops.exchange.manifest import MANIFEST
    from opboost_ops.exchange.store.folder_reads import read_folder

    files: Mapping[str, bytes] | None = None
    try:
        files = read_folder(path)
    except OSError:
        files = None
    if files is None:
        raise ArtifactError(
            f"{path.name}: this folder cannot be read.",
            "Name a folder <federation>/<run>/<kind>/<party> of a local store, or a copy of one.",
        )
    if MANIFEST not in files:
        raise ArtifactError(
            f"{path.name}: there is no {MANIFEST} in this folder.",
            "Name the folder of one artifact; `opboost store list` lists a store's.",
        )
    return files
