"""What a party has agreed to, and what each agreement changed: for its privacy officer."""

from opboost_ops.config.agreement import differences
from opboost_ops.config.site import Site
from opboost_ops.exchange.party_state import agreements_of
from opboost_ops.orchestration.pages.deployment import Query
from opboost_ops.reports.display.blocks import Cell, Table, count, moment

#: Changes that a line names; `opboost agree` shows all of a new one.
_NAMED = 6


def agreements_table(site: Site, query: Query) -> Table:
    """All agreements of a party, the newest first.

    Args:
        site: The party's.
        query: What is asked for; agreements of what may not be seen are left out.
    """
    made = agreements_of(site).agreements
    rows = []
    for one in reversed(made):
        if not query.sees(one.federation):
            continue
        earlier = [a for a in made if a.federation == one.federation and a.number < one.number]
        before = earlier[-1].content.get("federation") if earlier else None
        changes = differences(before, one.content.get("federation")) if earlier else ()
        names = [path for path, _, _ in changes]
        more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        what = f"{', '.join(names[:_NAMED])}{more}" if earlier else "all of it: the first"
        rows.append(
            (
                count(one.number),
                Cell(one.federation),
                moment(one.at),
                Cell("stands", state="good")
                if one.withdrawn is None
                else Cell(f"withdrawn {moment(one.withdrawn).text}", state="warn"),
                Cell(one.digest[:16], one.digest, title=one.digest),
                Cell(what or "nothing but the software", "; ".join(names) or what),
            )
        )
    return Table(
        "agreements",
        "Agreements, all of them",
        ("number", "federation", "agreed (UTC)", "state", "digest", "what it changed"),
        tuple(rows),
        "A training run must use the newest one of its federation; `opboost agree` shows what a "
        "new federation file would change, and what that costs.",
        "The party has agreed to nothing.",
    )
