"""A channel's digest is in the key of the noise: one count more or less would redraw every cell.

A formula that is corrected on purpose takes its line out of
the file, and the changelog says whose noise it redraws.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from opboost_ops import mechanisms
from opboost_ops.domain import Domain

GOLDEN: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("golden_channels.json").read_text()
)


@pytest.mark.parametrize("entry", GOLDEN, ids=lambda e: f"{e['mechanism']}{e['parameters']}")
def test_no_count_of_version_0_1_0_has_changed(entry: dict[str, Any]) -> None:
    mechanism = getattr(mechanisms, entry["mechanism"])(**entry["parameters"])
    channel = mechanism.channel(Domain(entry["lower"], entry["upper"]))
    assert channel.digest().hex() == entry["digest"]
