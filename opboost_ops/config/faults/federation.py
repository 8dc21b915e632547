"""Inconsistencies of a federation file or policy."""

from collections import defaultdict
from collections.abc import Iterator

from opboost_ops.config.faults.features import (
    category_faults,
    feature_faults,
    own_feature_faults,
    protected_feature_faults,
    public_map_faults,
)
from opboost_ops.config.faults.training import dpboost_faults, sum_faults, training_faults
from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import Federation, Party
from opboost_ops.config.policy import Policy
from opboost_ops.config.terms import schedule_faults
from opboost_ops.config.training import DPBoostTraining, scoring_faults
from opboost_ops.errors import Fault

#: Number of parties in horizontal learning. With two, the sum would disclose the other's value; the
#: maximum is the largest number that was tested.
MIN_PARTIES, MAX_PARTIES = 3, 32


def alignment_faults(federation: Federation) -> Iterator[Fault]:
    """Yield missing encryption keys, and choices of rows that conflict with other entries."""
    # With one feature holder, each policy's require_encryption decides.
    for name in federation.feature_holders if federation.has_shares else ():
        if federation.parties[name].encryption_key is None:
            yield Fault(
                f"parties.{name}.encryption_key",
                "is required: feature holders share keys with one another, so that a row opens "
                "only where all of them have the person",
                "make one with `opboost keys renew SITE encryption`",
            )
    training = federation.training
    if federation.keeps_all and (training.trainer == "dpboost" or federation.denoising != "none"):
        yield Fault(
            "alignment.overlap",
            "is `left`, which leaves missing values; DPBoost and denoise take none",
            "declare `common`, or train with LightGBM or XGBoost and `denoise: none`",
        )


def federation_faults(federation: Federation) -> Iterator[Fault]:
    """Yield all inconsistencies of a federation whose single entries are valid."""
    if federation.name == "all":
        yield Fault("name", "is the ledger's word for all federations", "choose another")
    horizontal, training = federation.learning == "horizontal", federation.training
    if horizontal != (training.trainer == "federboost"):
        yield Fault(
            "training.trainer",
            f"is {training.trainer}, and learning is {federation.learning}",
            "horizontal learning has federboost, vertical learning the others",
        )
    yield from horizontal_faults(federation) if horizontal else _vertical_faults(federation)
    for where, name, feature in _features(federation):
        yield from feature_faults(where, feature)
        if feature.type == "nominal" and feature.domain is not None:
            yield Fault(f"{where}.domain", "is not for a nominal feature", "remove it")
        if name == federation.id.column:
            yield Fault(where, "is the ID column", "an ID is never a feature")
    yield from _uuid_faults(federation)
    crons = federation.schedule.cron, federation.scoring.cron
    yield from schedule_faults(federation.terms, *crons)
    label = federation.label
    yield from training_faults(federation, label)
    yield from _key_faults(federation)
    private = training.private is not None
    yield from scoring_faults(federation.scoring, label.task if label else None, private)


def _features(federation: Federation) -> Iterator[tuple[str, str, Feature]]:
    """Yield place, name and declaration of each feature once."""
    for party, spec in federation.parties.items():
        if spec.role == "passive":
            continue
        for name, feature in spec.features.items():
            yield f"parties.{party}.features.{name}", name, feature


def _uuid_faults(federation: Federation) -> Iterator[Fault]:
    places: dict[str, str] = {}
    for where, _, feature in _features(federation):
        if (other := places.get(str(feature.uuid))) is not None:
            yield Fault(
                f"{where}.uuid",
                f"is also that of {other}",
                "each column has its own, permanent UUID",
            )
        places[str(feature.uuid)] = where


def _vertical_faults(federation: Federation) -> Iterator[Fault]:
    holders = [name for name, p in federation.parties.items() if p.role == "label_holder"]
    if len(holders) != 1:
        yield Fault("parties", f"has {len(holders)} label holders", "exactly one is needed")
    if not federation.feature_holders:
        yield Fault("parties", "has no feature holder", "at least one is needed")
    yield from alignment_faults(federation)
    if isinstance(federation.training, DPBoostTraining):
        yield from dpboost_faults(federation)
    for name, party in federation.parties.items():
        if party.role in ("active", "passive"):
            yield Fault(
                f"parties.{name}.role",
                f"is {party.role}, which is for horizontal learning",
                "write label_holder or feature_holder",
            )
            continue
        yield from _party_faults(federation, f"parties.{name}", party)


def _party_faults(federation: Federation, where: str, party: Party) -> Iterator[Fault]:
    if party.role == "label_holder":
        if party.label is None:
            yield Fault(f"{where}.label", "is required of the label holder")
        elif party.label.bounds is not None and federation.training.trainer != "dpboost":
            yield Fault(
                f"{where}.label.bounds",
                "is only for dpboost and for horizontal learning",
                "remove it",
            )
    else:
        if party.label is not None:
            yield Fault(f"{where}.label", "is only for the label holder")
        if not party.features:
            yield Fault(f"{where}.features", "is empty", "a feature holder gives at least one")
    for name, feature in party.features.items():
        place = f"{where}.features.{name}"
        if party.label and name == party.label.column:
            yield Fault(place, "is the label", "a label is never a feature")
        if party.role == "label_holder":
            yield from own_feature_faults(place, feature)
            continue
        if "=" in name:
            yield Fault(
                place, "holds =, which joins a feature and its category", "rename the column"
            )
        domain = federation.domain.to_domain()
        yield from protected_feature_faults(place, feature, domain)


def _key_faults(federation: Federation) -> Iterator[Fault]:
    keys: dict[str, str] = {}
    for name, party in federation.parties.items():
        where = f"parties.{name}"
        named: list[tuple[str, str | None]] = [
            (kind, getattr(party, kind)) for kind in ("signing_key", "encryption_key")
        ]
        named += [(f"former_keys[{i}]", f.key) for i, f in enumerate(party.former_keys)]
        for kind, key in named:
            if key is not None and key in keys:
                same = keys[key] == name
                other = "its signing key" if kind == "encryption_key" else "another key of its own"
                yield Fault(
                    f"{where}.{kind}",
                    f"is also {other}" if same else f"is also that of {keys[key]}",
                    "each party makes its own with `opboost keys init`",
                )
            elif key is not None:
                keys[key] = name
            if key in party.revoked_keys:
                yield Fault(
                    f"{where}.{kind}",
                    "is revoked, too",
                    "a revoked key stays revoked: `opboost keys renew` makes a new one",
                )
        first, last = party.signing_key_from, party.signing_key_expires
        if first is not None and last is not None and first > last:
            yield Fault(f"{where}.signing_key_from", "is after signing_key_expires")


def policy_faults(policy: Policy) -> Iterator[Fault]:
    """Yield raw columns that have two names."""
    columns: dict[str, list[str]] = defaultdict(list)
    for name, rule in policy.features.items():
        columns[rule.column or name].append(f"features.{name}")
    for name, column in policy.columns.items():
        if name in policy.features:
            yield Fault(f"columns.{name}", "is a feature", f"write features.{name}.column instead")
        else:
            columns[column].append(f"columns.{name}")
    if policy.id_column is not None:
        columns[policy.id_column].append("id_column")
    for places in columns.values():
        for place in places[1:]:
            where = f"{place}.column" if place.startswith("features.") else place
            yield Fault(where, f"is also the raw column of {places[0]}", "name each of them once")


def horizontal_faults(federation: Federation) -> Iterator[Fault]:
    """Yield all inconsistencies of a horizontal federation."""
    count = len(federation.parties)
    if not MIN_PARTIES <= count <= MAX_PARTIES:
        yield Fault(
            "parties",
            f"are {count}, and secure aggregation takes {MIN_PARTIES} to {MAX_PARTIES}",
            "with two, each would learn the other's sums",
        )
    active = [name for name, party in federation.parties.items() if party.role == "active"]
    if len(active) != 1:
        yield Fault("parties", f"has {len(active)} active parties", "exactly one is needed")
    for name, party in federation.parties.items():
        where = f"parties.{name}"
        if party.role not in ("active", "passive"):
            yield Fault(
                f"{where}.role",
                f"is {party.role}, which is for vertical learning",
                "write active for the party that opens runs, passive for the others",
            )
        for key in ("label", "features") if party.role == "passive" and active else ():
            own = getattr(party, key)
            # A plan repeats them at each party.
            if own and own != getattr(federation.parties[active[0]], key):
                yield Fault(f"{where}.{key}", "is declared once for all parties",
                            f"move it to {active[0]}, the active party")  # fmt: skip
    alignment = federation.alignment
    if alignment.overlap == "left":
        yield Fault(
            "alignment",
            "is only for vertical learning",
            "the parties have different people: leave it out",
        )
    if federation.training.trainer == "federboost":
        yield from sum_faults(federation)
    scoring = federation.scoring
    if ("mode" in scoring.model_fields_set and scoring.mode != "local") or scoring.evaluate:
        yield Fault("scoring", "has a mode other than local",
                    "in horizontal learning every party scores its own rows locally")  # fmt: skip
    if len(active) == 1:
        yield from _label_faults(federation, f"parties.{active[0]}.label")
        yield from _feature_faults(federation, f"parties.{active[0]}.features")


def _label_faults(federation: Federation, where: str) -> Iterator[Fault]:
    label = federation.label
    if label is None:
        yield Fault(where, "is required of horizontal learning", "declare the common target")
        return
    if label.task == "regression":
        if label.bounds is None or not label.bounds[0] < label.bounds[1]:
            yield Fault(f"{where}.bounds", "is required: a public lower and a greater upper bound",
                        "for example [0, 100]")  # fmt: skip
        return
    if label.bounds is not None:
        yield Fault(f"{where}.bounds", "is only for regression", "remove it")
    class_count = len(set(label.classes or ()))
    if (
        class_count < 2
        or class_count < len(label.classes or ())
        or (label.task == "binary" and class_count != 2)
    ):
        needs = "two" if label.task == "binary" else "two or more"
        yield Fault(f"{where}.classes", "is required of horizontal learning, where nobody sees all",
                    f"list the {needs} classes")  # fmt: skip


def _feature_faults(federation: Federation, inside: str) -> Iterator[Fault]:
    if not federation.shared_features:
        yield Fault(inside, "is required of horizontal learning", "declare the common columns")
    for name, feature in federation.shared_features.items():
        where = f"{inside}.{name}"
        if federation.label and name == federation.label.column:
            yield Fault(where, "is the label", "a label is never a feature")
        if "=" in name:
            yield Fault(
                where, "holds =, which joins a feature and its category", "rename the column"
            )
        if feature.mechanism is not None:
            yield Fault(
                f"{where}.mechanism", "is not for horizontal learning: no cell is sent", "remove it"
            )
        yield from own_feature_faults(where, feature)
        if feature.type == "nominal":
            yield from category_faults(where, feature.categories or ())
            if feature.missing == "keep":
                yield Fault(
                    f"{where}.missing",
                    "is keep, which the bits of a category cannot represent",
                    "declare a separate category, and fill with it",
                )
        else:
            yield from public_map_faults(where, feature, federation.domain.to_domain())
