"""The cheap part of `gaps`, before a party's first task of a run: nothing is released over a gap.

It looks at what the run itself needs and at the runs before it, never at all runs or lines: the
last heads, the cell states that will be drawn by, the agreements, and the folders of the last runs
of each federation.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.config.site import Site
from opboost_ops.exchange.books import Books, open_books
from opboost_ops.exchange.manifest import is_run_id
from opboost_ops.mechanisms import noise
from opboost_ops.privacy.draws import read_mark
from opboost_ops.privacy.heads import Head
from opboost_ops.run import agreement_file
from opboost_ops.run.comparisons import against_agreement
from opboost_ops.run.evidence import HomeRun, home_run
from opboost_ops.run.publication import Publisher

#: How many of the last runs of each federation at home are looked at.
_LAST = 3


def gaps_before(
    party: Publisher, federation: Federation, run: str, seen: Mapping[str, Head]
) -> list[str]:
    """What a party's books lack, for its own eyes, as far as that can be told at once.

    Args:
        party: Whose.
        federation: The plan's.
        run: The run that is about to begin.
        seen: By party, the last head that the label holder had seen when it opened the run.
    """
    with open_books(party.site) as books:
        agreements = books.audit.of("agreed", "withdrawn")
        return [
            *_seen_elsewhere(books, party.name, federation, seen),
            *_lost_at_home(books, party.site, federation, run),
            *_cells_behind(books, party, federation),
            *map(str, against_agreement(agreements, party.site)),
        ]


def _seen_elsewhere(
    books: Books, party: str, federation: Federation, seen: Mapping[str, Head]
) -> Iterator[str]:
    if party in seen:
        yield from went_back(books, party, federation.name, federation.label_holder, seen[party])


def went_back(
    books: Books, party: str, federation: str, label_holder: str, head: Head
) -> Iterator[str]:
    """Whether books are older than a head that another party has seen of them; why, if so.

    Args:
        books: The party's.
        party: Whose they are.
        federation: Name of the federation.
        label_holder: The federation's.
        head: What was seen.
    """
    known = books.heads.numbered(federation, label_holder, head.number)
    if known is None or known.head != head:
        number = books.heads.last_number(federation, label_holder)
        what = "another one" if known else f"only {number} of them"
        yield (
            f"heads: others have seen run number {head.number} of {party} in {federation}, and its "
            f"ledger knows {what}: it is older than what was released"
        )


def _lost_at_home(books: Books, site: Site, federation: Federation, run: str) -> Iterator[str]:
    # Of every federation: a column is charged over all of them, and so is what was lost of one.
    for name in sorted(_folders(site.home)):
        for folder in _folders(site.home / name)[-_LAST - 1 :]:
            if (name, folder) != (federation.name, run):
                yield from _lost_run(books, site, home_run(site, site.home / name / folder))
    last = books.heads.last_run(federation.name, federation.label_holder)
    # Where all is lost, recovery gives a number that no run here has.
    if is_run_id(last) and last != run and not (site.home / federation.name / last).is_dir():
        place = f"{federation.name}/{last}"
        if all(entry.place != place for entry in books.audit.of("removed")):
            yield f"home: the folder of run {last} is gone"


def _folders(folder: Path) -> list[str]:
    """Names of the folders in one, that which changed last at the end."""
    try:
        with os.scandir(folder) as entries:
            dated = [(e.stat().st_mtime_ns, e.name) for e in entries if e.is_dir()]
    except FileNotFoundError:
        return []
    return [name for _, name in sorted(dated)]


def _lost_run(books: Books, site: Site, known: HomeRun) -> Iterator[str]:
    named = {one.digest: f"{one.kind}/{one.about}" for one in known.own}
    named |= {draw: f"draw of {charge}" for charge, draw in known.draws.items()}
    lost = sorted(named[digest] for digest in named.keys() - books.ledger.known(named))
    if lost:
        yield (
            f"ledger: it lacks {', '.join(lost)} of run {known.run} of {known.federation}, which "
            "is in the home folder"
        )
    if known.seen is not None and known.holder:
        yield from went_back(books, site.party, known.federation, known.holder, known.seen)


def _cells_behind(books: Books, party: Publisher, federation: Federation) -> Iterator[str]:
    if party.name not in federation.feature_holders:
        return
    group = party.policy.noise_group(federation.label_holder)
    secret = noise.receiver_secret(party.site.noise_secret(), group)
    recorded = agreement_file.load(party.site).columns
    for column in columns_of(federation, party.name, recorded):
        key = column.noise_context(secret).hex()[:16]
        number = books.ledger.worst(column.uuid, key).number
        mark = read_mark(books.cells, column.uuid, key) if number else None
        if number and (mark is None or mark.number < number):
            yield (
                f"cells: the state of {column.charge} is lost, or older than the ledger: put the "
                "newest one back, or charge what it cannot tell with `opboost ledger accept`"
            )
