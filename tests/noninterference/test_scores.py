"""How scores are distributed stays with the party that has them: nothing else depends on it."""

import json
from typing import Any

import pytest

from opboost_ops.pipeline.evaluation import held_out
from opboost_ops.pipeline.steps import write_scores
from tests.federation import FIRST_RUN, SCORING_RUN
from tests.noninterference.observation import differences
from tests.noninterference.runs import KINDS, Beginnings, seen

_OTHER = {"least": 10, "series": [{"name": "x", "rows": 77, "edges": [0.0, 1.0], "counts": [77]}]}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["training", "scoring, desensitised"])
def test_nothing_that_leaves_depends_on_it(
    beginnings: Beginnings, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    begun = [beginnings.begin(KINDS[kind]) for _ in range(2)]
    found = [seen(KINDS[kind], begun[0])]

    def other(*_: Any) -> dict[str, Any]:
        return dict(_OTHER)

    monkeypatch.setattr(held_out, "held_out_distribution", other)
    monkeypatch.setattr(write_scores, "new_distribution", other)
    found.append(seen(KINDS[kind], begun[1]))
    assert not [place for place in found[0] if place.startswith("error")]
    assert differences(*found) == []
    # It was another one, and it is at home.
    if kind == "training":
        documents = [made.home("a") / "evaluation.json" for made in begun]
    else:
        place = f"a/home/credit_scoring/distributions/{FIRST_RUN}/{SCORING_RUN}.json"
        documents = [made.folder / place for made in begun]
    one, two = (json.loads(path.read_bytes()) for path in documents)
    assert one != two
    assert '"counts": [77]' in json.dumps(two)
