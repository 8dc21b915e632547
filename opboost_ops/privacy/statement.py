"""A party's ledger as people read it: forecasts by column, and all that has no epsilon."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from opboost_ops.config.policy import FeatureRule, Policy
from opboost_ops.privacy.accountant import Account
from opboost_ops.privacy.budgets import Forecast, forecast
from opboost_ops.privacy.events import Draw, Release
from opboost_ops.privacy.loss import LossCurve

#: What a column is judged by that the policy does not name.
_NO_RULE = FeatureRule(mechanisms=("none",))


@dataclass(frozen=True)
class ExactLine:
    """What was told without any epsilon, and how often."""

    receiver: str
    kind: str
    times: int
    discloses: str


def latest_curves(releases: Sequence[Release]) -> dict[UUID, dict[str, LossCurve]]:
    """The last published loss curves of each column.

    Args:
        releases: Of one party, oldest first.

    Returns:
        By column, its own curve under an empty name and its missing bit's under the bit's,
        whatever the column was called.
    """
    latest: dict[UUID, dict[str, LossCurve]] = defaultdict(dict)
    for release in releases:
        if release.column is not None and release.loss is not None:
            latest[release.column][(release.feature or "").partition("=")[2]] = release.loss
    return latest


def protections(releases: Sequence[Release]) -> dict[UUID, str]:
    """How each column was last protected, in words, and what hangs on where edges come from.

    Args:
        releases: Of one party, oldest first.
    """
    latest = latest_curves(releases)
    return {uuid: curves[""].mechanism for uuid, curves in latest.items() if "" in curves}


def forecasts(found: Mapping[UUID, Account], policy: Policy) -> dict[UUID, Forecast]:
    """What is left of each column's budgets.

    Args:
        found: What the columns have cost.
        policy: The party's.
    """
    return {
        uuid: forecast(account, policy.rule_of(uuid, account.feature) or _NO_RULE)
        for uuid, account in found.items()
    }


def exact_lines(releases: Iterable[Release]) -> list[ExactLine]:
    """All that has no epsilon, equal lines as one.

    Args:
        releases: Of one party.
    """
    found: dict[tuple[str, str, str], int] = defaultdict(int)
    for release in releases:
        if release.account not in ("local_dp", "model"):
            found[release.receiver, release.kind, release.discloses] += 1
    return [
        ExactLine(receiver, kind, times, discloses)
        for (receiver, kind, discloses), times in found.items()
    ]


#: Columns of `plain_line`, in their order.
PLAIN_FIELDS = (
    "recorded_at",
    *(name for name in Release.model_fields if name not in ("loss", "curve", "draw")),
    *(f"draw_{name}" for name in Draw.model_fields),
    "mechanism",
    "loss_1",
    "loss_whole",
)


def plain_line(at: str, release: Release) -> dict[str, Any]:
    """A ledger line for a table of plain cells.

    Args:
        at: When it was reserved.
        release: The line.
    """
    plain = release.model_dump(mode="json", exclude={"loss", "curve", "draw"})
    line: dict[str, Any] = {"recorded_at": at, **plain}
    if release.draw is not None:
        line |= {f"draw_{name}": value for name, value in release.draw.model_dump().items()}
    line["edges"] = " ".join(map(str, release.edges))
    if release.loss is not None:
        line |= {"mechanism": release.loss.mechanism}
        line |= {"loss_1": release.loss.loss[0], "loss_whole": release.loss.loss[-1]}
    return line
