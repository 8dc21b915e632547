"""What will stop later runs, told to the party's own people while there is time."""

import datetime
from collections.abc import Iterator

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.books import open_books
from opboost_ops.privacy.statement import forecasts
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
    mine = {feature.uuid for feature in federation.parties[party.name].features.values()}
    with open_books(party.site) as books:
        found = forecasts(books.ledger.releases(), party.policy)
    left = [
        one.retrainings
        for column, one in found.items()
        if column in mine and one.retrainings is not None
    ]
    if left and min(left) <= _FEW:
        yield "budget_low"
    today = datetime.datetime.now(datetime.UTC).date()
    expires = federation.parties[party.name].signing_key_expires
    if expires is not None and expires - today <= datetime.timedelta(days=_DAYS):
        yield "key_expires"
