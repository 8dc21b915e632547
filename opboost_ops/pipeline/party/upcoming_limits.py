"""Limits that will stop later runs, told to the party's own people while there is time."""

from collections.abc import Iterator
from datetime import date, timedelta
from fractions import Fraction

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.key_files import each
from opboost_ops.exchange.party_state import open_state
from opboost_ops.exchange.signing import Signer
from opboost_ops.pipeline.party import clock
from opboost_ops.pipeline.runner.publication import Publisher
from opboost_ops.privacy.declarations import declarations
from opboost_ops.privacy.ledger.budgets import budget_of

#: The stage at which a party looks ahead: its first.
STAGE = "check_table"

#: So many days before a key's last day.
_DAYS = 14


def ahead(party: Publisher, federation: Federation) -> Iterator[str]:
    """Names of notices, from public facts alone.

    Args:
        party: Who looks ahead.
        federation: The plan's.
    """
    if releases_left(party, federation) == 0:
        yield "budget_low"
    today = clock.today()
    last = last_day(party, federation)
    if last is not None and last - today <= timedelta(days=_DAYS):
        yield "key_expires"


def releases_left(party: Publisher, federation: Federation) -> int | None:
    """How many more yearly releases fit into the first budget to end.

    None where no feature with a budget has ``refresh: yearly``: no other release opens by itself.

    Args:
        party: Whose.
        federation: The plan's.
    """
    declared = declarations(federation, party.name, party.policy, party.site).values()
    with open_state(party.site) as state:
        spent = state.releases.spent()
    left = [
        max(0, int((Fraction(budget) - spent.get(yearly.column, Fraction(0))) // yearly.loss))
        for yearly in declared
        if yearly.refresh == "yearly" and yearly.loss
        if (budget := budget_of(party.policy, yearly.column)) is not None
    ]
    return min(left, default=None)


def last_day(party: Publisher, federation: Federation) -> date | None:
    """The last day on which a party can sign with a key that it has; None if there is none.

    Args:
        party: Whose.
        federation: The plan's.
    """
    spec = federation.parties[party.name]
    dates: list[date] = []
    own_keys = [signer.public for signer in each(party.site.signing_key, Signer.from_file)]
    if spec.signing_key in own_keys:
        if spec.signing_key_expires is None:
            return None
        dates.append(spec.signing_key_expires)
    dates += [f.until for f in spec.former_keys if f.use == "signing" and f.key in own_keys]
    return max(dates, default=None)
