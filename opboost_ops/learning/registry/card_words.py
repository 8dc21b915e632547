"""Texts of a model's card on its evaluations, training, alignment and privacy."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opboost_ops.config.federation import Federation
from opboost_ops.config.schema import Record
from opboost_ops.config.training import SumPrivacy

#: Title and disclosures of each row of metrics; {label} and {holders} are the parties.
_WORDS = {
    "label_holder_alone": (
        "the columns of {label} alone",
        "Nothing leaves: no other party takes part.",
    ),
    "federated_desensitised": (
        "everyone's columns, mode desensitised",
        "{label} receives the randomised domain values of {holders} for new rows, as it did for "
        "the held-out ones, at the loss curve beside each feature.",
    ),
    "federated_routed": (
        "everyone's columns, mode routed",
        "{label} learns, for every new row and feature of {holders}, exactly between which "
        "thresholds of the model the value lies. No epsilon bounds this; each holder's ledger "
        "lists it as exact.",
    ),
    "federated_local": (
        "everyone's columns, mode local",
        "Nothing leaves: {label} has all columns that the model needs.",
    ),
}

#: Titles and disclosures in horizontal learning.
_HORIZONTAL_WORDS = {
    "label_holder_alone": ("this party's rows alone", "Nothing leaves."),
    "federated_local": (
        "everyone's rows, on this party's held-out ones",
        "Nothing leaves: each party scores its own rows at home.",
    ),
}

CENTRALISED = (
    "This card has no metrics of a model on the joined raw columns, because in production no party "
    "has the joined rows. For a named data set, `opboost run --dataset NAME` measures and prints "
    "them after the run."
)

#: The corresponding text in horizontal learning.
POOLED = (
    "This card has no metrics of a model on everyone's joined rows, because no party has them. "
    "With the same bins, that model would be equal to this one, to the bit."
)


class ModeLine(Record):
    """The description of one row of metrics.

    Attributes:
        name: Its key in the card's metrics.
        title: Columns of the model and mode of the evaluation.
        discloses: Disclosures when new rows are scored in this mode; empty if unknown.
        scoring: True if the federation scores in this mode.
    """

    name: str
    title: str
    discloses: str
    scoring: bool


def modes_of(federation: Federation, names: Iterable[str]) -> tuple[ModeLine, ...]:
    """Describe the rows of metrics.

    Args:
        federation: The federation of the training.
        names: Keys of the metrics.
    """
    parties = {
        "label": federation.label_holder,
        "holders": ", ".join(federation.feature_holders),
    }
    words = _WORDS if federation.learning == "vertical" else _HORIZONTAL_WORDS
    lines = []
    for name in names:
        title, discloses = words.get(name, (name.replace("_", " "), ""))
        lines.append(
            ModeLine(
                name=name,
                title=title.format(**parties),
                discloses=discloses.format(**parties),
                scoring=name == f"federated_{federation.scoring.mode}",
            )
        )
    return tuple(lines)


_MEANS = {
    "l1": "Its predictions are medians, not means.",
    "quantile": "Its predictions are the declared quantiles, not means.",
    "poisson": "Its predictions are expected counts: the exponential of the raw score.",
    "tweedie": "Its predictions are expected amounts: the exponential of the raw score.",
}


def training_words(
    federation: Federation, tuned: Mapping[str, Any], alone: Mapping[str, Any]
) -> Iterator[str]:
    """Yield explanations of the training that the parameters do not show.

    Args:
        federation: The federation of the training.
        tuned: Result of the parameter search; empty if there was none.
        alone: Training on the label holder's columns alone; empty if there was none.
    """
    training = federation.training
    if training.objective in _MEANS:
        yield _MEANS[training.objective]
    own = federation.parties[federation.label_holder].features.values()
    keeps = federation.keeps_all or any(feature.missing == "keep" for feature in own)
    if keeps and training.trainer == "lightgbm":
        yield (
            "At a split without missing values in training, missing values follow most training "
            "rows."
        )
    if (column := training.weight_column) is not None:
        yield f"Training rows were weighted by the column {column}; metrics weight all rows alike."
    if (rounds := training.early_stopping) is not None:
        yield (
            f"Boosting stopped after {rounds} rounds without a gain on 10% of the training rows, "
            "which were excluded from training, or after the declared number of trees."
        )
    if tuned:
        won = "the declared ones were best" if tuned["declared_won"] else "these were best"
        yield (
            f"Parameters were searched in {tuned['trials']} trials, by {tuned['metric']} in "
            f"{tuned['folds']} folds of the training rows: {won}. Trials use released values and "
            "send no requests; only the winner requested split values."
        )
        if federation.scoring.mode != "desensitised":
            yield (
                f"This is a proxy: trials were compared on released values, whereas new rows are "
                f"scored in mode {federation.scoring.mode}, on exact values."
            )
    if alone:
        several = f"in {alone['folds']} folds of the training rows"
        validated = several if alone["folds"] > 1 else "on training rows held out for validation"
        stopped = ", stopped early" if alone["stopped"] else ""
        yield (
            f"The model on the columns of {federation.label_holder} alone has its own parameters, "
            f"the best of {alone['trials']}, by {alone['metric']} {validated}: {alone['trees']} "
            f"trees, depth {alone['depth']}, learning rate "
            f"{alone['learning_rate']:.3g}{stopped}."
        )


_SEALED = (
    "{holders} published a sealed row for each person in the table. {label} learned the row count "
    "of {holders}, and opened the rows of its own people that are in the table of {all}; it can do "
    "so in every run of the month. {holders} learned how many new people {label} queried, but not "
    "which people are common, or how many. No other party can test an ID (exact, no epsilon)."
)

_LEFT = (
    "{holders} published a sealed row for each person in the table. {label} opened the rows of its "
    "own people, and learned which of them are in the table of {holders}, and the row count; it "
    "can do so in every run of the month. Values of other people are missing. {holders} learned "
    "how many new people {label} queried, but not who they are (exact, no epsilon)."
)


def alignment_words(federation: Federation, holders: str | None = None) -> str:
    """Describe the disclosures of the alignment in a vertical run.

    Args:
        federation: The federation of the run.
        holders: A term for the feature holders; by default their names.
    """
    names = holders or ", ".join(federation.feature_holders)
    single = len(federation.feature_holders) == 1
    words = _SEALED if federation.alignment.overlap == "common" else _LEFT
    return words.format(
        label=federation.label_holder,
        holders=names,
        all=names if single else "all of them",
    )


@dataclass(frozen=True)
class Promise:
    """Facts on a private model that the federation file does not determine.

    Attributes:
        replaced: Epsilon for a row that is replaced, at the declared delta.
        left: Text on how many more such models the party's budget allows; empty without a budget.
        sums: Text on the guarantee of sums over all parties; empty for other trainers.
    """

    replaced: float
    left: str = ""
    sums: str = ""


_LINES = (
    "The trees are epsilon-differentially private for one row of {label}'s table, by {way}: "
    "epsilon is {epsilon:g} if the row is added or removed, and {twice:g} if it is replaced. The "
    "second number applies here, because row counts are public.",
    "The model may be shared: nothing else in its file depends on the rows. Counts, weights and "
    "gains are constants, and ranges of features are those of the federation file.",
    "This is the epsilon of one model. The losses of all models trained on the same rows add up, "
    "including models that never became champion; {label}'s ledger has the sum (`opboost ledger "
    "show`), and {budget}.",
    "{metrics}",
    "With the protection of features: towards {label}, a value of {holders} has the loss of its "
    "own curve below. Towards anyone who has only the model, the loss of a person is at most "
    "{twice:g}, and the loss of such a value is at most the lesser of {twice:g} and its curve.",
)

_EXACT = (
    "Not covered: metrics on held-out rows and whether the model became champion, which are exact "
    "functions of those rows; row counts; which IDs all parties have; pass or fail of checks. The "
    "importance of features on this card is exact, too: the card stays with {label}."
)

_NOISY = (
    "Metrics on held-out rows have noise, and they decided whether the model became champion: "
    "epsilon {spent:g}, {twice_spent:g} for a row replaced. A row is used either for training or "
    "for metrics. The importance of features would be exact and is omitted, so this card may be "
    "shared with the model. Not covered: row counts; which IDs all parties have; pass or fail of "
    "checks."
)

_NOISY_LEAVES = (
    "The model is (epsilon {epsilon:g}, delta {delta:g})-differentially private for each row of "
    "{label}'s table, towards anyone who has its file, whatever else they know: epsilon is "
    "{epsilon:g} if one row is added or removed and {replaced:.3g} at the same delta if it is "
    "replaced. Exact row counts and the declared bounds and categories are not covered; {budget}.",
    "The model may be shared: splits are drawn without reading any row, and leaves and the initial "
    "score follow from noisy sums. Counts, weights and gains are constants.",
    "{metrics}",
)

_SUMMED = (
    "The model is differentially private for each row of any party's table, towards anyone with "
    "its file, the decisions or the store, including {label}: {sums}. The declared bounds and "
    "categories are not covered; {budget}.",
    "A person with rows at several parties is charged at each. An interrupted training is "
    "charged, too.",
    "Everything in the model follows from noisy sums and from declarations.",
    "{metrics}",
)

_SUMMED_EXACT = (
    "Not covered: how many rows are held out, metrics on them and whether the model became "
    "champion, which are exact functions of each party's own held-out rows; and pass or fail of "
    "checks. The importance of features on this card is exact, too: the card stays with its party."
)

_SUMMED_NOISY = (
    "Metrics on a party's held-out rows have noise, and they decided whether the model became its "
    "champion: epsilon {spent:g}, {twice_spent:g} for a row replaced. A row is used either for "
    "training or for metrics. The importance of features would be exact and is omitted. Not "
    "covered: how many rows are held out; and pass or fail of checks."
)


def private_words(federation: Federation, promise: Promise | None = None) -> tuple[str, ...]:
    """Describe the guarantee of a private model; empty for trainers without differential privacy.

    Args:
        federation: The federation of the training.
        promise: Facts on the model. Without them, epsilon for a replaced row is twice the epsilon,
            at a greater delta, and there is no text on budgets.
    """
    private, label = federation.training.private, federation.label_holder
    if private is None:
        return ()
    promise = promise or Promise(2 * private.epsilon)
    spent = private.metrics_epsilon
    facts: dict[str, Any] = {
        "label": label,
        "epsilon": private.epsilon,
        "delta": private.delta,
        "twice": 2 * private.epsilon,
        "spent": spent,
        "twice_spent": 2 * (spent or 0.0),
        "replaced": promise.replaced,
        "budget": promise.left or "no budget limits further models",
        "holders": ", ".join(federation.feature_holders),
        "sums": promise.sums or f"epsilon {private.epsilon:g} for a row added or removed",
    }
    if isinstance(private, SumPrivacy):
        facts["metrics"] = (_SUMMED_EXACT if spent is None else _SUMMED_NOISY).format(**facts)
        return tuple(line.format(**facts) for line in _SUMMED)
    facts["metrics"] = (_EXACT if spent is None else _NOISY).format(**facts)
    if private.delta is not None:
        return tuple(line.format(**facts) for line in _NOISY_LEAVES)
    random = private.splits == "random"
    facts["way"] = "noisy leaves of random splits" if random else "DPBoost"
    return tuple(line.format(**facts) for line in _LINES)
