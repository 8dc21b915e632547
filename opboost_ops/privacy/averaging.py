"""Attacks on several releases of the same rows: averaging them, and linking their rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import Mechanism
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.release import randomise
from opboost_ops.privacy.attacks import (
    ROUNDING,
    Attack,
    best_windows,
    marginal_of,
    measured,
    median_success,
    positions,
    require_rows,
    tolerance_of,
)

#: Cells of a rows x inputs table per block: 16 MB of float64.
_CELLS = 2**21


@dataclass(frozen=True)
class Retrainings:
    """Success of averaging after 1, 2, ... retrainings on unchanged values.

    Attributes:
        pinned: With pinned responses: every retraining repeats the first release.
        fresh: Hypothetically, with new noise in every retraining.
    """

    pinned: tuple[Attack, ...]
    fresh: tuple[Attack, ...]


def averaging(
    values: np.ndarray,
    channel: Channel,
    releases: np.ndarray,
    tolerance: int,
    marginal: np.ndarray | None = None,
) -> Attack:
    """Guess every value from several releases of it, by the best window of the posterior.

    The posterior is p(x) times the product of Pr[y_i | x]. A release that equals an earlier one in
    every row is visibly the same draw, and counts once.

    Args:
        values: True domain integers, int64, shape (n,).
        channel: Channel of every release.
        releases: int64, shape (k, n), k at least 1.
        tolerance: Steps within which a guess is correct.
        marginal: Probabilities of the inputs, shape (inputs,); by default those of the values.

    Returns:
        The attack; its baseline is the median of the values or of the marginal.

    Raises:
        ContractError: There are no rows, or a value or release does not belong to the channel.
    """
    return _curve(values, channel, releases, tolerance, marginal, [len(releases)])[0]


def fresh_and_pinned(
    values: np.ndarray,
    mechanism: Mechanism,
    domain: Domain,
    times: int,
    marginal: np.ndarray | None = None,
) -> Retrainings:
    """Measure averaging with pinned responses, and with new noise in every retraining.

    Args:
        values: True domain integers, int64, shape (n,).
        mechanism: The mechanism.
        domain: Its domain; the tolerance is 5 % of it.
        times: Maximum number of retrainings, at least 1.
        marginal: As for ``averaging``.

    Raises:
        ContractError: There are no rows, or a value lies outside the domain.
    """
    channel, tolerance = mechanism.channel(domain), tolerance_of(domain)
    fresh = np.stack([randomise(values, mechanism, domain, Words.fresh()) for _ in range(times)])
    pinned = np.repeat(fresh[:1], times, axis=0)
    after = range(1, times + 1)
    return Retrainings(
        pinned=tuple(_curve(values, channel, pinned, tolerance, marginal, after)),
        fresh=tuple(_curve(values, channel, fresh, tolerance, marginal, after)),
    )


def _curve(
    values: np.ndarray,
    channel: Channel,
    releases: np.ndarray,
    tolerance: int,
    marginal: np.ndarray | None,
    after: Sequence[int],
) -> list[Attack]:
    count = require_rows(values, *releases)
    prior = marginal_of(values, channel) if marginal is None else marginal
    places = positions(releases, channel.outputs)
    # Number of distinct draws among the first k releases.
    different = [len(np.unique(places[:k], axis=0)) for k in after]
    first_seen = np.sort(np.unique(places, axis=0, return_index=True)[1])
    placed = _placed(values, channel, places[first_seen], tolerance, prior, set(different))
    baseline = median_success(values, channel.inputs, prior, tolerance)
    return [
        measured(
            "averaging",
            placed[draws],
            count,
            baseline,
            f"each value from {k} releases, {draws} of them different, within {tolerance} steps",
        )
        for k, draws in zip(after, different, strict=True)
    ]


def _placed(
    values: np.ndarray,
    channel: Channel,
    places: np.ndarray,
    tolerance: int,
    prior: np.ndarray,
    after: set[int],
) -> dict[int, int]:
    """Count correct guesses after each number of draws; uses logs, as products would underflow."""
    with np.errstate(divide="ignore"):
        table = np.log(channel.probabilities().T)
        start = np.log(prior)
    placed = dict.fromkeys(after, 0)
    step = max(1, _CELLS // len(prior))
    for begin in range(0, len(values), step):
        rows = slice(begin, begin + step)
        posterior = np.broadcast_to(start, (len(values[rows]), len(start)))
        for draws, outputs in enumerate(places[:, rows], start=1):
            posterior = posterior + table[outputs]
            if draws in after:
                top = posterior.max(axis=1, keepdims=True)
                # If no value in the prior explains the releases, all weights are zero.
                weights = np.exp(posterior - np.where(np.isfinite(top), top, 0))
                guessed = channel.inputs[best_windows(weights, tolerance)[0]]
                placed[draws] += int((np.abs(guessed - values[rows]) <= tolerance).sum())
    return placed


def link(
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    channel_first: Sequence[Channel],
    channel_second: Sequence[Channel],
    marginal: Sequence[np.ndarray],
    sample: int = 200,
) -> Attack:
    """Find people of one receiver's artifact in another's, which has independent noise.

    A pair of rows is scored by the likelihood ratio of one person against two,
    sum over columns of ln(sum over x of p(x) Pr1[y | x] Pr2[y' | x]) - ln(Pr1[y] Pr2[y']),
    assuming independent columns. The attacker picks the highest score; a tie of t rows that
    includes the correct one counts 1 / t.

    Args:
        first: The columns that both receivers have, as the first sees them, int64, each (n,).
        second: The same as the second sees them, with the same person in the same row.
        channel_first: Channel of each column to the first receiver.
        channel_second: Channel of each column to the second receiver.
        marginal: Probabilities of each column's inputs, each (inputs,).
        sample: Maximum number of the first's rows to look for, evenly spaced.

    Raises:
        ContractError: There are no rows, or a release is not an output of its channel.
    """
    n = require_rows(*first, *second)
    rows = np.unique(np.linspace(0, n - 1, min(sample, n)).astype(np.int64))
    score = np.zeros((len(rows), n))
    for y, z, channel_y, channel_z, prior in zip(
        first, second, channel_first, channel_second, marginal, strict=True
    ):
        ratio = _log_ratio(channel_y.probabilities(), channel_z.probabilities(), prior)
        score += ratio[positions(y, channel_y.outputs)[rows]][:, positions(z, channel_z.outputs)]
    best = score.max(axis=1, keepdims=True)
    tied = score >= best - ROUNDING
    right = tied[np.arange(len(rows)), rows] / tied.sum(axis=1)
    return measured(
        "link",
        float(right.sum()),
        len(rows),
        1 / n,
        f"each person among {n} rows of another receiver, over {len(first)} columns",
        "a random pick",
    )


def _log_ratio(first: np.ndarray, second: np.ndarray, prior: np.ndarray) -> np.ndarray:
    joint = first.T @ (prior[:, None] * second)
    apart = np.outer(prior @ first, prior @ second)
    possible = joint > 0
    ratio = np.full(joint.shape, -np.inf)
    ratio[possible] = np.log(joint[possible] / apart[possible])
    return ratio
