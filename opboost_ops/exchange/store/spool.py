"""Room on a party's disk for what it is about to send."""

import shutil
from pathlib import Path

from opboost_ops.errors import ContractError
from opboost_ops.tables.spill.folders import private_folder


def require_room(folder: Path, party: str, needed: int) -> None:
    """Refuse parts that the disk cannot hold, before the first of them is written.

    Args:
        folder: Where they wait.
        party: Whose, for the error.
        needed: Bytes that they may take.

    Raises:
        ContractError: There is less room.
    """
    private_folder(folder)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ContractError(
            f"What {party} sends needs up to {needed / 1e6:,.0f} MB in its home folder "
            f"while it is sent, and {free / 1e6:,.0f} MB are free.",
            "Free some, set retention_days, or move home in site.yaml to a larger disk. Then "
            "clear this task: nothing was written.",
        )
