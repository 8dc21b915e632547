"""What feature holders release does not depend on whom the label holder asks about."""

import polars as pl
import pytest

from tests.federation import Workspace
from tests.noninterference.observation import Watch, differences
from tests.noninterference.rewriting import read, tables, write
from tests.noninterference.runs import KINDS, Beginnings, seen

#: What depends on a query: itself and its answer, and the summaries that name their digests.
ASKED = ("psi_query", "psi_answer")


def _about_others(workspace: Workspace) -> Workspace:
    """As many people are asked about, and half of them are others, whom nobody has."""
    for path in tables(workspace, "a"):
        number = pl.int_range(pl.len())
        other = pl.concat_str(pl.lit("stranger-"), number.cast(pl.String))
        ids = pl.when(number % 2 == 0).then(other).otherwise(pl.col("id"))
        write(path, read(path).with_columns(id=ids))
    return workspace


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "sealed"),
    [
        ("training", {"ranks", "shares"}),
        ("training, all rows", {"ranks"}),
        ("scoring, desensitised", {"values", "shares"}),
        ("scoring, routed", {"routes", "shares"}),
        ("scoring, desensitised, all rows", {"values"}),
        ("scoring, routed, all rows", {"routes"}),
    ],
)
def test_what_is_sealed_is_the_same_for_another_query_of_equal_size(
    beginnings: Beginnings, kind: str, sealed: set[str]
) -> None:
    def work(watch: Watch) -> None:
        assert watch.all("open_rows")

    begun = [beginnings.begin(KINDS[kind]) for _ in range(2)]
    _about_others(begun[1])
    found = [seen(KINDS[kind], one, work) for one in begun]
    released = {f"/{what}/{party}/" for what in sealed for party in ("b0", "b1")}
    for place in released:
        assert any(place in name and begun[0].run in name for name in found[0])
    differ = differences(*found)
    assert any("/psi_query/b0/" in place for place in differ)
    assert [place for place in differ if not any(what in place for what in ASKED)] == []
