"""`opboost backup` and `opboost restore`: a party's state and keys in one encrypted file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opboost_ops.cli.arguments import Site
from opboost_ops.errors import ConfigError

if TYPE_CHECKING:
    from opboost_ops.extras.backup.restoring import Restored


def backup(
    site: Site,
    file: Annotated[Path, typer.Argument(help="The backup, a new file.")],
    recipient: Annotated[
        str, typer.Option(help="Public key of age (age1...); its private key opens the backup.")
    ],
) -> None:
    """Write a party's state and keys into one file that age decrypts; runs may continue."""
    from opboost_ops.cli.output.progress import counting
    from opboost_ops.extras.backup.writing import back_up

    with counting("backup", in_bytes=True) as progress:
        made = back_up(site, file, recipient, progress)
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
        Path, typer.Option(help="File of the private key of age that the backup is encrypted to.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Move the existing state aside.")] = False,
) -> None:
    """Restore a party's state; verifies everything before it changes anything."""
    from opboost_ops.cli.output.progress import counting
    from opboost_ops.extras.backup.restoring import restore as put_back
    from opboost_ops.pipeline.party.rollback import check

    with counting("verified", in_bytes=True) as progress:
        done = put_back(site, file, key, yes, progress)
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
    print("Nothing is missing in it, as far as pins and signed checkpoints show.")


def _report(done: "Restored") -> None:
    from opboost_ops.extras.backup.present import runs_of

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
