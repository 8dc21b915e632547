"""What depends on private inputs does so as declared, and what may depend on them does."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

from opboost_ops.pipeline.catalogue import STAGES as CATALOGUE
from opboost_ops.pipeline.runner.facts import ADDED
from tests.federation import Workspace
from tests.leakage.failing_stage import HORIZONTAL
from tests.noninterference.declared import ARTIFACTS, STAGES, Source
from tests.noninterference.observation import Observation, differences
from tests.noninterference.rewriting import read, tables, write
from tests.noninterference.runs import KINDS, Beginnings, seen

Change = Callable[[pl.DataFrame], pl.DataFrame]


def _rolled(*columns: str) -> Change:
    """Other people's values: the column as a whole stays, so that no check tells."""

    def change(table: pl.DataFrame) -> pl.DataFrame:
        turned = pl.Series(np.roll(np.arange(table.height), 7))
        return table.with_columns(pl.col(name).gather(turned) for name in columns)

    return change


@dataclass(frozen=True)
class Input:
    """A private input of one party that is changed.

    Attributes:
        party: Whose.
        change: Of its tables.
        own: What it is to that party.
        others: What it is to the others.
    """

    party: str
    change: Change
    own: Source
    others: Source | None


def _telling(table: pl.DataFrame) -> pl.DataFrame:
    """The label holder's features say the label, where there is one: its trees become others."""
    if "y" not in table.columns:
        return _rolled("x", "kind")(table)
    place = table["y"].rank("ordinal") - 1
    return table.with_columns(table["x"].sort().gather(place))


INPUTS = {
    "values of a feature holder": Input("b0", _rolled("w", "size"), Source.OWN, Source.OTHERS),
    "values of another": Input("b1", _rolled("v", "colour"), Source.OWN, Source.OTHERS),
    "labels": Input("a", _rolled("y"), Source.OWN, Source.OTHERS),
    "the label holder's features": Input("a", _telling, Source.OWN, Source.OTHERS),
    "who is in a table": Input("b0", lambda t: t.head(t.height - 9), Source.OWN_IDS, Source.IDS),
}


#: Of these nothing outside is made: the label holder scores its own people at home, and what
#: feature holders send of people whom the training released follows from no value of today.
INSIDE = {
    (f"scoring, {mode}", given)
    for mode in ("desensitised", "routed", "desensitised, all rows", "routed, all rows")
    for given in (
        "the label holder's features",
        "values of a feature holder",
        "values of another",
    )
}


def changed(workspace: Workspace, given: Input) -> Workspace:
    for path in tables(workspace, given.party):
        table = read(path)
        names = set(table.columns)
        if {"y"} <= names or given.change is not INPUTS["labels"].change:
            write(path, given.change(table))
    return workspace


def declared(place: str) -> tuple[str, frozenset[Source]]:
    """The party of something that is seen, and what it may depend on."""
    what, _, rest = place.partition("/")
    if what == "exchange":
        _, _, kind, about, *_ = rest.split("/")
        asked = ("plan", "psi_query", "split_request", "route_request")
        sender = "a" if kind in asked else about
        return sender, ARTIFACTS[kind]
    if rest == "open_run":
        return "a", STAGES[rest]
    party, stage = rest.split(".")
    return party, STAGES[stage]


def _told(seen: Observation) -> set[str]:
    """Names of all facts."""
    told = [json.loads(facts) for place, facts in seen.items() if place.startswith("facts/")]
    return {name for facts in told for name, _ in facts}


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("training", "values of a feature holder"),
        pytest.param("training", "values of another", marks=pytest.mark.slow),
        ("training", "labels"),
        pytest.param("training", "the label holder's features", marks=pytest.mark.slow),
        pytest.param("training", "who is in a table", marks=pytest.mark.slow),
        *(pytest.param("training, all rows", given, marks=pytest.mark.slow) for given in INPUTS),
        *(
            pytest.param(f"scoring, {mode}", given, marks=pytest.mark.slow)
            for mode in ("desensitised", "routed", "desensitised, all rows", "routed, all rows")
            for given in INPUTS
            if given != "labels"
        ),
    ],
)
def test_only_what_may_depend_on_an_input_does(
    beginnings: Beginnings, baseline: Observation, kind: str, given: str
) -> None:
    source = INPUTS[given]
    other = seen(KINDS[kind], changed(beginnings.begin(KINDS[kind]), source))
    found = differences(baseline, other)
    assert not [place for place in found if place.startswith(("error/", "printed"))]
    wrong = []
    for place in found:
        party, allowed = declared(place)
        if (source.own if party == source.party else source.others) not in allowed:
            wrong.append(place)
    assert wrong == []
    assert set(ADDED) >= _told(baseline)
    # It is an input: something does depend on it, unless it stays inside.
    assert bool(found) == ((kind, given) not in INSIDE)


@pytest.mark.slow
def test_another_partys_columns_change_nothing_given_the_same_inbox(
    beginnings: Beginnings,
) -> None:
    """A holder that answers requests has them, its own home and its table, and nothing else."""
    kind = KINDS["training"]
    found = []
    for number in range(2):
        begun = beginnings.begin(kind)
        seen(kind, begun, lambda watch: watch.all("answer_splits"))
        if number:
            for party in ("a", "b1"):
                for path in begun.folder.joinpath(party).rglob("*"):
                    if path.is_file() and path.name != "site.yaml":
                        path.write_bytes(b"gone")
        found.append(seen(kind, begun, lambda watch: watch.step("b0", "answer_splits")))
    assert "summary/b0.answer_splits" in found[0]
    assert differences(*found) == []


def test_the_table_names_every_stage_and_every_kind_of_artifact(
    beginnings: Beginnings,
) -> None:
    assert set(STAGES) >= set(CATALOGUE) - HORIZONTAL
    kinds = {
        path.parent.name
        for workspace in (beginnings.made, beginnings.trained)
        for path in (workspace.folder / "exchange").glob("*/*/*/*")
    }
    assert kinds <= set(ARTIFACTS)
