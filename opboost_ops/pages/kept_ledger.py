"""A party's ledger, read whole: its lines, and what they add up to by some moments."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from uuid import UUID

from opboost_ops.config.site import Site
from opboost_ops.exchange.books import open_books
from opboost_ops.pages.kept import Kept
from opboost_ops.privacy.accountant import Account, add
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.lines import Lines

#: How many points in time a picture of charges has at most.
_POINTS = 40
#: Moments of which the sums are remembered.
_MOMENTS = 8


class LedgerRead:
    """What a ledger said when it was read. Nothing of it may be changed.

    Args:
        lines: All of it, oldest first.
    """

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self._before: dict[str, Mapping[UUID, Account]] = {}

    @cached_property
    def federations(self) -> frozenset[str]:
        """The federations of its lines; ``all`` is among them where a line is of every one."""
        return frozenset(line.federation for line, _ in self.lines.counted)

    @cached_property
    def columns(self) -> Mapping[str, set[UUID]]:
        """The columns of each federation's lines."""
        found: dict[str, set[UUID]] = defaultdict(set)
        for line, _ in self.lines.counted:
            if line.column is not None:
                found[line.federation].add(line.column)
        return found

    @cached_property
    def drawn(self) -> Sequence[Release]:
        """Of each column, bit and receiver the last draw."""
        found: dict[tuple[UUID | None, str, str], Release] = {}
        for line, _ in self.lines.last:
            if line.draw is not None:
                found[line.column, (line.feature or "").partition("=")[2], line.receiver] = line
        return [*found.values()]

    @cached_property
    def protected(self) -> Sequence[Release]:
        """Of each federation, column and bit the last line with a loss curve, oldest first."""
        found: dict[tuple[str, UUID | None, str], Release] = {}
        for line, _ in self.lines.last:
            if line.loss is not None:
                place = (line.federation, line.column, (line.feature or "").partition("=")[2])
                found.pop(place, None)
                found[place] = line
        return [*found.values()]

    @property
    def accounts(self) -> Mapping[UUID, Account]:
        """What each column has cost."""
        return self.lines.accounts

    def before(self, moment: str) -> Mapping[UUID, Account]:
        """What each column had cost by a moment.

        Args:
            moment: As the ledger writes it; what is of that moment does not count.
        """
        found = self._before.get(moment)
        if found is None:
            lines = self.lines.between("", moment)
            found = self.accounts if len(lines) == len(self.lines) else lines.accounts
            if len(self._before) >= _MOMENTS:
                self._before.clear()
            self._before[moment] = found
        return found

    @cached_property
    def heights(self) -> Sequence[tuple[str, Mapping[UUID, tuple[float, float]]]]:
        """Both losses of each column by some moments, from the first line to the last."""
        times = self.lines.times
        ends = [i for i in range(len(times)) if i + 1 == len(times) or times[i + 1] != times[i]]
        every = max(1, -(-len(ends) // _POINTS))
        # However many are passed over, a history begins where it begins.
        wanted = sorted({ends[0], *ends[::-1][::every]}) if ends else []
        so_far: dict[UUID, Account] = {}
        found = []
        for before, end in pairwise((-1, *wanted)):
            for line, count in self.lines[before + 1 : end + 1].counted:
                add(so_far, line, count)
            sums = {u: (float(a.step), float(a.whole)) for u, a in so_far.items()}
            found.append((times[end], sums))
        return found


def ledger_of(site: Site) -> LedgerRead:
    """A party's ledger as it is now.

    Args:
        site: The party's.
    """
    return _LEDGERS.of(site)


def waiting_of(site: Site) -> Sequence[Release]:
    """Artifacts that are charged and of which it is not known that they were published, as of now.

    Args:
        site: The party's.
    """
    return _WAITING.of(site)


def _read(site: Site) -> LedgerRead:
    with open_books(site) as books:
        return LedgerRead(books.ledger.lines())


def _read_waiting(site: Site) -> Sequence[Release]:
    with open_books(site) as books:
        return books.ledger.uncommitted()


_LEDGERS = Kept(_read)
_WAITING = Kept(_read_waiting)
