"""Changes of a federation file, explained to a party that is asked to agree.

Each changed field has its old and new value, and what the change discloses or costs. A change that
causes cells to be drawn again costs the loss of another release.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opboost_ops.config.agreement import differences, document
from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.privacy.consent.agreements import Agreements
from opboost_ops.privacy.loss import LossCurve, column_losses

_CHANGES_OF_TRAINING = {
    "holdout": "which rows a model is judged by, which concerns only the label holder",
    "trainer": "which booster learns from what was released; what leaves is the same",
}

_ALIGNED = (
    "sealed rows of everybody in each feature holder's table leave and are charged; the label "
    "holder opens those of the people that it queries, within the caps of each policy, and {}"
)
_QUERY_RESULTS = {
    "common": "whom all parties have",
    "left": "learns which of them are in each single feature holder's table",
}

#: Loss(R - L) of another draw, by charge.
Costs = Mapping[str, float]


@dataclass(frozen=True)
class Change:
    """A changed field.

    Attributes:
        field: Its path in the agreed document.
        before: The value agreed before; None if there was none.
        after: The requested value; None if it was removed.
        means: What the change discloses or costs.
    """

    field: str
    before: Any
    after: Any
    means: str


@dataclass(frozen=True)
class Leaving:
    """A randomised release of a party.

    Attributes:
        party: The sender.
        receiver: The receiver.
        charge: A feature, or its missing bit.
        epsilon: Its nominal epsilon.
        curve: Its loss curve.
    """

    party: str
    receiver: str
    charge: str
    epsilon: float
    curve: LossCurve

    @property
    def feature(self) -> str:
        """The feature whose value, or missing bit, is released."""
        return self.charge.partition("=")[0]


def leaving(federation: Federation, party: str) -> list[Leaving]:
    """Return the randomised releases of a party, without exact ones.

    Args:
        federation: The declared federation.
        party: The party.
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
    """List the changes for a party since its newest agreement.

    Args:
        agreements: The party's agreements.
        federation: The declared federation.
    """
    earlier = agreements.of(federation.name)
    before: Mapping[str, Any] = earlier[-1].content if earlier else {}
    after = document(federation)
    fields = [
        *_fields("protocol", before.get("protocol"), after["protocol"]),
        *_fields("federation", before.get("federation"), after["federation"]),
    ]
    # Loss(R - L) of another draw, by charge.
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
        # Skip columns owner change is explained by another declaration.
        if old and new and not explained & {"*", column.split("=")[0]}:
            all_changes += _recomputed(column, old, new, agreements.party, costs)
    return all_changes


def _recomputed(column: str, before: Any, after: Any, party: str, costs: Costs) -> Iterator[Change]:
    """Yield changes caused only by the software version, where the declarations are equal."""
    name = column.removeprefix(f"{party}.")
    new_costs = {name: costs[name]} if name != column and name in costs else {}
    for path, old, new in differences(before, after):
        what = "map onto the domain" if path == "map" else "sampled table"
        means = f"this software version computes another {what}{_draw(party, new_costs)}"
        yield Change(f"columns.{column}.{path}", old, new, means)


def _fields(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield differing fields; an added or removed object is split into its named parts."""
    for field, old, new in differences(before, after, path):
        steps = field.split(".")
        has_named_parts = steps in (["federation"], ["federation", "parties"])
        has_named_parts |= steps[:2] == ["federation", "parties"] and len(steps) == 3
        has_named_parts |= steps[:2] == ["federation", "parties"] and steps[3:] == ["features"]
        if has_named_parts and (old is None or new is None):
            for name in sorted({*(old or {}), *(new or {})}):
                yield from _fields(f"{field}.{name}", (old or {}).get(name), (new or {}).get(name))
        else:
            yield field, old, new


def _column_of(path: str) -> str:
    steps = path.split(".")
    if path.startswith(("federation.id", "federation.domain")):
        return "*"
    if len(steps) > 4 and steps[3] == "features":
        return f"{steps[2]}.{steps[4]}"
    return ""


def _column(content: Mapping[str, Any], party: str, charge: str) -> Any:
    """Return map and channel of a numeric or ordinal feature; None for a nominal feature."""
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
            return "runs with parties of another version are rejected until they agree, too"
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
            return _ALIGNED.format(_QUERY_RESULTS[federation.alignment.overlap])
        case ["federation", "domain", *_]:
            drawn = "" if before is None else _draw(party, costs)
            return (
                "the integers on which protected features without a domain of their own are "
                f"released{drawn}"
            )
        case ["federation", "name" | "uuid" | "version"]:
            return "identifies the federation, and the version of its file"
        case ["federation", "parties", owner, *_] if owner not in federation.parties:
            return f"{owner} leaves; its releases remain charged"
        case ["federation", "parties", owner, "revoked_keys"]:
            return f"signatures by these keys of {owner} are refused from now on"
        case ["federation", "parties", owner, "former_keys"]:
            return (
                f"keys that {owner} has replaced; until its date, such a key still signs for "
                f"{owner}, or decrypts what current runs send to it"
            )
        case [
            "federation",
            "parties",
            owner,
            "signing_key" | "signing_key_from" | "signing_key_expires",
        ]:
            return f"the key by which {owner} signs: compare its fingerprint by telephone first"
        case ["federation", "parties", owner, "encryption_key"]:
            return (
                f"the key that opens what is sent to {owner}; without one, every reader of the "
                "store can read it"
            )
        case ["federation", "parties", owner, "role"]:
            return f"{owner} joins" if before is None else f"{owner} is the {after} from now on"
        case ["federation", "parties", owner, "label", *_]:
            return "what the model learns to predict; labels stay where they are"
        case ["federation", "parties", owner, "features", feature, *rest]:
            mine = _charges(costs, feature) if owner == party else {}
            return _of_a_feature(owner, feature, rest, before, after, receiver, mine, federation)
        case ["federation", "training", *_] if federation.learning == "horizontal":
            return "decides which sums over the parties' rows are released, exactly"
        case ["federation", "training"]:
            return "how the label holder trains, and which rows a model is judged by"
        case ["federation", "training", key, *_]:
            return _CHANGES_OF_TRAINING.get(
                key, "how the label holder trains; the same data is released"
            )
        case ["federation", "scoring", *_]:
            return (
                "what is released of every new row that is scored: `routed` discloses exactly on "
                "which side of each threshold of the model it lies"
            )
        case _:
            return "applies to every party"


def _of_a_feature(
    owner: str,
    feature: str,
    rest: list[str],
    before: Any,
    after: Any,
    receiver: str,
    mine: Costs,
    federation: Federation,
) -> str:
    protected = owner in federation.feature_holders
    if not protected:
        sums = "sums over it leave" if federation.learning == "horizontal" else "it stays there"
        return f"a column of {owner}: {sums}"
    if not rest and after is None:
        return f"{owner} stops releasing {feature}; its releases remain charged"
    if not rest and before is None:
        cost = f", at a loss of {_named(mine)}" if mine else ""
        return f"{owner} releases every row's {feature}, randomised, to {receiver}{cost}"
    if rest[:1] == ["uuid"]:
        return "the same data is released: releases and budgets depend on the raw column"
    if rest[:2] == ["missing", "bit"]:
        bits = {charge: loss for charge, loss in mine.items() if charge != feature}
        return f"whether a value of {feature} is missing{_draw(owner, bits)}"
    own = {charge: loss for charge, loss in mine.items() if charge == feature}
    return f"cells of {feature} get other values or other noise{_draw(owner, own)}"


def _charges(costs: Costs, feature: str) -> Costs:
    return {charge: loss for charge, loss in costs.items() if charge.split("=")[0] == feature}


def _draw(party: str, costs: Costs) -> str:
    if not costs:
        return ""
    return f"; {party} releases these columns again, each at its full loss: {_named(costs)}"


def _named(costs: Costs) -> str:
    return ", ".join(f"{charge} {loss:.3f}" for charge, loss in costs.items())
