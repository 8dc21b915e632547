"""`opboost keys`: a party's secrets."""

from pathlib import Path
from typing import Annotated, cast

import typer

from opboost_ops.errors import ConfigError

app = typer.Typer(help="A party's secrets.", no_args_is_help=True)


@app.callback()
def _commands() -> None:
    """Commands are always named, also while there is only one."""


@app.command("init")
def init(
    site: Annotated[Path, typer.Argument(help="Folder of the party's site.yaml.")],
    alignment: Annotated[
        bool,
        typer.Option(
            help="Also make the key of `alignment: keyed`; one party does, and hands it on."
        ),
    ] = False,
) -> None:
    """Make noise secret, signing key and encryption key; print what the federation file needs."""
    import secrets

    from opboost_ops.datasets.workspace import write_keys
    from opboost_ops.exchange.key_files import write_private
    from opboost_ops.mechanisms import noise

    folder = site / "keys"
    made = ["noise.secret", "signing.key", "encryption.key"]
    made += ["alignment.key"] if alignment else []
    existing = [name for name in made if (folder / name).exists()]
    if existing:
        raise ConfigError(
            f"keys/{', keys/'.join(existing)} exist already; nothing was made.",
            "A new noise secret redraws all noise, which is another charged release.",
        )
    public = write_keys(folder)
    if alignment:
        write_private(folder / "alignment.key", noise.secret_file(secrets.token_bytes(32)))
    for name, key in public.items():
        print(f"{name}: {key}")


@app.command("compose")
def compose(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    federations: Annotated[Path, typer.Option(help="Folder of the federation files.")],
) -> None:
    """Make the passwords and keys that `docker/compose.yaml` gives to its containers."""
    from opboost_ops.orchestration.compose_keys import write_keys

    for path in write_keys(folder, federations):
        print(path)


@app.command("encryption")
def encryption(
    site: Annotated[Path, typer.Argument(help="Folder of the party's site.yaml.")],
) -> None:
    """Make an encryption key alone, for a party that has the other keys already.

    Until its public key is in the federation file nothing changes. Runs that began under an
    earlier one cannot be finished without it, so keep that file until they have ended.
    """
    from opboost_ops.datasets.workspace import write_encryption_key

    if (site / "keys" / "encryption.key").exists():
        raise ConfigError(
            "keys/encryption.key exists already; nothing was made.",
            "Move it away first, when no run needs it any more.",
        )
    print(f"encryption_key: {write_encryption_key(site / 'keys')}")


@app.command("rotate")
def rotate(
    site: Annotated[Path, typer.Argument(help="Folder of the party's site.yaml.")],
    yes: Annotated[
        bool, typer.Option("--yes", help="All later releases are new draws, charged anew.")
    ] = False,
) -> None:
    """Replace the noise secret: every later release is a new draw, and the ledger says so.

    Without --yes it says what that costs. The new secret has the present key schedule, by which
    person keys are made many at a time; all federations of the site move to it at once.

    The old secret is kept beside the new one, for it still opens what was released under it;
    delete it when nothing needs to be explained any more.
    """
    import secrets

    from opboost_ops.config.key_sources import in_a_file
    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.key_files import write_private
    from opboost_ops.mechanisms import noise
    from opboost_ops.run import agreement_file
    from opboost_ops.run.agreement import changing
    from opboost_ops.run.disclosures import record_rotation, renewal

    declared = load_site(site / "site.yaml")
    old = noise.fingerprint(declared.noise_secret())
    if not in_a_file(declared.secret):
        raise ConfigError(
            f"The noise secret of {declared.party} lies in no file, but is {declared.secret}.",
            "Rotate it where it is kept, then record it with the next release.",
        )
    if not yes:
        raise ConfigError(
            "A new noise secret redraws every cell of all federations of this site: each later "
            f"release costs its loss once more. {renewal(declared)}",
            "Say --yes if that is meant. Nothing was changed.",
        )
    kept = declared.secret.with_name(f"{declared.secret.name}.until-{old}")
    content = noise.secret_file(secrets.token_bytes(noise.SECRET_BYTES))
    new = noise.parse_secret(content)
    assert new is not None
    # Read under the old secret, sealed under the new one; meanwhile nobody agrees.
    with changing(declared) as book:
        # First the ledger: a crash after it leaves the old secret in place, and a line too many.
        record_rotation(declared, old, noise.fingerprint(new))
        fresh = declared.secret.with_name(f".{declared.secret.name}.new")
        fresh.unlink(missing_ok=True)
        write_private(fresh, content)
        if not kept.exists():
            kept.hardlink_to(declared.secret)
        fresh.replace(declared.secret)
        if book.agreements:
            agreement_file.replace(declared.agreement, agreement_file.sealed(book, new))
    print(f"{declared.party}: noise secret {old} was replaced by {noise.fingerprint(new)}.")


@app.command("renew")
def renew(
    site: Annotated[Path, typer.Argument(help="Folder of the party's site.yaml.")],
    use: Annotated[str, typer.Argument(help="signing or encryption.")],
    days: Annotated[
        int, typer.Option(min=0, max=92, help="For how many days the old key stays good.")
    ] = 14,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="The old key is good no more, at once.")
    ] = False,
) -> None:
    """Make a new signing or encryption key; print what the federation file needs.

    The old key is kept beside the new one: runs under way, and those that begin while others have
    not agreed to the new key yet, go on with it. Nothing changes until the federation file names
    the new key and everybody has agreed to it.
    """
    from datetime import UTC, datetime, timedelta

    from opboost_ops.cli.renewal import renew_key
    from opboost_ops.config.public_keys import KeyUse

    if use not in ("signing", "encryption"):
        raise ConfigError(f"There is no {use} key to renew.", "Say signing or encryption.")
    today = datetime.now(UTC).date()
    until = None if revoke else today + timedelta(days=days)
    for line in renew_key(site, cast(KeyUse, use), today, until):
        print(line)
