"""The page of one run: all that each party's own pages say of it, in one place."""

from functools import partial

from opboost_ops.config.loading import site_of
from opboost_ops.exchange.books import open_books
from opboost_ops.pages import exchange, ledger, models, quality
from opboost_ops.pages.blocks import Block, Fact, Facts, Heading, Links, Note, number
from opboost_ops.pages.deployment import Query, guarded, has_books
from opboost_ops.pages.ledger_pictures import loss_curves
from opboost_ops.privacy.accountant import accounts, total


def build(party: str, query: Query) -> list[Block]:
    """A party's part of a run.

    Args:
        party: Whose.
        query: Names the run.
    """
    run = query.run or ""
    federation = _federation(party, run)
    if federation is None:
        return [Note("muted", f"{party} has nothing of this run.")]
    if not query.sees(federation):
        return [Note("muted", "You may not see the runs of this federation.")]
    blocks = guarded(partial(models.run_blocks, party, federation, run))
    blocks.append(Heading("Data quality"))
    blocks += guarded(partial(quality.run_blocks, party, federation, run))
    blocks.append(Heading("Exchange"))
    blocks += guarded(partial(exchange.run_blocks, party, federation, run))
    blocks.append(Heading("Privacy ledger"))
    blocks += guarded(partial(_charged, party, query))
    pages = ("ledger", "exchange", "quality")
    return [*blocks, Links(tuple((f"All of {p}", f"{p}?party={party}") for p in pages))]


def _federation(party: str, run: str) -> str | None:
    """The run's federation, from the party's own folder or else from its ledger."""
    found = quality.federation_of(party, run)
    site, _ = site_of(party)
    if found is not None or not has_books(site):
        return found
    with open_books(site) as books:
        releases = books.ledger.releases()
    return next((release.federation for release in releases if release.run == run), None)


def _charged(party: str, query: Query) -> list[Block]:
    site, _ = site_of(party)
    if not has_books(site):
        return []
    with open_books(site) as books:
        dated = [(at, line) for at, line in books.ledger.dated() if line.run == query.run]
        waiting = [line for line in books.ledger.uncommitted() if line.run == query.run]
    releases = [line for _, line in dated]
    charged = accounts(releases)
    facts = Facts(
        (
            Fact(
                "Charged: loss(1)",
                number(float(total(a.step for a in charged.values()))).text,
                "a person, all features",
            ),
            Fact(
                "Charged: loss(R-L)",
                number(float(total(a.whole for a in charged.values()))).text,
                "a person, all features",
            ),
            Fact("Ledger lines", f"{len(dated):,}"),
        )
    )
    blocks: list[Block] = ledger.warnings(waiting, releases)
    if charged:
        blocks += [facts, loss_curves(releases)]
    return [*blocks, ledger.lines(dated, query)]
