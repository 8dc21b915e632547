"""Training of DPBoost: an ensemble of ensembles of trees. Each tree is committed when drawn."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.learning.boosters.backend import Frame, Parameters, Private, Progress, silent
from opboost_ops.learning.private import noise, noisy_leaves, sensitivity, tree
from opboost_ops.learning.private.noise import Memory, commit, resume, training_digest
from opboost_ops.learning.private.sensitivity import GRADIENT_UNITS, Spent
from opboost_ops.learning.private.tree import Candidates, Tree


def shares(rate: Fraction, trees: int) -> list[Fraction]:
    """Return the trees' shares of the rows: eta (1 - eta)^e / (1 - (1 - eta)^T_e), which sum to 1.

    Args:
        rate: eta, below 1 if there are several trees.
        trees: Number of trees in the ensemble.
    """
    left = 1 - rate
    return [rate * left**step / (1 - left**trees) for step in range(trees)]


def tree_of_row(key: bytes, ensemble: int, rows: int, rate: Fraction, trees: int) -> np.ndarray:
    """Assign each row to a tree of an ensemble.

    Args:
        key: Key of the training.
        ensemble: Number of the ensemble.
        rows: Number of rows.
        rate: eta.
        trees: Number of trees in the ensemble.

    Returns:
        int64, 0..trees - 1, shape (rows,).
    """
    if trees == 1:
        return np.zeros(rows, dtype=np.int64)
    bounds, reached = [], Fraction(0)
    for share in shares(rate, trees)[:-1]:
        reached += share
        bounds.append(int(reached * 2**64))
    edges = np.array(bounds, dtype=np.uint64)
    return np.searchsorted(edges, noise.random_words(key, ensemble, rows), side="right")


@dataclass(frozen=True)
class Trained:
    """A trained model.

    Attributes:
        trees: The trees in order.
        events: Privacy loss of each choice and release.
        candidates: The candidate splits.
        initial: The initial score.
    """

    trees: tuple[Tree, ...]
    events: tuple[Spent, ...]
    candidates: Candidates
    initial: float = 0.0


def fit(
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    memory: Memory | None = None,
    progress: Progress = silent,
) -> Trained:
    """Train a model, or resume an interrupted training.

    Args:
        frame: Training rows, with declared thresholds and categories.
        label: Numbers or class indices, shape (n,).
        parameters: Training parameters.
        memory: Storage for draws; a committed tree is never drawn again. None for a training that
            is not resumed.
        progress: Called after each tree.

    Raises:
        ConfigError: DPBoost cannot train with these parameters.
        ContractError: A feature has no declared candidates, or the memory is of another training.
    """
    private = checked_settings(parameters)
    candidates = Candidates.of(frame.names, frame.thresholds, frame.categories)
    codes = candidates.codes(frame.matrix)
    if private.delta is not None:
        if private.delta * len(label) >= 1:
            raise ContractError(
                f"delta is {private.delta:g}, which is not below 1 / {len(label):,} rows: it "
                "would allow a row to be published unchanged.",
                "Declare a smaller training.private.delta, and trigger a new run.",
            )
        binary = parameters.task == "binary"
        scaled = label if binary else sensitivity.scale_labels(label, label_bounds(parameters))
        grown, initial = noisy_leaves.fit(codes, scaled, candidates, parameters, memory, progress)
        return Trained(grown, (), candidates, initial)
    target = sensitivity.scale_labels(label, label_bounds(parameters))
    key, trees, events = _resume(memory, parameters, codes, target)
    rate = sensitivity.exact_fraction(parameters.learning_rate)
    # With random splits, every tree is trained on all rows and is an ensemble of its own.
    ensemble_size = 1 if private.random else private.trees_per_ensemble
    spend = sensitivity.tree_budget(private.epsilon, parameters.trees, ensemble_size)
    score = np.zeros(len(target))
    for former in trees:
        score += parameters.learning_rate * former.values(codes, candidates)
    begin = 0
    sizes = sensitivity.ensembles(parameters.trees, ensemble_size)
    for ensemble, size in enumerate(sizes):
        place = None
        for step in range(size):
            if begin + step < len(trees):
                continue
            if place is None:
                place = tree_of_row(key, ensemble, len(target), rate, size)
            new_tree, spent = _draw_tree(
                codes,
                score,
                target,
                np.flatnonzero(place == step),
                candidates,
                (ensemble, step),
                spend,
                parameters,
            )
            commit(memory, tree=new_tree.document(), spent=[e.model_dump() for e in spent])
            trees.append(new_tree)
            events += spent
            progress("trees", len(trees), parameters.trees)
            # The last ensemble uses each row only once, so only rows of later trees need a score.
            last = ensemble + 1 == len(sizes)
            ahead = np.flatnonzero(place > step) if last else np.arange(len(target))
            score[ahead] += parameters.learning_rate * new_tree.values(codes, candidates, ahead)
        begin += size
    return Trained(tuple(trees), tuple(events), candidates)


def checked_settings(parameters: Parameters) -> Private:
    """Return DPBoost's settings after checking the parameters.

    Raises:
        ConfigError: A setting is missing or invalid, or the task is not supported.
    """
    private = parameters.private
    if private is None or parameters.task == "multiclass":
        raise ConfigError(
            "DPBoost trains binary classification or regression, and needs an epsilon.",
            "Declare training.private.epsilon, and a label of task binary or regression.",
        )
    if parameters.task == "regression" and private.label_bounds is None:
        raise ConfigError("DPBoost needs public bounds of the label.", "Declare label.bounds.")
    if not 0 < parameters.learning_rate < 1:
        raise ConfigError("DPBoost needs a learning rate between 0 and 1.")
    return private


def label_bounds(parameters: Parameters) -> tuple[float, float]:
    """Return the bounds by which labels are scaled to [-1, 1]."""
    private = checked_settings(parameters)
    return (0.0, 1.0) if private.label_bounds is None else private.label_bounds


def _draw_tree(
    codes: np.ndarray,
    score: np.ndarray,
    target: np.ndarray,
    rows: np.ndarray,
    candidates: Candidates,
    place: tuple[int, int],
    spend: Fraction,
    parameters: Parameters,
) -> tuple[Tree, list[Spent]]:
    assert parameters.private is not None
    gradients = sensitivity.gradients(score[rows], target[rows])
    if parameters.private.random:
        within = np.clip(gradients, -GRADIENT_UNITS, GRADIENT_UNITS)
        new_tree = noisy_leaves.grow(codes, within, candidates, spend, parameters.depth)
        return new_tree, [Spent(ensemble=place[0], tree=place[1], depth=None, epsilon=str(spend))]
    inside = sensitivity.take_part(gradients)
    new_tree = tree.grow(
        codes[rows[inside]],
        gradients[inside],
        candidates,
        spend,
        parameters.depth,
        sensitivity.exact_fraction(parameters.private.regularisation),
        sensitivity.gain_range(),
        sensitivity.leaf_clip(sensitivity.exact_fraction(parameters.learning_rate), place[1]),
    )
    for_leaves, for_depth = sensitivity.split_budget(spend, parameters.depth)
    costs = [(depth, for_depth) for depth in range(parameters.depth)] + [(None, for_leaves)]
    return new_tree, [
        Spent(ensemble=place[0], tree=place[1], depth=depth, epsilon=str(cost))
        for depth, cost in costs
    ]


def _resume(
    memory: Memory | None, parameters: Parameters, codes: np.ndarray, target: np.ndarray
) -> tuple[bytes, list[Tree], list[Spent]]:
    words = [repr(parameters).encode()]
    if checked_settings(parameters).random:
        words.append(b"random splits")
    training = training_digest(words, codes, target)
    lines = resume(memory, training)
    if not lines:
        key = noise.fresh_key()
        commit(memory, training=training, key=key.hex())
        return key, [], []
    trees = [Tree.of(line["tree"]) for line in lines[1:]]
    events = [Spent.model_validate(event) for line in lines[1:] for event in line["spent"]]
    return bytes.fromhex(lines[0]["key"]), trees, events
