"""Every listing of the command line for programs: one line of JSON."""

import json
from collections.abc import Sequence

import pytest

from tests.federation import Workspace
from tests.integration.cli.conftest import Opboost

LISTINGS = (
    ("models", "list", "credit"),
    ("ledger", "show", "bank"),
    ("ledger", "check", "bank"),
    ("audit", "show", "bank"),
    ("store", "list", "bank"),
)


@pytest.mark.parametrize("listing", LISTINGS, ids=[" ".join(words[:2]) for words in LISTINGS])
def test_every_listing_is_one_line(
    trained_once: Workspace, opboost: Opboost, listing: Sequence[str]
) -> None:
    places = (trained_once.folder / party for party in listing[2:])
    text = opboost(*listing[:2], *places, "--json").output
    assert text.count("\n") == 1 and json.loads(text)
