"""`opboost backup` and `opboost restore`: a party's state and keys in one encrypted file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opboost_ops.cli.arguments import Site
from opboost_ops.errors import ConfigError

if TYPE_CHECKING:
    from opboost_ops.backup.restoring import Restored

_Passphrase = Annotated[
    Path | None, typer.Option(help="File whose first line is the passphrase of the backup.")
]


def backup(
    site: Site,
    file: Annotated[Path, typer.Argument(help="The backup, a new file.")],
    recipient: Annotated[
        str | None, typer.Option(help="Public X25519 key; its private key opens the backup.")
    ] = None,
    passphrase_file: _Passphrase = None,
) -> None:
    """Write a party's state and keys into one encrypted file; runs may continue."""
    from opboost_ops.backup.encryption import Lock
    from opboost_ops.backup.writing import back_up
    from opboost_ops.cli.progress import counting

    if (recipient is None) == (passphrase_file is None):
        raise ConfigError(
            "A backup holds keys and true domain values: it is written only encrypted.",
            "Give either --recipient PUBLICKEY or --passphrase-file FILE.",
        )
    phrase = _passphrase(passphrase_file) if passphrase_file is not None else None
    with counting("backup", in_bytes=True) as progress:
        made = back_up(site, file, Lock(phrase, recipient), progress)
    print(
        f"{made.party}: {made.lines} ledger entries, {made.entries} audit entries, head "
        f"{made.head[:16]}, {len(made.files)} files, {file.stat().st_size:,} bytes, as of "
        f"{made.at}."
    )
    for what in made.left_out:
        typer.secho(f"Not in it: {what}.", fg="yellow")


def restore(
    site: Site,
    file: Annotated[Path, typer.Argument(help="The backup.")],
    key: Annotated[
        Path | None, typer.Option(help="File of the private key that the backup is encrypted to.")
    ] = None,
    passphrase_file: _Passphrase = None,
    yes: Annotated[bool, typer.Option("--yes", help="Move the existing state aside.")] = False,
) -> None:
    """Restore a party's state; verifies everything before it changes anything."""
    from opboost_ops.backup.encryption import Key
    from opboost_ops.backup.restoring import restore as put_back
    from opboost_ops.cli.progress import counting
    from opboost_ops.exchange.encryption import PrivateKey
    from opboost_ops.run.rollback import check

    if (key is None) == (passphrase_file is None):
        raise ConfigError(
            "The backup is encrypted.", "Give either --key FILE or --passphrase-file FILE."
        )
    phrase = _passphrase(passphrase_file) if passphrase_file is not None else None
    opens = Key(phrase, PrivateKey.from_file(key) if key is not None else None)
    with counting("verified", in_bytes=True) as progress:
        done = put_back(site, file, opens, yes, progress)
    _report(done)
    found = check(done.site)
    for gap in found:
        print(gap)
    lost = sum(gap.lacks != "open" for gap in found)
    if lost:
        raise ConfigError(
            f"The state is restored, with {lost} gaps.",
            "What was released since the backup is charged by `opboost ledger recover`; until "
            "then no run releases anything.",
        )
    print("Nothing is missing in it, as far as cell files and signed checkpoints show.")


def _report(done: "Restored") -> None:
    from opboost_ops.backup.present import runs_of

    made = done.contents
    print(
        f"{made.party}: the state of {made.at} is back: {made.lines} ledger entries, "
        f"{made.entries} audit entries, head {made.head[:16]}."
    )
    if done.aside:
        print(f"What was there is kept: {', '.join(done.aside)}.")
    if done.kept:
        print(f"Not changed, though the backup has others: {', '.join(done.kept)}.")
    if done.beyond:
        print(
            f"{len(done.beyond)} entries of what was there are not in the backup: "
            f"{runs_of(done.beyond)}."
        )


def _passphrase(file: Path) -> str:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    if lines:
        return lines[0]
    raise ConfigError(f"{file.name} cannot be read, or is empty.", "It holds the passphrase.")
