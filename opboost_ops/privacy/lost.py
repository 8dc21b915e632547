"""Cell states that are lost or older than the ledger, and what it costs to go on without them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from opboost_ops.config.policy import Policy
from opboost_ops.domain import Domain
from opboost_ops.privacy.accountant import Loss, exact, times
from opboost_ops.privacy.cell_files import Mark
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.draws import read_mark
from opboost_ops.privacy.events import Draw, Release
from opboost_ops.privacy.ledger import Ledger
from opboost_ops.privacy.worst import Worst


@dataclass(frozen=True)
class Lost:
    """A cell state that does not hold the last draw of its noise key.

    Attributes:
        last: The ledger's last line of the key.
        held: Number of the last draw that the state holds; 0 where there is no state to be read.
    """

    last: Release
    held: int


def lost_states(releases: Sequence[Release], cells: Cells) -> list[Lost]:
    """States without which nothing can be drawn under a column's present noise keys.

    Keys of former maps and secrets are left out: nothing is drawn under them.

    Args:
        releases: The party's, oldest first.
        cells: Its cell states.
    """
    present: dict[tuple[UUID, str, str], Release] = {}
    for line in releases:
        if line.draw is not None and line.column is not None:
            bit = (line.feature or "").partition("=")[2]
            present[line.column, bit, line.receiver] = line
    found = []
    for (column, _, _), line in present.items():
        mark = read_mark(cells, column, line.cells or "")
        held = mark.number if mark is not None else 0
        if line.draw is not None and held < line.draw.number:
            found.append(Lost(line, held))
    return found


def cost_of(lost: Lost, policy: Policy, cells: Cells) -> tuple[Release, Loss]:
    """The line that charges what a lost state cannot tell, and what it adds to loss(R - L).

    Args:
        lost: The state.
        policy: The party's: the cap in force is charged once more.
        cells: Its cell states.
    """
    line = lost.last
    assert line.draw is not None
    assert line.column is not None
    assert line.loss is not None
    rule = policy.rule_of(line.column, (line.feature or "").partition("=")[0])
    most = rule.max_changes if rule is not None else None
    path = cells.path(line.column, line.cells or "")
    left = int(cells.load(path).changes().max(initial=0)) if lost.held else 0
    before = Worst(line.draw.worst, line.draw.base, line.draw.number)
    after = before.after_loss(most, left, line.draw.inputs)
    place = f"accepted/{line.column}/{line.cells}/{after.number}"
    name = hashlib.sha256(place.encode()).hexdigest()
    draw = Draw(
        number=after.number,
        most=most,
        added=after.values - before.values,
        worst=after.values,
        base=after.base,
        inputs=line.draw.inputs,
    )
    changes: Mapping[str, object] = {
        "run": "",
        "kind": "accepted",
        "artifact": name,
        "draws": name,
        "draw": draw,
        "rows": 0,
    }
    return line.model_copy(update=changes), times(exact(line.loss.loss[-1]), draw.added)


def accept(
    database: Database, cells: Cells, policy: Policy, features: Sequence[str]
) -> list[Release]:
    """Charge what lost states cannot tell, and go on from what is left of them.

    Args:
        database: The party's.
        cells: Its cell states.
        policy: Its policy.
        features: Whose; all when empty.

    Returns:
        The lines that were charged.
    """
    ledger = Ledger(database)
    with database.writing():
        lines = []
        for lost in lost_states(ledger.releases(), cells):
            if features and (lost.last.feature or "").partition("=")[0] not in features:
                continue
            line, _ = cost_of(lost, policy, cells)
            ledger.charge([line])
            assert line.draw is not None
            assert line.column is not None
            draw, key = line.draw, line.cells or ""
            mark = Mark(draw.number, draw.worst, draw.base, line.artifact)
            if lost.held:
                cells.stamp(cells.path(line.column, key), mark)
            else:
                cells.start(line.column, key, Domain(0, draw.inputs - 1), mark)
            lines.append(line)
    return lines
