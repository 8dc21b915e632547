"""Changes of a federation file for a party that is asked to agree, in words.

For each changed field: what it was, what it would be, and what the change itself discloses or
costs. A change by which cells are drawn again costs the loss of a release once more.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opboost_ops.config.agreement import differences, document
from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.privacy.consent.agreements import Agreements
from opboost_ops.privacy.loss import LossCurve, column_losses

_INSIDE_VERTICAL = {
    "holdout": "which rows a model is judged by: the label holder's own affair",
    "trainer": "which booster learns from what was released; what leaves is the same",
}

_ALIGNED = (
    "sealed rows of everybody in each feature holder's table leave and are charged; the label "
    "holder opens those of the people that it queries, within the caps of each policy, and {}"
)
_WHOM = {
    "common": "whom all parties have",
    "left": "learns which of them are in each single feature holder's table",
}

#: Loss(R - L) of one more draw, by what is charged.
Costs = Mapping[str, float]


@dataclass(frozen=True)
class Change:
    """One field that is new.

    Attributes:
        field: Its path in what is agreed.
        before: What was agreed before; None where there was nothing.
        after: What is asked for; None where it is gone.
        means: What it discloses or costs.
    """

    field: str
    before: Any
    after: Any
    means: str


@dataclass(frozen=True)
class Leaving:
    """A release of a party's.

    Attributes:
        party: Who sends.
        receiver: To whom.
        charge: What is charged: a feature, or its missing bit.
        epsilon: Its nominal epsilon.
        curve: Its loss.
    """

    party: str
    receiver: str
    charge: str
    epsilon: float
    curve: LossCurve

    @property
    def feature(self) -> str:
        """The feature of whose value, or missing bit, it is."""
        return self.charge.partition("=")[0]


def leaving(federation: Federation, party: str) -> list[Leaving]:
    """Randomised releases of a party; nothing that is exact.

    Args:
        federation: As declared.
        party: Its name.
    """
    if party not in federation.feature_holders:
        return []
    columns = columns_of(federation, party)
    epsilons = {column.charge: column.mechanism.epsilon for column in columns}
    return [
        Leaving(party, federation.label_holder, charge, epsilons[charge], curve)
        for charge, curve in column_losses(columns).items()
    ]


def changes(agreements: Agreements, federation: Federation) -> list[Change]:
    """List the changes for a party, against the newest agreement that it made.

    Args:
        agreements: What the party has agreed to.
        federation: As declared.
    """
    earlier = agreements.of(federation.name)
    before: Mapping[str, Any] = earlier[-1].content if earlier else {}
    after = document(federation)
    fields = [
        *_fields("protocol", before.get("protocol"), after["protocol"]),
        *_fields("federation", before.get("federation"), after["federation"]),
    ]
    # Loss(R - L) of one more draw, by what is charged.
    costs = {
        line.charge: float(line.curve.loss[-1]) for line in leaving(federation, agreements.party)
    }
    on_domain = {
        charge: loss
        for charge, loss in costs.items()
        if _column(before, agreements.party, charge) != _column(after, agreements.party, charge)
    }
    if earlier and earlier[-1].withdrawn is not None:
        fields.append(("agreement", f"number {earlier[-1].number}, withdrawn", "in force again"))
    all_changes = [
        Change(
            path,
            old,
            new,
            _means(
                path.split("."),
                old,
                new,
                federation,
                agreements.party,
                on_domain if path.startswith("federation.domain") else costs,
            ),
        )
        for path, old, new in fields
    ]
    explained = {_column_of(path) for path, _, _ in fields}
    for column in sorted({*before.get("columns", {}), *after["columns"]}):
        old, new = before.get("columns", {}).get(column), after["columns"].get(column)
        # What another declaration explains is told there.
        if old and new and not explained & {"*", column.split("=")[0]}:
            all_changes += _recomputed(column, old, new, agreements.party, costs)
    return all_changes


def _recomputed(column: str, before: Any, after: Any, party: str, costs: Costs) -> Iterator[Change]:
    """Changes by this version of the software alone, where nothing declared differs."""
    name = column.removeprefix(f"{party}.")
    mine = {name: costs[name]} if name != column and name in costs else {}
    for path, old, new in differences(before, after):
        what = "map onto the domain" if path == "map" else "sampled table"
        means = f"this software computes another {what}{_draw(party, mine)}"
        yield Change(f"columns.{column}.{path}", old, new, means)


def _fields(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    """Differing fields; of a whole that is new or gone, each part that people know by name."""
    for at, old, new in differences(before, after, path):
        steps = at.split(".")
        whole = steps in (["federation"], ["federation", "parties"])
        whole |= steps[:2] == ["federation", "parties"] and len(steps) == 3
        whole |= steps[:2] == ["federation", "parties"] and steps[3:] == ["features"]
        if whole and (old is None or new is None):
            for name in sorted({*(old or {}), *(new or {})}):
                yield from _fields(f"{at}.{name}", (old or {}).get(name), (new or {}).get(name))
        else:
            yield at, old, new


def _column_of(path: str) -> str:
    steps = path.split(".")
    if path.startswith(("federation.id", "federation.domain")):
        return "*"
    if len(steps) > 4 and steps[3] == "features":
        return f"{steps[2]}.{steps[4]}"
    return ""


def _column(content: Mapping[str, Any], party: str, charge: str) -> Any:
    """Map and channel of a number or an ordered category; None of a nominal feature."""
    return content.get("columns", {}).get(f"{party}.{charge}")


def _means(
    steps: list[str],
    before: Any,
    after: Any,
    federation: Federation,
    party: str,
    costs: Costs,
) -> str:
    receiver = federation.label_holder
    match steps:
        case ["protocol"]:
            return "runs with parties of another version are refused until they have agreed, too"
        case ["agreement"]:
            return "plans are answered again"
        case ["federation", "id"] if before is None:
            return "which column identifies a person"
        case ["federation", "id", *_]:
            return (
                "which column identifies a person: a person with another ID counts as new, and "
                "has to be forgotten again by the new ID, `opboost forget`"
                f"{_draw(party, costs)}"
            )
        case ["federation", "terms", *_]:
            return "the purpose, the end, the frequency and the retention of what is sent"
        case ["federation", "alignment", *_]:
            return _ALIGNED.format(_WHOM[federation.alignment.overlap])
        case ["federation", "domain", *_]:
            drawn = "" if before is None else _draw(party, costs)
            return (
                "the integers on which protected features without a domain of their own are "
                f"released{drawn}"
            )
        case ["federation", "name" | "uuid" | "version"]:
            return "identifies the federation, and the version of its file"
        case ["federation", "parties", whose, "revoked_keys"]:
            return f"signatures by these keys of {whose} are refused from now on"
        case ["federation", "parties", whose, "former_keys"]:
            return (
                f"keys that {whose} has replaced; until its date one still speaks for {whose}, or "
                "opens what runs under way address to it"
            )
        case [
            "federation",
            "parties",
            whose,
            "signing_key" | "signing_key_from" | "signing_key_expires",
        ]:
            return f"the key by which {whose} signs: compare its fingerprint by telephone first"
        case ["federation", "parties", whose, "encryption_key"]:
            return (
                f"the key that opens what is sent to {whose}; without one, every reader of the "
                "store can read it"
            )
        case ["federation", "parties", whose, "role"]:
            return f"{whose} joins" if before is None else f"{whose} is the {after} from now on"
        case ["federation", "parties", whose, "label", *_]:
            return "what the model learns to predict; labels stay where they are"
        case ["federation", "parties", whose, "features", feature, *rest]:
            mine = _charges(costs, feature) if whose == party else {}
            return _of_a_feature(whose, feature, rest, before, after, receiver, mine, federation)
        case ["federation", "parties", whose, *_] if after is None and len(steps) == 4:
            return f"{whose} leaves, or stops declaring it"
        case ["federation", "training", *_] if federation.learning == "horizontal":
            return "decides which sums over the parties' rows leave, exactly"
        case ["federation", "training"]:
            return "how the label holder trains, and by which rows a model is judged"
        case ["federation", "training", key, *_]:
            return _INSIDE_VERTICAL.get(key, "how the label holder trains; what leaves is the same")
        case ["federation", "scoring", *_]:
            return (
                "what leaves of every new row that is scored: `routed` tells on which side of "
                "each threshold of the model it lies, exactly"
            )
        case _:
            return "every party runs by it"


def _of_a_feature(
    whose: str,
    feature: str,
    rest: list[str],
    before: Any,
    after: Any,
    receiver: str,
    mine: Costs,
    federation: Federation,
) -> str:
    protected = whose in federation.feature_holders
    if not protected:
        sums = "sums over it leave" if federation.learning == "horizontal" else "it stays there"
        return f"a column of {whose}: {sums}"
    if not rest and after is None:
        return f"{whose} stops releasing {feature}; its releases stay charged"
    if not rest and before is None:
        cost = f", at a loss of {_named(mine)}" if mine else ""
        return f"{whose} releases every row's {feature}, randomised, to {receiver}{cost}"
    if rest[:1] == ["uuid"]:
        return "what leaves is the same: releases and budgets go by the raw column"
    if rest[:2] == ["missing", "bit"]:
        bits = {charge: loss for charge, loss in mine.items() if charge != feature}
        return f"whether a value of {feature} is missing{_draw(whose, bits)}"
    own = {charge: loss for charge, loss in mine.items() if charge == feature}
    return f"cells of {feature} become other values, or other noise{_draw(whose, own)}"


def _charges(costs: Costs, feature: str) -> Costs:
    return {charge: loss for charge, loss in costs.items() if charge.split("=")[0] == feature}


def _draw(party: str, costs: Costs) -> str:
    if not costs:
        return ""
    return f"; {party} releases these columns once more, each at its full loss: {_named(costs)}"


def _named(costs: Costs) -> str:
    return ", ".join(f"{charge} {loss:.3f}" for charge, loss in costs.items())
