"""An audit of a whole private session as a black box: what it tells of one row, at least.

In the box is what a session runs, in one process: `learn_private` with the noise and the masks of
`exchange.rounds`. Left out are signatures, store and ledger, which draw nothing. Around it stands
who knows all other rows, is the active party and kappa - 1 more, and takes their noise off.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.experiment import Experiment, Options, Progress
from benchmarks.papers.lower_bounds import BOUNDS, audited, bounds
from benchmarks.papers.markdown import table
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.exchange.rounds.masks import Masks, RunKey, sum_without_masks
from opboost_ops.exchange.rounds.protocol import Alone, Phase, Round
from opboost_ops.learning.federboost.federboost import Settings
from opboost_ops.learning.federboost.histogram import Growth
from opboost_ops.learning.federboost.objectives import Objective
from opboost_ops.learning.federboost.private_federboost import Private, learn_private, noise_of
from opboost_ops.learning.federboost.sum_noise import SumNoise
from opboost_ops.learning.private import noise

#: A tiny problem: one column of four values in two buckets, one tree of one level.
SETTINGS = Settings(
    Objective("binary", 2), (Domain(1, 4),), 1, 2, Growth(1, 0.3, 1.0, 1)
)  # fmt: skip
#: Everybody's rows but for the one in question: column, then labels.
KNOWN = (np.array([1, 2, 3, 4, 2, 3]), np.array([0, 0, 1, 1, 0, 1]))
ROW = (np.array([4]), np.array([1]))


@dataclass(frozen=True)
class Setting:
    """What is audited.

    Attributes:
        parties: n.
        colluding: kappa.
        epsilon: Declared.
        delta: Declared.
        weakened: What the noise's mean is divided by: 1 but in a test of the audit itself.
    """

    parties: int = 3
    colluding: int = 1
    epsilon: float = 1.0
    delta: float = 0.005
    weakened: int = 1

    @property
    def noise(self) -> SumNoise:
        """What each party adds."""
        honest = self.parties - self.colluding
        return noise_of(SETTINGS, Private(self.epsilon, self.delta, honest))


@dataclass
class Session(Alone):
    """`Rounds` of all parties of a session at once; the first is active.

    Attributes:
        seen: By round, what the coalition has: the sum without its own noise.
        decided: By round, the decision.
    """

    derives = False

    setting: Setting
    added: SumNoise
    seen: dict[str, np.ndarray] = field(default_factory=dict)
    decided: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [f"p{i:02d}" for i in range(self.setting.parties)]
        keys = {name: RunKey(noise.fresh_key()) for name in names}
        public = {name: key.public for name, key in keys.items()}
        self._masks = [
            Masks(name, key, {o: p for o, p in public.items() if o != name}, "audit")
            for name, key in keys.items()
        ]

    @property
    def parties(self) -> int:  # type: ignore[override]
        """How many add up."""
        return self.setting.parties

    def step(self, name: Round, *more: Any) -> Any:
        """See `Rounds.step`."""
        self.decided[name.name] = found = super().step(name, *more)
        return found

    def _sum(self, name: Round, size: int, vector: Callable[[], np.ndarray]) -> np.ndarray:
        mean = max(1, self.added.means[name.phase] // self.setting.weakened)
        masked, own = [], np.zeros(size, dtype=np.int64)
        for i, masks in enumerate(self._masks):
            drawn = noise.skellam(size, mean)
            if i < self.setting.colluding:
                own += drawn
            # All rows are with the last; a row is not told by whose it is.
            exact = vector() if i + 1 == self.parties else np.zeros(size, dtype=np.int64)
            masked.append(masks.mask(name.name, exact + drawn))
        total = sum_without_masks(masked)
        self.seen[name.name] = total - own
        return total


@dataclass
class Replay(Alone):
    """Rounds whose decisions are known: what vectors would these rows have made?"""

    derives = False

    decided: dict[str, Any]
    parties: int
    made: dict[str, np.ndarray] = field(default_factory=dict)

    def step(self, name: Round, *more: Any) -> Any:
        """See `Rounds.step`."""
        _, vector, *_ = more
        self.made[name.name] = vector()
        return self.decided[name.name]


def guess(setting: Setting, added: SumNoise, present: bool) -> float:
    """One session, and how much it speaks for the row's being there: a log-likelihood ratio.

    Args:
        setting: What is audited.
        added: `Setting.noise`.
        present: Whether the row is there.
    """
    column, label = (
        np.concatenate(both) if present else both[0] for both in zip(KNOWN, ROW, strict=True)
    )
    private = Private(setting.epsilon, setting.delta, added.honest)

    def learn(column: np.ndarray, label: np.ndarray, rounds: Any) -> None:
        # Too many rows for delta, by noisy counts: what was seen was seen.
        with contextlib.suppress(ContractError):
            learn_private([column], label.astype(float), SETTINGS, private, rounds)

    session = Session(setting, added)
    learn(column, label, session)
    known, row = (Replay(session.decided, session.parties) for _ in range(2))
    learn(*KNOWN, known)
    learn(*ROW, row)
    total = 0.0
    for name, seen in session.seen.items():
        phase: Phase = name.partition("-")[0]  # type: ignore[assignment]
        mean = max(1, added.means[phase] // setting.weakened)
        variance = 2 * added.honest * mean
        change = row.made[name]
        total += float(((seen - known.made[name]) @ change - change @ change / 2) / variance)
    return total


def audit(setting: Setting, runs: int, progress: Progress = lambda *_: None) -> dict[str, Any]:
    """See `audited`: so many sessions with and without the row."""
    added = setting.noise
    return {
        "parties": setting.parties,
        "colluding": setting.colluding,
        "epsilon": added.curve.epsilon,
        **audited(lambda there: guess(setting, added, there), runs, setting.delta, progress),
    }


def run(options: Options) -> dict[str, Any]:
    """Audit sessions of one setting.

    Raises:
        ConfigError: In it nobody's noise counts.
    """
    parties, colluding = options["parties"], options["colluding"]
    if colluding >= parties:
        raise ConfigError(f"Of {parties} parties {colluding} collude.", "Take fewer.")
    setting = Setting(parties, colluding, options["epsilon"])
    return audit(setting, options["runs"], options.progress or (lambda *_: None))


def section(found: Mapping[str, Any], _: Path) -> str:
    """Markdown."""
    return "\n".join(
        [
            "## Horizontal sessions, audited",
            "",
            f"Whole sessions as a black box on a tiny table: {found['parties']} parties, "
            f"{found['colluding']} of them pooling what they know. The attacker says of each "
            "session whether the row was in it. Bounds are at "
            "95 %, Clopper and Pearson's and [by Gaussians]"
            "(#private-models-at-one-party-audited), "
            "and vary between runs.",
            "",
            table(
                ("sessions with the row, and without", *BOUNDS, "delta"),
                [(f"{found['runs']:,}", *bounds(found, found["epsilon"]), f"{found['delta']:g}")],
            ),
            "",
        ]
    )


EXPERIMENTS = (
    Experiment(
        "horizontal-audit",
        "A lower bound on what one row may cost in private horizontal sessions, beside epsilon.",
        run,
        section,
        options={"runs": 10_000, "parties": 3, "colluding": 1, "epsilon": 1.0},
        quick={"runs": 100},
    ),
)
