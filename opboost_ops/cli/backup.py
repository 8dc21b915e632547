"""`opboost backup` and `opboost restore`: a party's books out of the house, and back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opboost_ops.errors import ConfigError

if TYPE_CHECKING:
    from opboost_ops.backup.restoring import Restored
    from opboost_ops.backup.sealed_keys import PartyKeys

_Site = Annotated[Path, typer.Argument(help="Folder of the party's site.yaml.")]

_Passphrase = Annotated[
    Path | None,
    typer.Option(help="File whose first line is the passphrase; asked for when absent."),
]


def backup(
    site: _Site,
    to: Annotated[Path, typer.Option(help="The backup, a file that is not there yet.")],
    keys_to: Annotated[
        Path | None,
        typer.Option(help="Also the party's keys, encrypted, into this file; keep it elsewhere."),
    ] = None,
    passphrase_file: _Passphrase = None,
    receiver: Annotated[
        str | None,
        typer.Option(help="Instead of a passphrase: the public encryption key of who can open it."),
    ] = None,
) -> None:
    """Write a party's books into one file, while runs go on."""
    from opboost_ops.backup.sealed_keys import keys_of, write_keys
    from opboost_ops.backup.writing import back_up
    from opboost_ops.config.loading import load_site

    if keys_to is None and (passphrase_file or receiver):
        raise ConfigError("There is a key for the keys file, and no --keys-to.", "Name the file.")
    # First the keys: without them no backup can be put back.
    if keys_to is not None:
        keys = keys_of(load_site(site / "site.yaml"))
        phrase = None if receiver else _passphrase(passphrase_file, confirm=True)
        write_keys(keys, keys_to, passphrase=phrase, to=receiver)
        print(f"{keys.party}: {', '.join(keys.files)} in {keys_to.name}.")
    with _bytes("backup") as progress:
        made = back_up(site, to, progress)
    size = to.stat().st_size
    print(
        f"{made.party}: {made.lines} ledger lines, {made.entries} audit entries, head "
        f"{made.head[:16]}, {len(made.files)} files, {size:,} bytes, as of {made.at}."
    )
    print(f"It is sealed under noise secret {made.secret}; no key is in it.")
    for what in made.left_out:
        typer.secho(f"Not in it: {what}.", fg="yellow")


def restore(
    site: _Site,
    source: Annotated[Path, typer.Option("--from", help="The backup.")],
    keys_from: Annotated[
        Path | None, typer.Option(help="The file of the party's keys, for a place without them.")
    ] = None,
    passphrase_file: _Passphrase = None,
    private_key: Annotated[
        Path | None,
        typer.Option(help="Instead of a passphrase: the private key that opens the keys file."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Set books that lie there aside.")] = False,
) -> None:
    """Put a party's books back; all is verified before anything is changed."""
    from opboost_ops.backup.restoring import restore as put_back
    from opboost_ops.run.rollback import check

    keys = _keys(keys_from, passphrase_file, private_key)
    with _bytes("verified") as progress:
        done = put_back(site, source, keys, yes, progress)
    _tell(done)
    found = check(done.site)
    for gap in found:
        print(gap)
    lost = sum(gap.lacks != "open" for gap in found)
    if lost:
        raise ConfigError(
            f"The books are back, and {lost} things are missing in them.",
            "What was released since the backup is charged by `opboost ledger recover`; until "
            "then no run releases anything.",
        )
    print("Nothing is missing in them, as far as cell files and signed checkpoints tell.")


def _tell(done: "Restored") -> None:
    from opboost_ops.backup.present import runs_of

    made = done.contents
    print(
        f"{made.party}: the books of {made.at} are back: {made.lines} ledger lines, "
        f"{made.entries} audit entries, head {made.head[:16]}."
    )
    if done.aside:
        print(f"What was there is kept: {', '.join(done.aside)}.")
    if done.kept:
        print(f"Not changed, though the backup has others: {', '.join(done.kept)}.")
    if done.beyond:
        print(
            f"{len(done.beyond)} lines of what was there are not in the backup: "
            f"{runs_of(done.beyond)}."
        )


def _keys(
    source: Path | None, passphrase_file: Path | None, private_key: Path | None
) -> "PartyKeys | None":
    if source is None:
        return None
    from opboost_ops.backup.sealed_keys import read_keys
    from opboost_ops.exchange.encryption import PrivateKey

    if private_key is not None:
        return read_keys(source, private=PrivateKey.from_file(private_key))
    return read_keys(source, passphrase=_passphrase(passphrase_file, confirm=False))


def _passphrase(file: Path | None, confirm: bool) -> str:
    if file is None:
        asked: str = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm)
        return asked
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    if lines:
        return lines[0]
    raise ConfigError(f"{file.name} cannot be read, or is empty.", "It holds the passphrase.")


@contextmanager
def _bytes(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar of bytes on stderr, on a terminal only."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done, whole: bars.update(task, completed=done, total=whole)
