"""Decoys as they are declared, agreed to and held against a run's plan."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from opboost_ops.config.agreement import PROTOCOL
from opboost_ops.config.loading import load_site, parse_federation
from opboost_ops.errors import ConfigError, OpBoostError
from opboost_ops.exchange.books import agreements_of as agreements
from opboost_ops.exchange.manifest import Manifest
from opboost_ops.exchange.order import Memory, Remembered, require_order, require_rows
from opboost_ops.exchange.plan import Plan
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.models.alignment_words import alignment_words
from opboost_ops.run.changes import changes
from opboost_ops.stages.alignments import alignment_of
from opboost_ops.stages.keyed import MEMBERSHIP
from tests.federation import Workspace
from tests.unit.stages.decoy_federation import TERMS, allow, workspace
from tests.unit.stages.test_whole_runs import dataset as plain


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"alignment": {"mode": "private"}}, "names neither epoch nor decoys"),
        ({"alignment": {**TERMS, "epoch": "month"}}, "does not go with epoch"),
        ({"alignment": {**TERMS, "decoys": "some"}}, "alignment.decoys: Input should be 'all'"),
        ({"alignment": {**TERMS, "mode": "keyed"}}, "alignment.mode: "),
        ({"scoring": {"mode": "routed"}}, "does not go with routed scoring"),
        ({"scoring": {"evaluate": ["routed"]}}, "does not go with routed scoring"),
        ({"training": {"denoise": "joint"}}, "scoring is desensitised"),
    ],
)
def test_what_decoys_do_not_go_with_is_refused_in_the_file(
    files: dict[int, Any], change: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_federation({**files[1], "alignment": TERMS, **change}, "federation.yaml")
    assert said in str(caught.value)


def test_decoys_are_for_one_feature_holder(files: dict[int, Any]) -> None:
    with pytest.raises(ConfigError, match=r"alignment.decoys: is for one feature holder.* are 2"):
        parse_federation({**files[2], "alignment": TERMS}, "federation.yaml")


def test_a_party_agrees_to_it_and_the_card_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = workspace(tmp_path / "f", decoys=False)
    book = agreements(load_site(made.folder / "b0" / "site.yaml"))
    before = alignment_words(made.declared)
    allow(made)
    made.edit_yaml("federation.yaml", lambda data: data.update(alignment=TERMS), agree=False)
    (change,) = changes(book, made.declared)
    assert change.field == "federation.alignment"
    assert "all people of the feature holder's table leave and are charged" in change.means
    after = alignment_words(made.declared)
    assert after != before
    assert "neither which of the own people are common nor how many" in after
    told = list(alignment_of("private").disclosures(made.declared))
    assert [(sender, to) for sender, to, _ in told] == [("a", "b0"), ("b0", "a"), ("b0", "a")]
    assert MEMBERSHIP not in {what for _, _, what in told}
    # What was agreed does not cover it.
    made.known_to(monkeypatch)
    _, error = made.first_failure()
    assert isinstance(error, OpBoostError)
    assert "values/b0" not in made.published()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Any]:
    """Federation files with one feature holder and with two."""
    found = {}
    for parties in (1, 2):
        folder = tmp_path_factory.mktemp("files") / "f"
        made = Workspace.write(folder, plain(parties=parties, task="binary"), alignment="private")
        found[parties] = yaml.safe_load(made.file.read_text())
    return found


@pytest.mark.parametrize(
    ("at", "changed", "reason"),
    [
        ("values", {"rows": 1}, "wrong_row_count"),
        ("values", {"answers": "f" * 64}, "wrong_answer"),
        ("alignment", {}, "out_of_order"),
        ("ranks", {}, "out_of_order"),
        ("split_request", {}, "out_of_order"),
    ],
)
def test_nothing_else_is_part_of_such_a_run(
    files: dict[int, Any], at: Any, changed: dict[str, Any], reason: str
) -> None:
    federation = parse_federation({**files[1], "alignment": TERMS}, "federation.yaml")
    plan = Plan(federation, "train", None, "a" * 64, PROTOCOL)
    memory = Memory()
    for number, kind in enumerate(("plan", "digests", "psi_query", "psi_answer")):
        about: str = "a" if kind == "plan" else "b0"
        entry = Remembered(digest=f"{number}" * 64, rows=7)
        memory = memory.with_entry(kind, about, entry)  # type: ignore[arg-type]
    facts = {"federation": "x", "run": "0" * 16, "kind": at, "party": "b0", "about": "b0",
             "answers": "1" * 64, "rows": 7, "files": {}, "software": "0"}  # fmt: skip

    def judge(memory: Memory, **more: Any) -> None:
        manifest = Manifest.model_validate({**facts, **more})
        require_order(memory, manifest, "a", plan, "it")
        require_rows(memory, manifest, None, "it")

    with pytest.raises(Rejected) as caught:
        judge(memory, **changed)
    assert caught.value.reason == reason
    if at == "values":
        judge(memory)
        unanswered = Memory(accepted={k: v for k, v in memory.accepted.items() if "psi_" not in k})
        with pytest.raises(Rejected, match="psi_answer before it is not there"):
            judge(unanswered)
