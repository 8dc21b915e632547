"""Words of a model's card: its evaluations, training, alignment and privacy."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opboost_ops.config.federation import Federation
from opboost_ops.config.schema import Record
from opboost_ops.config.training import SumPrivacy

#: By name of a row of metrics: its title, and what leaves. {label} and {holders} are the parties.
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
        "{label} learns, for every new row and feature of {holders}, on which side of every "
        "threshold of the model the value lies: the domain value up to the thresholds, exactly. "
        "No epsilon bounds this; each holder's ledger lists it as exact.",
    ),
    "federated_local": (
        "everyone's columns, mode local",
        "Nothing leaves: {label} has all columns that the model needs.",
    ),
}

#: The same in horizontal learning.
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

#: The same in horizontal learning.
POOLED = (
    "This card has no metrics of a model on everyone's joined rows, because no party has them. "
    "With the same bins that model is equal to this one, to the bit."
)


class ModeLine(Record):
    """One row of metrics in words.

    Attributes:
        name: Its key in the card's metrics.
        title: What was trained on, in which mode it was evaluated.
        discloses: What leaves to whom when new rows are scored in this mode; empty when not known.
        scoring: Whether the federation scores in this mode.
    """

    name: str
    title: str
    discloses: str
    scoring: bool


def modes_of(federation: Federation, names: Iterable[str]) -> tuple[ModeLine, ...]:
    """Rows of metrics in words; a mode that was not evaluated has none.

    Args:
        federation: As it was run.
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
    "quantile": "Its predictions are quantiles, not means: as many labels lie below as declared.",
    "poisson": "Its predictions are expected counts: the exponential of the raw score.",
    "tweedie": "Its predictions are expected amounts: the exponential of the raw score.",
}


def training_words(
    federation: Federation, tuned: Mapping[str, Any], alone: Mapping[str, Any]
) -> Iterator[str]:
    """Facts that the line of parameters omits.

    Args:
        federation: As it was run.
        tuned: What tuning found; empty where nothing was looked for.
        alone: How the label holder's columns alone were trained; empty where they were not.
    """
    training = federation.training
    if training.objective in _MEANS:
        yield _MEANS[training.objective]
    own = federation.parties[federation.label_holder].features.values()
    keeps = federation.keeps_all or any(feature.missing == "keep" for feature in own)
    if keeps and training.trainer == "lightgbm":
        yield (
            "If no training row lacked a value, a split sends a missing value where most training "
            "rows went."
        )
    if (column := training.weight_column) is not None:
        yield f"Training rows were weighted by the column {column}; metrics weight all rows alike."
    if (rounds := training.early_stopping) is not None:
        yield (
            f"Boosting ended after {rounds} rounds without a gain on 10% of the "
            "training rows, which were left out of training, or after the declared number of trees."
        )
    if tuned:
        won = "the declared ones were the best" if tuned["declared_won"] else "these won"
        yield (
            f"Parameters were searched in {tuned['trials']} trials, by {tuned['metric']} in "
            f"{tuned['folds']} folds of the training rows: {won}. Trials use released values and "
            "send no requests; only the winner requested split values."
        )
        if federation.scoring.mode != "desensitised":
            yield (
                f"That is a proxy: trials were judged on released values, and new rows are scored "
                f"in mode {federation.scoring.mode}, on clear ones."
            )
    if alone:
        several = f"in {alone['folds']} folds of the training rows"
        judged = several if alone["folds"] > 1 else "on training rows that they had not seen"
        stopped = ", stopped early" if alone["stopped"] else ""
        yield (
            f"The columns of {federation.label_holder} alone have their own parameters, the best "
            f"of {alone['trials']}, by {alone['metric']} {judged}: {alone['trees']} trees, "
            f"depth {alone['depth']}, learning rate {alone['learning_rate']:.3g}{stopped}."
        )


_SEALED = (
    "{holders} published a sealed row for each person in the table. {label} learnt the row count "
    "of {holders}, and opened the rows of its own people that are in the table of {all}; it can do "
    "so in every run of the month. {holders} learnt how many new people {label} queried, but not "
    "which people are common, or how many. No other party can test an ID (exact, no epsilon)."
)

_LEFT = (
    "{holders} published a sealed row for each person in the table. {label} opened the rows of its "
    "own people, and learnt which of them are in the table of {holders}, and the row count; it can "
    "do so in every run of the month. Values of people who are not there are missing. {holders} "
    "learnt how many new people {label} queried, but not who they are (exact, no epsilon)."
)


def alignment_words(federation: Federation, holders: str | None = None) -> str:
    """Who learnt what when the common people were found, in a vertical run.

    Args:
        federation: As it was run.
        holders: What the feature holders are called; by their names when absent.
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
    """Facts about a model that only the party that registers it knows.

    Attributes:
        replaced: Epsilon of a row that is replaced, at the declared delta.
        left: How many more such models the party's budget allows, in words; empty without one.
        sums: The guarantee of sums over all parties, in words; empty for other trainers.
    """

    replaced: float
    left: str = ""
    sums: str = ""


_LINES = (
    "The trees are epsilon-differentially private for one row of {label}'s table, by {way}: "
    "epsilon is {epsilon:g} if the row is added or removed, and {twice:g} if it is replaced, which "
    "is what applies where row counts are public, as they are here.",
    "So the model may be shared: nothing else in its file depends on the rows. Counts, weights "
    "and gains are declared, ranges of features are those of the federation file.",
    "It is epsilon of this model alone. Models trained on the same rows add up, also those that "
    "never became champion; {label}'s ledger has the sum (`opboost ledger show`), and {budget}.",
    "{metrics}",
    "Together with the features' protection: towards {label} a value of {holders} has the loss of "
    "its own curve below. Anyone who is given the model alone learns of a person no more than "
    "{twice:g} in all, and of that value no more than the lesser of {twice:g} and its curve.",
)

_EXACT = (
    "Not covered: metrics on held-out rows and whether the model became champion, which are exact "
    "functions of those rows; row counts; which IDs all parties have; pass or fail of checks. The "
    "importance of features on this card is exact, too: the card stays with {label}."
)

_NOISY = (
    "Metrics on held-out rows have noise, and by them it was decided whether the model became "
    "champion: epsilon {spent:g}, {twice_spent:g} for a row replaced. A row is either trained on "
    "or held out. The importance of features would be exact and is left out; so this card may go "
    "with the model. Not covered: row counts; which IDs all parties have; pass or fail of checks."
)

_NOISY_LEAVES = (
    "The model is (epsilon {epsilon:g}, delta {delta:g})-differentially private for each row of "
    "{label}'s table, towards anyone who has its file and whatever else they know: epsilon is "
    "{epsilon:g} if one row is added or removed and {replaced:.3g} at the same delta if it is "
    "replaced; exact row counts and the declared bounds and categories are outside; {budget}.",
    "So the model may be shared: splits are drawn without reading any row, and leaves and "
    "the initial score follow from sums with noise. Counts, weights and gains are declared.",
    "{metrics}",
)

_SUMMED = (
    "The model is differentially private for each row of any party's table, towards anybody with "
    "its file, the decisions or the store, {label} among them: {sums}. The declared bounds and "
    "categories are outside; {budget}.",
    "A person with rows at several parties is charged at each. An interrupted training is "
    "charged, too.",
    "Everything in the model follows from sums with noise and from declarations.",
    "{metrics}",
)

_SUMMED_EXACT = (
    "Not covered: how many rows are held out, metrics on them and whether the model became "
    "champion, which are exact functions of each party's own held-out rows; and pass or fail of "
    "checks. The importance of features on this card is exact, too: the card stays with its party."
)

_SUMMED_NOISY = (
    "Metrics on a party's held-out rows have noise, and by them it was decided whether the model "
    "became its champion: epsilon {spent:g}, {twice_spent:g} for a row replaced. A row is either "
    "trained on or held out. The importance of features would be exact and is left out. Not "
    "covered: how many rows are held out; and pass or fail of checks."
)


def private_words(federation: Federation, promise: Promise | None = None) -> tuple[str, ...]:
    """Lines for the card; none for a booster without differential privacy.

    Args:
        federation: As it was run.
        promise: Of a private model; without it, a replaced row costs twice the epsilon at a
            greater delta, and nothing is said of budgets.
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
