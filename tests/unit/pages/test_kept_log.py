"""Where a log's entries belong is found without reading them whole, and is what reading finds."""

import json

from hypothesis import given
from hypothesis import strategies as st

from opboost_ops.exchange.audit import ACTIONS, parse
from opboost_ops.pages import kept_log

PLACES = st.sampled_from(
    [
        "f/r1/ranks/bank",
        "f/r2/ranks/bank",
        "f/r2",
        "g/r1/x",
        "noise",
        "f/agreement",
        "/",
        "",
        'q"/r',
    ]
)


def written(entry: dict[str, str], *, ordered: bool) -> str:
    """As this software writes it, or as another program might."""
    keys = sorted(entry, reverse=not ordered)
    return json.dumps({key: entry[key] for key in keys}, separators=(",", ":"))


ENTRIES = st.builds(
    lambda action, place, words, ordered: written(
        {
            "action": action,
            "artifact": "",
            "at": "2026-01-05T03:00:00+00:00",
            "detail": words,
            "party": "bank",
            "place": place + words,
        },
        ordered=ordered,
    ),
    st.sampled_from(sorted(ACTIONS)),
    PLACES,
    st.sampled_from(["", "/", "é\n", '"place":"f/r9/x"}', "\\", '{"action":"sent"']),
    st.booleans(),
)


@given(st.lists(ENTRIES, max_size=12))
def test_it_is_what_reading_every_entry_finds(texts: list[str]) -> None:
    read = [parse(number, text) for number, text in enumerate(texts, 1)]
    owners: dict[tuple[str, str], list[int]] = {}
    for number, entry in enumerate(read, 1):
        first, _, rest = entry.place.partition("/")
        owner = (first, rest.partition("/")[0])
        owners[owner] = [*owners.pop(owner, []), number]
    rows = [(number, text, "") for number, text in enumerate(texts, 1)]
    log = kept_log.LogRead("", rows, "head")
    found = {
        owner: [n for span in spans for n in span] for owner, spans in log.where.owners.items()
    }
    assert list(found.items()) == list(owners.items())
    assert list(log.where.actions) == [entry.action for entry in read]
    daily = ("sent", "received", "answered")
    assert list(log.decided) == [entry for entry in read if entry.action not in daily]
