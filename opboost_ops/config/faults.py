"""What is wrong with a federation file whose entries each have the right form."""

from collections.abc import Iterator

from opboost_ops.config.alignment_faults import alignment_faults
from opboost_ops.config.denoise_faults import denoise_faults
from opboost_ops.config.feature import Feature, Fill
from opboost_ops.config.federation import Federation, Party
from opboost_ops.config.horizontal_faults import (
    HORIZONTAL_TRAINING,
    category_faults,
    horizontal_faults,
)
from opboost_ops.config.parameters import instead_of_horizontal
from opboost_ops.config.pilot import pilot_faults
from opboost_ops.config.private_faults import private_faults
from opboost_ops.config.scoring import scoring_faults
from opboost_ops.config.training_faults import training_faults
from opboost_ops.config.value_faults import value_faults
from opboost_ops.errors import ConfigError, Fault
from opboost_ops.mechanisms import BucketResponse, Designed, UnaryEncoding

#: Up to here 32-bit floats hold every midpoint of two integers, also of as many ranks.
_XGBOOST_FARTHEST = 2**22


def federation_faults(federation: Federation) -> Iterator[Fault]:
    """Everything that is wrong with a federation although each entry has its form.

    Args:
        federation: As parsed.

    Yields:
        One fault after the other.
    """
    if federation.learning == "horizontal":
        yield from horizontal_faults(federation)
    else:
        yield from _vertical_faults(federation)
    yield from training_faults(federation)
    yield from pilot_faults(federation)
    yield from _key_faults(federation)
    label = federation.label
    owners = [p.label for p in federation.parties.values() if p.role == "label_holder" and p.label]
    if label is None and owners:
        label = owners[0]
    private = federation.training.private is not None
    yield from scoring_faults(federation.scoring, label.task if label else None, private)


def _vertical_faults(federation: Federation) -> Iterator[Fault]:
    holders = [name for name, p in federation.parties.items() if p.role == "label_holder"]
    if len(holders) != 1:
        yield Fault("parties", f"has {len(holders)} label holders", "exactly one is needed")
    if not federation.feature_holders:
        yield Fault("parties", "has no feature holder", "at least one is needed")
    yield from alignment_faults(federation)
    yield from _booster_faults(federation)
    yield from private_faults(federation)
    for key in ("label", "features"):
        if getattr(federation, key):
            yield Fault(key, "is only for horizontal learning", "declare it at its party")
    for key in HORIZONTAL_TRAINING:
        if getattr(federation.training, key) is not None:
            yield Fault(
                f"training.{key}",
                "is only for horizontal learning",
                instead_of_horizontal(federation.training.trainer, key),
            )
    uuids: dict[str, str] = {}
    for name, party in federation.parties.items():
        where = f"parties.{name}"
        yield from _party_faults(federation, where, party)
        if party.label is not None and party.label.bounds is not None:
            yield Fault(f"{where}.label.bounds", "is only for horizontal learning", "take it out")
        for feature, declared in party.features.items():
            place = f"{where}.features.{feature}"
            if feature == federation.id.column:
                yield Fault(place, "is the ID column", "an ID is never a feature")
            if party.label and feature == party.label.column:
                yield Fault(place, "is the label", "a label is never a feature")
            if str(declared.uuid) in uuids:
                yield Fault(
                    f"{place}.uuid",
                    f"is also that of {uuids[str(declared.uuid)]}",
                    "every column has its own, for ever",
                )
            uuids[str(declared.uuid)] = place


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
                    "a key that was revoked is never good again: `opboost keys renew` makes one",
                )
        first, last = party.signing_key_from, party.signing_key_expires
        if first is not None and last is not None and first > last:
            yield Fault(f"{where}.signing_key_from", "is after signing_key_expires")


def _booster_faults(federation: Federation) -> Iterator[Fault]:
    training = federation.training
    if training.engine == "dask" and training.trainer != "lightgbm":
        yield Fault(
            "training.engine",
            f"is dask, which does not train {training.trainer}",
            "leave it out, or declare trainer: lightgbm",
        )
    yield from denoise_faults(federation)
    if training.trainer == "federboost":
        yield Fault(
            "training.trainer",
            "federboost is only for horizontal learning",
            "declare learning: horizontal, or another trainer",
        )
    if training.trainer != "xgboost":
        if training.method is not None:
            yield Fault(
                "training.method",
                f"is not for {training.trainer}",
                "leave it out, or declare trainer: xgboost",
            )
        return
    if max(-federation.domain.lower, federation.domain.upper) > _XGBOOST_FARTHEST:
        yield Fault(
            "domain",
            f"reaches beyond {_XGBOOST_FARTHEST:,}, where XGBoost's 32-bit thresholds are too "
            "coarse",
            "declare a smaller domain, or trainer: lightgbm",
        )
    for name, party in federation.parties.items():
        for feature, declared in party.features.items():
            where = f"parties.{name}.features.{feature}"
            if any("<" in word for word in (feature, *(declared.categories or ()))):
                yield Fault(
                    where,
                    "has < in its name or in a category's, which XGBoost's names may not hold",
                    "rename it in table and file, or declare trainer: lightgbm",
                )
            nominal = party.role == "label_holder" and declared.type == "nominal"
            if nominal and training.method == "exact":
                yield Fault(
                    "training.method",
                    f"exact knows no nominal features, and {name}.{feature} is one",
                    "declare hist, or an order of its categories (ordinal)",
                )


def _party_faults(federation: Federation, where: str, party: Party) -> Iterator[Fault]:
    if party.role == "label_holder" and party.label is None:
        yield Fault(f"{where}.label", "is required of the label holder")
    if party.role == "label_holder" and party.shards:
        yield Fault(
            f"{where}.shards",
            "is only for feature holders",
            "its table may be a folder of files all the same: take the line out",
        )
    if party.role == "feature_holder":
        if party.label is not None:
            yield Fault(f"{where}.label", "is only for the label holder")
        if not party.features:
            yield Fault(f"{where}.features", "is empty", "a feature holder gives at least one")
    for name, feature in party.features.items():
        if party.role == "feature_holder" and "=" in name:
            yield Fault(
                f"{where}.features.{name}",
                "holds =, which joins a feature and its category",
                "rename the column",
            )
        yield from _feature_faults(federation, f"{where}.features.{name}", party, feature)


def _feature_faults(
    federation: Federation, where: str, party: Party, feature: Feature
) -> Iterator[Fault]:
    if feature.bounds is not None and feature.bounds[0] >= feature.bounds[1]:
        yield Fault(f"{where}.bounds", "the lower bound is not less than the upper bound")
        return
    if feature.type == "ordinal" and len(feature.categories or ()) < 2:
        yield Fault(
            f"{where}.categories",
            "is required of an ordinal feature",
            "list at least two categories, lowest first",
        )
        return
    if len(set(feature.categories or ())) < len(feature.categories or ()):
        yield Fault(f"{where}.categories", "names a category twice")
        return
    if feature.epsilons and feature.mechanism is None:
        yield Fault(f"{where}.epsilons", "is only for a feature with a mechanism", "leave it out")
    yield from value_faults(where, feature)
    yield from _missing_faults(where, party, feature)
    if party.role == "feature_holder":
        yield from _protection_faults(federation, where, feature)
        yield from _bucket_faults(federation, where, feature)


def _missing_faults(where: str, party: Party, feature: Feature) -> Iterator[Fault]:
    protected = party.role == "feature_holder"
    if feature.missing == "keep" and protected:
        yield Fault(
            f"{where}.missing", "keep is only for the label holder's own features", "declare a fill"
        )
    if not isinstance(feature.missing, Fill):
        return
    fill = feature.missing.fill
    if feature.type == "numeric" and isinstance(fill, str):
        yield Fault(f"{where}.missing.fill", "is no number", "the feature is numeric")
    if feature.type != "numeric" and feature.categories and fill not in feature.categories:
        yield Fault(f"{where}.missing.fill", "is none of the declared categories")
    if feature.missing.bit is not None and not protected:
        yield Fault(
            f"{where}.missing.bit",
            "is only for feature holders",
            "the booster sees what is missing in own features: declare `missing: keep`",
        )


def _protection_faults(federation: Federation, where: str, feature: Feature) -> Iterator[Fault]:
    if feature.mechanism is None:
        example = "{name: global_map, epsilon: 1.0}"
        if feature.type == "nominal":
            example = "{name: unary, epsilon: 1.0}"
        yield Fault(
            f"{where}.mechanism", "is required of a feature holder", f"for example {example}"
        )
    if feature.type == "nominal":
        yield from _nominal_faults(where, feature)
    elif isinstance(feature.mechanism, UnaryEncoding):
        yield Fault(
            f"{where}.mechanism.name",
            f"unary is only for nominal features, and this one is {feature.type}",
            "for example global_map",
        )
    elif feature.type == "numeric" and feature.bounds is None:
        yield Fault(
            f"{where}.bounds",
            "is required: public bounds, never read off the data",
            "for example [0, 100]",
        )
    else:
        try:
            domain = federation.domain.to_domain()
            feature.domain_map(domain)
            if feature.mechanism is not None:
                single = isinstance(feature.mechanism, Designed)
                kinds = (feature.mechanism.epsilon,) if single else feature.agreed_epsilons
                for epsilon in kinds:
                    feature.mechanism.model_copy(update={"epsilon": epsilon}).require(domain)
        except ConfigError as error:
            yield Fault(where, error.problem, error.remedy)
        yield from _table_faults(where, feature)


def _table_faults(where: str, feature: Feature) -> Iterator[Fault]:
    if not isinstance(feature.mechanism, Designed):
        return
    if isinstance(feature.mechanism.table, str):
        yield Fault(
            f"{where}.mechanism.table",
            "names a file, and only federation.yaml can: here the table itself must stand",
        )
    if feature.epsilons:
        yield Fault(
            f"{where}.epsilons",
            "is not for a designed channel, whose table is for one epsilon",
            "leave it out",
        )


def _bucket_faults(federation: Federation, where: str, feature: Feature) -> Iterator[Fault]:
    if (
        isinstance(feature.mechanism, BucketResponse)
        and "private_table" in feature.edge_sources
        and federation.scoring.modes != ("routed",)
    ):
        yield Fault(
            f"{where}.mechanism",
            "has buckets read off private data, which leave no guarantee and are for experiments "
            "with routed scoring alone",
            "declare public edges, or scoring: {mode: routed} without evaluate",
        )


def _nominal_faults(where: str, feature: Feature) -> Iterator[Fault]:
    if feature.mechanism is not None and not isinstance(feature.mechanism, UnaryEncoding):
        yield Fault(
            f"{where}.mechanism.name",
            f"{feature.mechanism.name} needs an order, and the feature is nominal",
            "name unary, or declare an order of its categories (ordinal)",
        )
    categories = feature.categories or ()
    yield from category_faults(where, categories)
    if "missing" in categories and isinstance(feature.missing, Fill) and feature.missing.bit:
        yield Fault(
            f"{where}.categories", "holds missing, which is also the name of the missing bit"
        )
