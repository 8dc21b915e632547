"""The card: complete, escaped, and self-contained."""

import html.parser
import json
import re
from typing import Any

import lightgbm
import pytest

from opboost_ops.learning.boosters.lightgbm_text import TextModel
from opboost_ops.learning.registry.card import Card, FeatureLine, PartyLine
from opboost_ops.learning.registry.card_words import ModeLine
from opboost_ops.learning.registry.importance import ImportanceLine
from opboost_ops.pipeline.stage import Home
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.reports.version_page import card_page
from tests.federation import Workspace

EVIL = "<script>alert('x')</script>&\"<img src=x>"


class Parser(html.parser.HTMLParser):
    """Collects tags and attributes, and insists that they nest."""

    VOID = frozenset({"meta", "br", "hr", "link", "img", "polyline"})

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(page: bytes) -> Parser:
    parser = Parser()
    parser.feed(page.decode())
    parser.close()
    assert parser.open == []
    return parser


def card(**changes: Any) -> Card:
    curve = LossCurve(mechanism=EVIL, epsilon=1.0, loss=(0.712, 1.5, "inf"), certificate=False)
    line = FeatureLine(party=EVIL, name=EVIL, type="numeric", mechanism=EVIL, loss=curve, splits=3)
    facts: dict[str, Any] = {
        "federation": EVIL,
        "run": EVIL,
        "task": "binary",
        "label": EVIL,
        "domain": (1, 10),
        "training": {"trainer": EVIL},
        "training_rows": 341,
        "metrics": {EVIL: {EVIL: 0.5}},
        "modes": (ModeLine(name=EVIL, title=EVIL, discloses=EVIL, scoring=True),),
        "centralised": EVIL,
        "held_out_rows": 59,
        "parties": (PartyLine(name=EVIL, role=EVIL, features=1, splits=3),),
        "features": (line,),
        "importance": (ImportanceLine(party=EVIL, feature=EVIL, value=0.5, share=1.0, gain=7.0),),
        "importance_rows": 59,
        "disclosed": (EVIL,),
        "limits": (EVIL,),
        "experiment": False,
        "software": {EVIL: EVIL},
        **changes,
    }
    return Card(**facts)


def test_every_text_is_escaped() -> None:
    page = card_page(card()).encode()
    assert b"<script" not in page
    assert b"<img" not in page
    parser = parsed(page)
    assert not {"script", "img", "iframe", "object", "link"} & set(parser.tags)
    assert not [name for name, _ in parser.attributes if name.startswith("on")]
    assert parser.text.count("alert('x')") >= 20


def assert_loads_nothing(page: bytes) -> None:
    parser = parsed(page)
    assert not {"script", "link", "img", "iframe", "object", "embed", "base"} & set(parser.tags)
    assert not [n for n, _ in parser.attributes if n in ("src", "href", "srcset", "action", "data")]
    assert not re.search(rb"https?:|url\(|@import|//[a-z]", page)


def test_the_page_of_a_real_run_loads_nothing(trained_once: Workspace) -> None:
    files = trained_once.files("credit", "models", "credit_scoring", trained_once.run)
    assert_loads_nothing(files["card.html"])
    assert b"public seed" in files["card.html"]


def test_the_card_of_a_real_run_is_complete(trained_once: Workspace) -> None:
    files = trained_once.files("credit", "models", "credit_scoring", trained_once.run)
    found = Card.model_validate_json(files["card.json"])
    federation = trained_once.declared
    assert found.experiment is True
    assert found.domain == (1, 10)
    assert set(found.metrics) == {"label_holder_alone", "federated_desensitised"}
    assert found.held_out_rows == json.loads(files["evaluation.json"])["rows"] > 0
    frames = Home(trained_once.home("credit"))
    assert found.training_rows == frames.table("frame").num_rows > 0
    assert [line.name for line in found.modes] == list(found.metrics)
    assert [line.name for line in found.modes if line.scoring] == ["federated_desensitised"]
    counts = TextModel.parse(files["model.txt"].decode()).split_counts()
    assert sum(line.splits for line in found.parties) == sum(counts.values()) > 0
    declared = {(p, n) for p, spec in federation.parties.items() for n in spec.features}
    declared.add(("shop", "returns_share=missing"))
    assert {(line.party, line.name) for line in found.features} == declared
    for line in found.features:
        if line.party == "credit":
            assert (line.mechanism, line.loss) == (None, None)
        else:
            assert line.loss is not None
            expected = {"missing bit": 1, "nominal": 3}
            assert len(line.loss.loss) == expected.get(line.type, 9)
            protection = {
                "missing bit": "Randomised missing bit, epsilon 0.64",
                "nominal": "Unary encoding (optimised), epsilon 0.64 per category",
            }
            assert line.mechanism == protection.get(line.type, "Global-map, epsilon 0.64")
    assert [(p.name, p.role) for p in found.parties] == [
        (name, spec.role) for name, spec in federation.parties.items()
    ]
    assert all(any(name in line for line in found.disclosed) for name in federation.parties)
    assert found.software["LightGBM"] == lightgbm.__version__
    used = {name for line in found.features if line.splits and (name := line.name)}
    assert used
    page = files["card.html"].decode()
    assert {(line.party, line.feature) for line in found.importance} == declared
    assert sum(line.share for line in found.importance) == pytest.approx(1)
    assert found.importance_rows == found.held_out_rows
    for line in found.features:
        assert line.name in page


@pytest.mark.parametrize("experiment", [True, False])
def test_an_experiment_is_marked(experiment: bool) -> None:
    page = card_page(card(experiment=experiment)).encode()
    assert (b"without any guarantee" in page) is experiment
