"""`opboost backup` and `opboost restore`: a party's state and keys in one encrypted file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opboost_ops.cli.arguments import SiteFolder
from opboost_ops.errors import ConfigError

if TYPE_CHECKING:
    from opboost_ops.extras.backup.restoring import Restored


def backup(
    site: SiteFolder,
    file: Annotated[Path, typer.Argument(help="The backup, a new file.")],
    recipient: Annotated[
        str, typer.Option(help="Public key of age (age1...); its private key opens the backup.")
    ],
) -> None:
    """Write a party's state and keys into one file that age decrypts; runs may continue."""
    from opboost_ops.cli.output import counting
    from opboost_ops.extras.backup.writing import back_up

    with counting("backup", in_bytes=True) as progress:
        contents = back_up(site, file, recipient, progress)
    print(
        f"{contents.party}: {contents.lines} ledger entries, {contents.entries} audit entries, "
        f"head {contents.head[:16]}, {len(contents.files)} files, {file.stat().st_size:,} bytes, "
        f"as of {contents.at}."
    )
    for what in contents.left_out:
        typer.secho(f"Not in it: {what}.", fg="yellow")


def restore(
    site: SiteFolder,
    file: Annotated[Path, typer.Argument(help="The backup.")],
    key: Annotated[
        Path, typer.Option(help="File of the private key of age that the backup is encrypted to.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Move the existing state aside.")] = False,
) -> None:
    """Restore a party's state; verifies everything before it changes anything."""
    from opboost_ops.cli.output import counting
    from opboost_ops.extras.backup.restoring import restore as restore_state
    from opboost_ops.pipeline.party.rollback import check

    with counting("verified", in_bytes=True) as progress:
        restored = restore_state(site, file, key, yes, progress)
    _report(restored)
    gaps = check(restored.site)
    for gap in gaps:
        print(gap)
    lost = sum(gap.lacks != "open" for gap in gaps)
    if lost:
        raise ConfigError(
            f"The state is restored, and lacks what is named above ({lost}).",
            "What was released since the backup is charged by `opboost ledger recover`; until "
            "then no run releases anything.",
        )
    print("Nothing is missing in it, as far as pins and signed checkpoints show.")


def _report(restored: "Restored") -> None:
    from opboost_ops.extras.backup.present import runs_of

    contents = restored.contents
    print(
        f"{contents.party}: the state of {contents.at} is back: {contents.lines} ledger entries, "
        f"{contents.entries} audit entries, head {contents.head[:16]}."
    )
    if restored.aside:
        print(f"What was there is kept: {', '.join(restored.aside)}.")
    if restored.kept:
        print(f"Not changed, though the backup has others: {', '.join(restored.kept)}.")
    if restored.beyond:
        print(
            f"{len(restored.beyond)} entries of what was there are not in the backup: "
            f"{runs_of(restored.beyond)}."
        )
