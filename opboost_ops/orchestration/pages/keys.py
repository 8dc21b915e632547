"""The table of keys: who speaks for whom, from when and until when, as a party has agreed."""

from collections.abc import Callable, Iterator
from datetime import date, timedelta

from opboost_ops.config.policy import Policy
from opboost_ops.config.public_keys import PublicKeys
from opboost_ops.config.site import Site
from opboost_ops.exchange.encryption import key_name
from opboost_ops.exchange.party_state import agreements_of
from opboost_ops.pipeline.party import clock, known_keys
from opboost_ops.privacy.consent.agreements import Agreement
from opboost_ops.reports.display.blocks import Cell, State, Table

#: So many days before its last day a key is marked.
_SOON = timedelta(days=14)

#: Words, and how they are shown.
_Shown = tuple[str, State]


def keys_table(site: Site, policy: Policy, wanted: Callable[[str], bool]) -> Table:
    """The keys of those with whom a party deals, by the newest agreement with each federation.

    Args:
        site: Whose agreements.
        policy: Its policy: a feature holder deals with those that this pins.
        wanted: Whether a federation is to be shown, by its name.
    """
    agreements = agreements_of(site)
    newest = {made.federation: made for made in agreements.agreements if made.withdrawn is None}
    rows = [
        (Cell(name), Cell(party), *cells)
        for name, made in newest.items()
        if wanted(name)
        for party, spec in known_keys.keys_in(made).items()
        if party in {site.party, *policy.receivers} or _opens(site.party, made)
        for cells in _rows(spec, clock.today())
    ]
    note = "As agreed. `opboost keys show` prints a party's own; compare them over another channel."
    columns = ("federation", "party", "key", "for", "from", "until", "state")
    return Table("keys", "Keys", columns, tuple(rows), note, once=("federation",))


def _opens(party: str, made: Agreement) -> bool:
    spec = made.content["federation"]["parties"].get(party, {})
    return spec.get("role") in ("label_holder", "active", "passive")


def _rows(spec: PublicKeys, today: date) -> Iterator[tuple[Cell, ...]]:
    first, last = spec.signing_key_from, spec.signing_key_expires
    yield _row(spec.signing_key, "signing", first, last, _state(first, last, today))
    if spec.encryption_key is not None:
        yield _row(spec.encryption_key, "encryption", None, None, ("good", "good"))
    for former in spec.former_keys:
        ended = former.until < today
        state = "ended" if ended else "replaced"
        yield _row(former.key, former.use, None, former.until, (state, "muted"))
    for key in spec.revoked_keys:
        yield _row(key, "", None, None, ("revoked", "bad"))


def _state(first: date | None, last: date | None, today: date) -> _Shown:
    if first is not None and today < first:
        return "not yet", "muted"
    if last is None:
        return "good", "good"
    if today > last:
        return "expired", "bad"
    return ("expires soon", "warn") if last - today <= _SOON else ("good", "good")


def _row(
    key: str, use: str, first: date | None, last: date | None, shown: _Shown
) -> tuple[Cell, ...]:
    name, (text, state) = Cell(key_name(key), key, title=key), shown
    return name, Cell(use), Cell(str(first or "")), Cell(str(last or "")), Cell(text, state=state)
