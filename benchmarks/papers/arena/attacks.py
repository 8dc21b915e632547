"""The arena's attacks, each the same for every protocol.

A guess is worth the adjusted mutual information of the secret and the guess (`benchmarks.bits`),
less that of the best guess without what the protocol discloses. A link is worth Fano's bound: the
one who picks the right one of N rows with probability p has read at least
log2 N - H(p) - (1 - p) log2(N - 1) bits (Cover and Thomas, Elements of Information Theory, 2.10).
"""

from collections.abc import Mapping, Sequence
from math import log2

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomForestClassifier

from benchmarks.bits import bits

#: Share of people whose values or labels the attacker knows beforehand.
KNOWN = 0.3

#: People among whom a row is looked for.
CROWD = 300

#: Clusters of people, and how much the next tree weighs less (ID2Graph's tau).
CLUSTERS, TAU = 8, 0.6

#: A value to which the decoder gives no chance gets this one.
_FLOOR = 1e-3


def entropy(secret: np.ndarray) -> float:
    """Bits of a secret, the most that can be read of it."""
    shares = np.unique(secret, return_counts=True)[1] / len(secret)
    return float(-(shares * np.log2(shares)).sum())


def beyond(secret: np.ndarray, guess: np.ndarray, blind: np.ndarray) -> float:
    """Bits of a secret by a guess, beyond those of the guess without the disclosure.

    Args:
        secret: One for each person.
        guess: With the disclosure.
        blind: Without it.
    """
    if not (guess != blind).any():
        return 0.0
    return max(0.0, bits(secret.tolist(), guess.tolist()) - bits(secret.tolist(), blind.tolist()))


class Decoder:
    """A forest that learns from people whom the attacker knows, and gives chances of values.

    Args:
        seen: What is seen of the known people, shape (known, columns).
        secret: Their secrets.
        seed: Of the forest.
    """

    def __init__(self, seen: np.ndarray, secret: np.ndarray, seed: int) -> None:
        self._forest = RandomForestClassifier(40, min_samples_leaf=5, random_state=seed)
        self._forest.fit(seen, secret)

    def chances(self, seen: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The chance of each value, shape (people, values).

        Args:
            seen: What is seen of people.
            values: All values of the secret.
        """
        chances = np.full((len(seen), len(values)), _FLOOR)
        chances[:, np.searchsorted(values, self._forest.classes_)] += self._forest.predict_proba(
            seen
        )
        return chances


def values_read(
    secrets: Mapping[str, np.ndarray], seen: np.ndarray, before: np.ndarray, seed: int
) -> dict[str, float]:
    """Bits of a person's values that the receiver of a release reads, and of who the person is.

    Args:
        secrets: The other party's cells by column, shape (people,) each.
        seen: What the protocol discloses of each person, shape (people, columns).
        before: What the attacker has anyway, shape (people, columns).
        seed: Of the known people.

    Returns:
        ``value``, the mean over columns; ``worst``, the column with most; ``link``.
    """
    if seen.shape[1] == 0:
        return {"value": 0.0, "worst": 0.0, "link": 0.0}
    people = len(before)
    order = np.random.default_rng(seed).permutation(people)
    known, rest = np.split(order, [int(KNOWN * people)])
    both = np.column_stack([before, seen])
    crowd = rest[: min(CROWD, len(rest))]
    scores = {name: np.zeros((len(crowd), len(crowd))) for name in ("with", "blind")}
    read = []
    for secret in secrets.values():
        values = np.unique(secret)
        guesses = {}
        for name, matrix in (("with", both), ("blind", before)):
            decoder = Decoder(matrix[known], secret[known], seed)
            chances = decoder.chances(matrix[rest], values)
            guesses[name] = values[chances.argmax(axis=1)]
            column = np.searchsorted(values, secret[crowd])
            scores[name] += np.log(chances[: len(crowd)])[:, column]
        read.append(beyond(secret[rest], guesses["with"], guesses["blind"]))
    link = max(0.0, linked(scores["with"]) - linked(scores["blind"]))
    return {"value": float(np.mean(read)), "worst": max(read), "link": link}


def linked(scores: np.ndarray) -> float:
    """Fano's bits of a person's row among N, where the diagonal has the right ones.

    Args:
        scores: How well row i fits person j, shape (N, N).
    """
    people = len(scores)
    best = scores >= scores.max(axis=1, keepdims=True) - 1e-9
    right = float(np.mean(best.diagonal() / best.sum(axis=1)))
    wrong = 1 - right
    noise = sum(-p * log2(p) for p in (right, wrong) if p > 0)
    return max(0.0, log2(people) - noise - wrong * log2(people - 1))


def clusters(members: np.ndarray, seed: int) -> np.ndarray:
    """Groups of people who share nodes, by the leading directions of who is in which.

    Args:
        members: Membership of nodes, weighted, shape (people, nodes).
        seed: Of the clustering.
    """
    if members.shape[1] == 0:
        return np.zeros(len(members), dtype=np.int64)
    if members.shape[1] > CLUSTERS:
        members = TruncatedSVD(CLUSTERS, random_state=seed).fit_transform(members)
    found = KMeans(CLUSTERS, n_init=4, random_state=seed).fit(members).labels_
    return np.asarray(found, dtype=np.int64)


def labels_read(label: np.ndarray, members: np.ndarray, own: np.ndarray, seed: int) -> float:
    """Bits of a person's label that a feature holder reads from groups of people.

    Args:
        label: Classes, shape (people,).
        members: Membership of nodes, weighted, shape (people, nodes).
        own: The holder's own columns, which it can group by without the protocol.
        seed: Of the clustering.
    """
    spread = own.std(axis=0)
    scaled = (own - own.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return beyond(label, clusters(members, seed), clusters(scaled, seed))


def rows_read(
    mine: tuple[np.ndarray, np.ndarray],
    rebuilt: tuple[np.ndarray, np.ndarray],
    theirs: tuple[np.ndarray, np.ndarray],
    columns: Sequence[int],
    cells: Sequence[np.ndarray],
    seed: int,
) -> float:
    """Bits of one value of a training row by someone who knows the others and its label.

    Args:
        mine: The attacker's own rows: matrix and labels.
        rebuilt: Rows that were made of what the protocol discloses.
        theirs: The rows attacked.
        columns: Which columns are secret, one at a time.
        cells: By column, inner ends of the cells whose number is guessed.
        seed: Of the forests.
    """
    read = []
    for column, ends in zip(columns, cells, strict=True):
        sets = []
        for matrix, label in (mine, rebuilt, theirs):
            rest = np.column_stack([np.delete(matrix, column, axis=1), label])
            sets.append((rest, np.searchsorted(ends, matrix[:, column])))
        (own, own_cell), (made, made_cell), (victims, secret) = sets
        values = np.arange(len(ends) + 1)
        blind = Decoder(own, own_cell, seed).chances(victims, values).argmax(axis=1)
        both = np.concatenate([own, made]), np.concatenate([own_cell, made_cell])
        guess = Decoder(*both, seed).chances(victims, values).argmax(axis=1)
        read.append(beyond(secret, guess, blind))
    return float(np.mean(read))
