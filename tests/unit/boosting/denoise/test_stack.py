"""A stack: a row's score is its own, whatever is asked for with it, and files hold all of it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from opboost_ops.boosting import splits, stack_text, trainer
from opboost_ops.boosting.denoise import joint, stack
from opboost_ops.boosting.denoise.codes import Categories, Cells
from opboost_ops.boosting.denoise.parts import Parts, mixed
from opboost_ops.boosting.denoise.rows import drawable
from opboost_ops.boosting.denoise.starts import Start
from opboost_ops.boosting.frame import Frame
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.models.export import export_model
from tests.unit.boosting.denoise.planted import CHANNELS, REGRESSION, planted, released

SEED = bytes(32)
ROWS = 400
FEW = replace(REGRESSION, trees=8)


def with_own(frame: Frame) -> Frame:
    """The same rows with a number and a category of the label holder's, some of them missing."""
    i = np.arange(len(frame.matrix))
    number = np.where(i % 7 == 0, np.nan, (i * 37) % 101)
    kind = np.where(i % 11 == 0, np.nan, i % 3).astype(float)
    matrix = np.asfortranarray(np.column_stack([number, kind, frame.matrix]))
    return Frame(("a.x", "a.kind", *frame.names), matrix, ("a.kind",), frame.ranked)


@pytest.fixture(scope="module")
def learnt() -> tuple[Frame, np.ndarray, Parts]:
    """All parts of some rows, evenly mixed, however useful each is; classes from one start."""
    clear, label = planted(ROWS)
    frame = with_own(released(clear))
    laws = drawable(frame, CHANNELS)
    outputs = {name: CHANNELS[name].outputs for name in laws}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint, "grid", lambda *_: (Start("tied", 3, 1),))
        found = stack._learnt(frame, label, FEW, laws, outputs, SEED, stack_text.PARTS)
    assert set(found.models) == set(stack_text.PARTS)
    return frame, label, replace(found, weights=dict.fromkeys(stack_text.PARTS, 0.25))


def on_values(frame: Frame, text: str) -> str:
    """With split values: these channels release the domain's values, from 1 as ranks do."""
    ranks = {name: {r: r + 0.5 for r in range(1, 10)} for name in frame.ranked}
    return splits.materialise(text, ranks, dict.fromkeys(frame.ranked, (1, 10)))


def test_a_row_has_its_score_alone_and_among_others(
    learnt: tuple[Frame, np.ndarray, Parts], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, _, parts = learnt
    text = on_values(frame, parts.text())
    every = trainer.predict(text, frame.matrix)
    for rows in (slice(7, 8), slice(100, 151), slice(399, None, -1)):
        some = trainer.predict(text, np.asfortranarray(frame.matrix[rows]))
        assert some.tobytes() == np.ascontiguousarray(every[rows]).tobytes()
    monkeypatch.setattr("opboost_ops.boosting.denoise.behind.BLOCK", 4 * 15 * 33)
    assert trainer.predict(text, frame.matrix).tobytes() == every.tobytes()
    each = parts.each(frame.matrix)
    assert every.tobytes() == mixed(parts.weights, each).tobytes()
    assert len({of.tobytes() for of in each.values()}) == len(stack_text.PARTS)
    # What no training row had says nothing of what is behind, and is no fault.
    strange = frame.matrix.copy(order="F")
    strange[:, 0], strange[:, 1] = 1e9, 17.0
    assert np.isfinite(trainer.predict(text, strange)).all()


def test_files_hold_all_of_it_and_only_plain_asks_for_splits(
    learnt: tuple[Frame, np.ndarray, Parts],
) -> None:
    frame, label, parts = learnt
    text = parts.text()
    plain = trainer.train(frame, label, FEW)
    assert splits.used_splits(text, frame.ranked) == splits.used_splits(plain, frame.ranked)
    final = on_values(frame, text)
    files = trainer.files_of(final, "model.txt")
    assert files["stack_plain.txt"].decode() == on_values(frame, plain)
    assert set(files) == {
        *("stack.json", "stack_classes.json"),
        *(f"stack_{part}.txt" for part in stack_text.PARTS),
    }
    again = stack_text.whole(files)
    assert trainer.predict(again, frame.matrix).tobytes() == (
        trainer.predict(final, frame.matrix).tobytes()
    )
    assert trainer.weights_of(again) == parts.weights
    assert trainer.weights_of(plain) == {}
    rows = frame.matrix[:5]
    assert np.array_equal(trainer.explained(final, rows), trainer.explained(plain, rows))
    assert np.array_equal(trainer.gains(final), trainer.gains(plain))
    with pytest.raises(ConfigError, match="is a stack of several models: no file of another"):
        export_model(files)
    for form in ("text", "json"):
        with pytest.raises(ConfigError, match="is a stack"):
            export_model(files, form)
    for gone in set(files) - {stack_text.FILE}:
        with pytest.raises(ContractError, match="lacks one of its parts"):
            stack_text.whole({name: of for name, of in files.items() if name != gone})
    later = json.dumps({**json.loads(final), "stack": 2})
    with pytest.raises(ContractError, match="another release's format"):
        trainer.predict(later, rows)
    with pytest.raises(ContractError, match="no stack of models"):
        trainer.predict('{"stack": 1}', rows)


@pytest.mark.slow
def test_it_is_better_on_randomised_rows_and_repeatable() -> None:
    clear, label = planted(3_000)
    frame = released(clear)
    train, test = frame.rows(np.arange(1_500)), frame.matrix[1_500:]
    text = stack.train(train, label[:1_500], REGRESSION, CHANNELS, SEED)
    assert stack.train(train, label[:1_500], REGRESSION, CHANNELS, SEED) == text
    assert sum(trainer.weights_of(text).values()) == pytest.approx(1)
    plain = trainer.train(train, label[:1_500], REGRESSION)
    errors = [
        float(np.mean((trainer.predict(of, test) - label[1_500:]) ** 2)) for of in (text, plain)
    ]
    assert errors[0] < 0.997 * errors[1]


def test_few_rows_and_columns_that_cannot_be_drawn_back() -> None:
    clear, label = planted(ROWS)
    frame = with_own(released(clear[:100]))
    text = stack.train(frame, label[:100], FEW, CHANNELS, SEED)
    assert trainer.weights_of(text) == {"plain": 1.0}
    plain = trainer.train(frame, label[:100], FEW)
    assert trainer.predict(text, frame.matrix).tobytes() == (
        trainer.predict(plain, frame.matrix).tobytes()
    )
    # A rank without its value: nobody here knows which output it is.
    frame = with_own(released(clear))
    for place in (2, 3, 4):
        frame.matrix[:, place] = np.minimum(frame.matrix[:, place], 9)
    text = stack.train(frame, label, FEW, CHANNELS, SEED)
    assert set(trainer.weights_of(text)) <= {"plain", "own"}
    assert json.loads(text)["latent"] is None
    trainer.predict(text, frame.matrix)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_weights_are_those_of_least_loss(task: str) -> None:
    rng = np.random.default_rng(3)
    rows = 600
    if task == "regression":
        label = rng.normal(size=rows) * 1e4
        good, bad = label + rng.normal(size=rows) * 1e3, rng.normal(size=rows) * 1e4
    else:
        count = 2 if task == "binary" else 3
        label = rng.integers(0, count, rows).astype(float)
        table = np.full((rows, count), 0.3 / (count - 1))
        table[np.arange(rows), label.astype(int)] = 0.7
        wrong = rng.dirichlet(np.ones(count), rows)
        good, bad = (table[:, 1], wrong[:, 1]) if task == "binary" else (table, wrong)
    found = stack.convex(task, label, {"plain": bad, "own": good})
    assert found["own"] > 0.9
    assert sum(found.values()) == pytest.approx(1)
    # Rows that do not count are not looked at.
    weight = np.zeros(rows)
    weight[: rows // 2] = 1
    mixed_up = {"plain": good.copy(), "own": good.copy()}
    mixed_up["own"][: rows // 2] = bad[: rows // 2]
    mixed_up["plain"][rows // 2 :] = bad[rows // 2 :]
    assert stack.convex(task, label, mixed_up, weight)["plain"] > 0.9
    assert stack.convex(task, label, {"plain": bad}) == {"plain": 1.0}


def test_codes_of_rows_that_nobody_trained_on() -> None:
    number = np.array([1.0, 2.0, 3.0, 4.0])
    cells = Cells.learnt(number, 2)
    assert cells.codes(np.array([0.0, 2.5, 9.0, np.nan])).tolist() == [0, 0, 1, 2]
    gaps = Cells.learnt(np.array([1.0, 2.0, np.nan]), 2)
    assert (gaps.size, gaps.codes(np.array([np.nan])).tolist()) == (3, [2])
    none = Cells.learnt(np.array([np.nan, np.nan]))
    assert none.codes(np.array([np.nan, 1.0])).tolist() == [0, 1]
    kinds = Categories.learnt(np.array([5.0, 2.0, 2.0, np.nan]))
    assert kinds.codes(np.array([2.0, 5.0, np.nan, 7.0])).tolist()[0] == 0
    assert kinds.codes(np.array([7.0])).tolist() == [kinds.size] == [3]
