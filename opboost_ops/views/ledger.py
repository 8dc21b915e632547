"""The view of a party's privacy ledger: what each column has cost, and what is left.

Status, ledger and run pages, `status.json` and `opboost ledger show` take their numbers,
words and thresholds from here.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from uuid import UUID

from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.display.blocks import State
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.privacy.accountant import Account, accounts, add, total
from opboost_ops.privacy.budgets import Forecast, forecast_of_all
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.ledger import Dated
from opboost_ops.privacy.model_account import account_of
from opboost_ops.privacy.statement import forecasts

#: Fewer retrainings left than this are a warning, everywhere: a week of nights.
FEW = 7

#: How many points in time a picture of charges has at most.
_POINTS = 40

#: Sums of loss(1) and loss(R - L).
Sums = tuple[float, float]


@dataclass(frozen=True)
class RemainingRuns:
    """What is left of some columns' budgets, in retrainings on changed data.

    Attributes:
        fits: How many more fit; None where no budget ends them.
        feature: The column whose budget ends first; empty where none does.
        limited: Whether there are budgets at all.
        hint: Which cap or budget applies, what is left, and what happens when it is reached.
    """

    fits: int | None = None
    feature: str = ""
    limited: bool = False
    hint: str = "policy.yaml sets no budget: each run on changed data costs more, without a limit"

    @property
    def text(self) -> str:
        """For people."""
        if self.fits is None:
            return "unlimited" if self.limited else "no budget"
        return f"{self.fits:,}"

    @property
    def state(self) -> State:
        """How it stands."""
        if self.fits is None:
            return "good" if self.limited else "muted"
        return "bad" if self.fits == 0 else "warn" if self.fits < FEW else "good"


def left_of(
    forecasts: Iterable[Forecast], entries: Sequence[Dated] = (), person: Forecast | None = None
) -> RemainingRuns:
    """What is left of some columns' budgets: of the one that ends first.

    Args:
        forecasts: Of the columns.
        entries: From which the pace is known; without them no day is named.
        person: Of all features together; without it the columns alone are looked at.
    """
    found = list(forecasts)
    budgets = [*found, *([] if person is None else [person])]
    first = min(
        (one for one in budgets if one.retrainings is not None),
        key=lambda one: one.retrainings or 0,
        default=None,
    )
    if first is not None and first.retrainings is not None:
        at_pace = pace(entries, first.retrainings)
        hint = (
            f"{_more_runs(first.retrainings, first.shared)} within {first.budget} of "
            f"{first.feature}{at_pace}; "
            "then releases are refused. Runs on unchanged data cost nothing"
        )
        return RemainingRuns(first.retrainings, first.feature, True, hint)
    if found and any(one.lasts for one in budgets):
        return RemainingRuns(limited=True, hint=f"within all budgets; {_capped(found)}")
    if found and all(one.rule.max_changes is not None for one in found):
        return RemainingRuns(hint=f"policy.yaml sets no budget; {_capped(found)}")
    return RemainingRuns()


def _capped(found: Sequence[Forecast]) -> str:
    """Where no budget ends them: at which cap, and from when on nothing costs more."""
    caps = {one.rule.max_changes for one in found}
    most = next(iter(caps)) if len(caps) == 1 else None
    cap = f"cap of {most} values a cell" if most is not None else "cap on a cell's values"
    draws, shared = max((one.draws, one.shared) for one in found)
    if not draws:
        return (
            f"{cap} reached: unchanged and further changed values cost nothing more; changed "
            "values are frozen"
        )
    return (
        f"after {_more_runs(draws, shared)} the {cap} is reached; then nothing costs more, and "
        "changed values are frozen"
    )


def _more_runs(number: int, shared: bool) -> str:
    """Runs on changed data; each federation's where several draw."""
    each = " of each federation" if shared else ""
    return f"{number:,} more {'run' if number == 1 else 'runs'}{each} on changed data"


def pace(entries: Sequence[Dated], fits: int) -> str:
    """Until when retrainings last at the pace so far, in words; empty where it is unknown.

    Args:
        entries: Oldest first.
        fits: How many retrainings are left.
    """
    local = [(at, line) for at, line in entries if line.account == "local_dp"]
    times = sorted(map(datetime.fromisoformat, {at for at, _ in local}))
    # Federations run beside each other: the pace is that of the one that runs most.
    runs = Counter(name for name, _ in {(line.federation, line.run) for _, line in local})
    most = max(runs.values(), default=0)
    if most < 2 or fits == 0:
        return ""
    step = (times[-1] - times[0]) / (most - 1)
    if step < timedelta(hours=1) or step * fits > timedelta(days=3650):
        return ""
    nights = max(1, round(step * fits / timedelta(days=1)))
    last = (times[-1] + step * fits).date()
    return f", at the pace so far {nights:,} night{'s' * (nights != 1)}, until about {last}"


def sums_of(accounts: Mapping[UUID, Account]) -> Sums:
    """The worst case of a person over all columns: loss(1) and loss(R - L)."""
    every = accounts.values()
    return float(total(a.step for a in every)), float(total(a.whole for a in every))


class LedgerView:
    """A party's ledger at the moment when it was read.

    Args:
        entries: All of it, oldest first.
        waiting: Entries that are charged, and of which it is not known that they were published.
        policy: The party's.
        accounts: What each column has cost by these entries; added up when absent.

    Attributes:
        entries: As given.
        waiting: As given.
        policy: As given.
    """

    def __init__(
        self,
        entries: Sequence[Dated],
        waiting: Sequence[Release],
        policy: Policy,
        accounts: Mapping[UUID, Account] | None = None,
    ) -> None:
        self.entries = entries
        self.waiting = waiting
        self.policy = policy
        self._accounts = accounts

    @cached_property
    def accounts(self) -> Mapping[UUID, Account]:
        """What each column has cost."""
        if self._accounts is not None:
            return self._accounts
        return accounts(line for _, line in self.entries)

    @cached_property
    def forecasts(self) -> Mapping[UUID, Forecast]:
        """What is left of each column's budgets."""
        return forecasts(self.accounts, self.policy)

    @cached_property
    def columns(self) -> Mapping[str, set[UUID]]:
        """The columns by federation; a federation without released columns has none."""
        found: dict[str, set[UUID]] = defaultdict(set)
        for _, line in self.entries:
            columns = found[line.federation]
            if line.column is not None:
                columns.add(line.column)
        return found

    def of(self, federations: Collection[str]) -> dict[UUID, Forecast]:
        """Forecasts of some federations' columns."""
        mine = set().union(*(self.columns.get(name, ()) for name in federations))
        return {uuid: one for uuid, one in self.forecasts.items() if uuid in mine}

    def left(self, federation: str) -> RemainingRuns:
        """What is left for a federation."""
        found = self.of([federation]).values()
        return left_of(found, self.entries, self.person(found))

    def person(self, growing: Iterable[Forecast]) -> Forecast:
        """The forecast of all features of a person together.

        Args:
            growing: Of the columns that the next runs release.
        """
        return forecast_of_all(self.accounts, growing, self.policy.all_features)

    def before(self, moment: str) -> Mapping[UUID, Account]:
        """What each column had cost by a moment, as the ledger writes it."""
        return accounts(line for at, line in self.entries if at < moment)

    @cached_property
    def protected(self) -> Sequence[Release]:
        """Of each federation, column and bit the last line with a loss curve, oldest first."""
        found: dict[tuple[str, UUID | None, str], Release] = {}
        for _, line in self.entries:
            if line.loss is not None:
                place = (line.federation, line.column, (line.feature or "").partition("=")[2])
                found.pop(place, None)
                found[place] = line
        return [*found.values()]

    def models_epsilon(self, end: str = "") -> float:
        """What private models have cost a row that is added or removed, up to a moment."""
        inside = (line for at, line in self.entries if not end or at < end)
        return float(account_of(inside, self.policy.model_budget).epsilon)

    @cached_property
    def heights(self) -> Sequence[tuple[str, Mapping[UUID, Sums]]]:
        """Both losses of each column at some moments, from the first line to the last."""
        times = [at for at, _ in self.entries]
        ends = [i for i in range(len(times)) if i + 1 == len(times) or times[i + 1] != times[i]]
        every = max(1, -(-len(ends) // _POINTS))
        # However many are passed over, a history begins with its first line.
        wanted = sorted({ends[0], *ends[::-1][::every]}) if ends else []
        so_far: dict[UUID, Account] = {}
        found = []
        for before, end in pairwise((-1, *wanted)):
            for _, line in self.entries[before + 1 : end + 1]:
                add(so_far, line)
            sums = {u: (float(a.step), float(a.whole)) for u, a in so_far.items()}
            found.append((times[end], sums))
        return found


def ledger_of(site: Site, policy: Policy) -> LedgerView:
    """A party's ledger as it is now.

    Args:
        site: The party's.
        policy: Its policy.
    """
    with open_state(site) as state:
        ledger = state.ledger
        return LedgerView(ledger.dated(), ledger.uncommitted(), policy, ledger.accounts())


def ledger_of_run(state: PartyState, policy: Policy, federation: str, run: str) -> LedgerView:
    """What a run has released at a party; its few entries are read, not the whole ledger.

    Args:
        state: The party's.
        policy: Its policy.
        federation: The run's federation.
        run: The run's id.
    """
    ledger, this = state.ledger, (federation, run)
    waiting = [line for line in ledger.uncommitted() if (line.federation, line.run) == this]
    return LedgerView(ledger.of_run(federation, run), waiting, policy)
