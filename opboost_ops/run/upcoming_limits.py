"""What will stop later runs, told to the party's own people while there is time."""

import datetime
from collections.abc import Iterator

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.key_files import each
from opboost_ops.exchange.party_state import open_state
from opboost_ops.exchange.signing import Signer
from opboost_ops.privacy.budgets import forecast_of_all
from opboost_ops.privacy.statement import forecasts
from opboost_ops.run import clock
from opboost_ops.run.publication import Publisher

#: The stage at which a party looks ahead: its first.
STAGE = "check_table"

#: So many retrainings left are few.
_FEW = 3

#: So many days before a key's last day.
_DAYS = 14


def ahead(party: Publisher, federation: Federation) -> Iterator[str]:
    """Names of notices, from public facts alone.

    Args:
        party: Who looks ahead.
        federation: The plan's.
    """
    left = retrainings_left(party, federation)
    if left is not None and left <= _FEW:
        yield "budget_low"
    today = clock.today()
    last = last_day(party, federation)
    if last is not None and last - today <= datetime.timedelta(days=_DAYS):
        yield "key_expires"


def retrainings_left(party: Publisher, federation: Federation) -> int | None:
    """How many retrainings fit into the first of a party's budgets to end; None if none ends.

    Args:
        party: Whose.
        federation: The plan's.
    """
    mine = {feature.uuid for feature in federation.parties[party.name].features.values()}
    with open_state(party.site) as state:
        spent = state.ledger.accounts()
    found = [one for column, one in forecasts(spent, party.policy).items() if column in mine]
    person = forecast_of_all(spent, found, party.policy.all_features)
    left = [one.retrainings for one in (*found, person) if one.retrainings is not None]
    return min(left, default=None)


def last_day(party: Publisher, federation: Federation) -> datetime.date | None:
    """The last day on which a party can sign with a key that it has; None if there is none.

    Args:
        party: Whose.
        federation: The plan's.
    """
    spec = federation.parties[party.name]
    dates: list[datetime.date] = []
    held = [signer.public for signer in each(party.site.signing_key, Signer.from_file)]
    if spec.signing_key in held:
        if spec.signing_key_expires is None:
            return None
        dates.append(spec.signing_key_expires)
    dates += [f.until for f in spec.former_keys if f.use == "signing" and f.key in held]
    return max(dates, default=None)
