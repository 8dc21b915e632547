"""The ledger page's part on releases that the party's own budget has refused."""

from opboost_ops.config.site import Site
from opboost_ops.display.blocks import Block, Cell, Note, Table, moment
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.books import open_books
from opboost_ops.pages.deployment import Query

#: How many are shown.
_NEWEST = 20


def refusals(site: Site, query: Query) -> list[Block]:
    """Releases that were refused by the party's own budget; nothing of them has left.

    Args:
        site: The party's.
        query: What is asked for.
    """
    with open_books(site) as books:
        try:
            found = books.audit.of("refused")
        except ArtifactError:
            return [Note("bad", "The audit log is damaged: what was refused cannot be listed.")]
    rows = []
    for entry in reversed(found):
        federation, run, stage = entry.place.split("/")
        if query.wants(federation, run):
            what = Cell(stage.replace("_", " "), state="bad")
            link = Cell(run, href=f"run?id={run}")
            rows.append((what, link, Cell(federation), moment(entry.at), Cell(entry.detail)))
    if not rows:
        return []
    heads = ("refused at", "run", "federation", "at (UTC)", "why")
    note = "Nothing of these has left the party, and nothing was charged."
    page = rows if query.whole else rows[:_NEWEST]
    return [Table("refused", "Refused releases", heads, tuple(page), note, once=("federation",))]
