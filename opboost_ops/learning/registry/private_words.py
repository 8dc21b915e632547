"""What a card says of a differentially private model: how much, against what, and what not."""

from dataclasses import dataclass
from typing import Any

from opboost_ops.config.federation import Federation
from opboost_ops.config.training import SumPrivacy


@dataclass(frozen=True)
class Promise:
    """What only the party that registers a model can say of it.

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
