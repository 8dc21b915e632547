"""Lines that are read and added up by their forms are those that are read one by one."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from opboost_ops.config.policy import Policy
from opboost_ops.privacy.accountant import accounts, running
from opboost_ops.privacy.events import Draw, Release
from opboost_ops.privacy.lines import lines_of, release_of
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.privacy.statement import exact_counted, exact_lines
from opboost_ops.views.ledger import LedgerView

CURVES = [
    LossCurve(mechanism="M, 1", epsilon=1.0, loss=(0.1, 0.7), certificate=True),
    LossCurve(mechanism='N "2"', epsilon=2.0, loss=(0.3, "inf"), certificate=False),
]
#: How lines are told from one another: digests as they are, and what none of ours would be.
DIGESTS = st.sampled_from(["a" * 64, "b" * 64, "", "Z", 'q"\\', "é"])

RELEASES = st.builds(
    Release,
    federation=st.sampled_from(["f", "g", "all"]),
    run=st.sampled_from(["0" * 16, "1" * 16, "", "a b"]),
    party=st.just("bank"),
    receiver=st.sampled_from(["credit", "shop"]),
    kind=st.sampled_from(["draw", "accepted", "ranks", "former"]),
    artifact=DIGESTS,
    account=st.sampled_from(["local_dp", "structural", "model", "exact"]),
    feature=st.sampled_from([None, "income", "income=missing", "debt", "a,b", 'x": "y']),
    column=st.sampled_from([None, UUID(int=1), UUID(int=2)]),
    cells=st.sampled_from([None, "k1", "k2"]),
    draws=st.none() | DIGESTS,
    draw=st.none()
    | st.builds(
        Draw,
        number=st.integers(0, 3),
        most=st.sampled_from([None, 4]),
        added=st.integers(0, 2),
        worst=st.integers(0, 12),
        base=st.integers(0, 1),
        inputs=st.just(10),
        stands_for=st.integers(0, 2),
    ),
    edges=st.sampled_from([(), (1.0, 2.5)]),
    span=st.sampled_from([None, (0.0, 9.0)]),
    loss=st.none() | st.sampled_from(CURVES),
    epsilon=st.sampled_from([None, 0.5]),
    rows=st.sampled_from([0, 7, 8]),
    discloses=st.sampled_from(["", 'how many, "rows": 5, and {"draw": null}']),
    experiment=st.booleans(),
)


def told(releases: list[Release]) -> list[tuple[str, str]]:
    """As they lie in the database; the clock was set back once."""
    times = [f"2026-01-{(at % 7) + 1:02d}T03:00:00+00:00" for at in range(len(releases))]
    texts = [json.dumps(release.model_dump(mode="json")) for release in releases]
    return [*zip(times, texts, strict=True)]


def in_order(found: Any) -> list[Any]:
    """With the order of columns, and of keys inside each."""
    return [(uuid, account, list(account.keys)) for uuid, account in found.items()]


@settings(max_examples=60)
@given(st.lists(RELEASES, max_size=5), st.integers(1, 3), st.data())
def test_what_is_added_up_by_forms_is_what_is_added_up_line_by_line(
    few: list[Release], nights: int, data: st.DataObject
) -> None:
    releases = [
        release.model_copy(update={"run": f"{night:016x}"}) if night else release
        for night in range(nights)
        for release in few
    ]
    rows = told(releases)
    lines = lines_of(rows)
    dated = [(time, release_of(text)) for time, text in rows]
    assert [*lines] == dated == [lines[at] for at in range(len(lines))]
    assert [*lines[::-1]] == dated[::-1]
    assert list(lines.runs) == [r.run for r in releases]
    moment = "2026-01-04T03:00:00+00:00"
    parts = [
        (lines, dated),
        (lines.between("", moment), [(at, r) for at, r in dated if at < moment]),
        (lines.of_run("1" * 16), [(at, r) for at, r in dated if r.run == "1" * 16]),
        (
            lines.of_forms(lambda line: line.federation == "f" and line.account != "exact"),
            [(at, r) for at, r in dated if r.federation == "f" and r.account != "exact"],
        ),
    ]
    for part, slow in parts:
        plain = [r for _, r in slow]
        assert [*part] == slow
        assert in_order(part.accounts) == in_order(accounts(plain))
        assert exact_counted(part.counted) == exact_lines(plain)
        assert sum(count for _, count in part.counted) == len(slow)
    read = LedgerView(lines, [], Policy.model_construct())
    assert set(read.columns) == {r.federation for r in releases}
    so_far: Any = {}
    sums = []
    for at, release in dated:
        assert [*running([release], so_far)] == [release]
        sums.append((at, {u: (float(a.step), float(a.whole)) for u, a in so_far.items()}))
    ends = [i for i in range(len(sums)) if i + 1 == len(sums) or sums[i + 1][0] != sums[i][0]]
    assert [*read.heights] == [sums[i] for i in ends]
    if rows:
        at = data.draw(st.integers(0, len(rows) - 1))
        cut = rows[at][1][: data.draw(st.integers(0, len(rows[at][1]) - 1))]
        with pytest.raises(ValidationError):
            lines_of([*rows[:at], (rows[at][0], cut), *rows[at + 1 :]])


WORDS = ['"run": "', '"artifact": "', '"number": ', '"worst": ', '"rows": ', '"draws": "']


@pytest.mark.parametrize("mark", WORDS)
@pytest.mark.parametrize("damage", ['"', "\\", "-", "1.5", "\n", "00", "}", "é", ""])
def test_a_damaged_line_is_judged_as_if_it_were_read_alone(mark: str, damage: str) -> None:
    draw = Draw(number=1, added=1, worst=1, inputs=10)
    whole = Release(
        federation="f",
        run="1" * 16,
        party="bank",
        receiver="credit",
        kind="draw",
        artifact="a" * 64,
        account="local_dp",
        feature="income",
        column=UUID(int=1),
        cells="k1",
        draws="b" * 64,
        draw=draw,
        loss=CURVES[0],
        rows=7,
    )
    [row] = told([whole])
    head, found, tail = row[1].partition(mark)
    assert found
    changed = (row[0], f"{head}{mark}{damage}{tail}")
    try:
        expected = [row, (changed[0], release_of(changed[1])), row]
    except ValidationError:
        with pytest.raises(ValidationError):
            lines_of([row, changed, row])
        return
    lines = lines_of([row, changed, row])
    assert lines[1] == expected[1]
    assert lines.runs[1] == lines[1][1].run
    assert lines.accounts == accounts([whole, lines[1][1], whole])
