"""What a card says of a differentially private model: how much, against what, and what not."""

from opboost_ops.boosting.dp.noisy_leaves import sums_of
from opboost_ops.config.federation import Federation
from opboost_ops.config.private_faults import honest_of
from opboost_ops.config.training import SumPrivacy

_LINES = (
    "The trees are epsilon-differentially private for one row of {label}'s table, by {way}: "
    "epsilon is {epsilon:g} if the row is added or removed, and {twice:g} if it is replaced, which "
    "is what applies where row counts are public, as they are here.",
    "So the model may be given away: nothing else in its file depends on the rows. Counts, weights "
    "and gains are declared, ranges of features are those of the federation file.",
    "It is epsilon of this model alone. Models trained on the same rows add up, also those that "
    "never became champion; {label}'s ledger has the sum (`opboost ledger show`).",
    "{metrics}",
    "Together with the features' protection: towards {label} a value of {holders} has the loss of "
    "its own curve below. Whoever is given the model alone learns of a person no more than "
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
    "The model is (epsilon, delta)-differentially private for one row of {label}'s table, by noisy "
    "leaves of random splits: at delta {delta:g}, epsilon is {epsilon:g} if the row is added or "
    "removed, and {replaced:.3g} if it is replaced.",
    "So the model may be given away: everything in its file follows from sums with noise and from "
    "the federation file. Counts, weights and gains are declared.",
    "It is the cost of this model alone. Models trained on the same rows share one curve, also "
    "those that never became champion: {label}'s ledger has the composed epsilon "
    "(`opboost ledger show`).",
    "{metrics}",
)

_SUMMED = (
    "The model is (epsilon, delta)-differentially private for one row of any party's table: at "
    "most epsilon {epsilon:g} at delta {delta:g} if it is added or removed; epsilon {twice:g}, and "
    "1 + e^epsilon times that delta, if it is replaced. Who has rows at several parties pays at "
    "each of them.",
    "It holds where {honest} parties add their noise as they should: towards whoever reads model, "
    "decisions and store, and towards all other parties together, {active} among them.",
    "All in the model follows from sums with noise: bucket ends, splits, leaves; rows of nodes are "
    "told from noisy hessians.",
    "It is the cost of this training alone. Trainings on the same rows add up, also one that broke "
    "off; each party's ledger has the sum (`opboost ledger show`).",
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


def private_words(federation: Federation) -> tuple[str, ...]:
    """Lines for the card; none for a booster without differential privacy.

    Args:
        federation: As it was run.
    """
    private = federation.training.private
    if private is None:
        return ()
    if isinstance(private, SumPrivacy):
        honest, count = honest_of(federation), len(federation.parties)
        facts = {
            "epsilon": private.epsilon,
            "delta": private.delta,
            "twice": 2 * private.epsilon,
            "honest": f"{honest} of {count}",
            "active": federation.label_holder,
            "metrics": _SUMMED_EXACT,
        }
        if (spent := private.metrics_epsilon) is not None:
            facts["metrics"] = _SUMMED_NOISY.format(spent=spent, twice_spent=2 * spent)
        return tuple(line.format(**facts) for line in _SUMMED)
    spent = private.metrics_epsilon
    metrics = _EXACT.format(label=federation.label_holder)
    if spent is not None:
        metrics = _NOISY.format(spent=spent, twice_spent=2 * spent)
    if private.delta is not None:
        task = federation.parties[federation.label_holder].label
        assert task is not None and task.task != "multiclass"
        noise = sums_of(task.task, federation.training.trees, private.epsilon, private.delta).noise
        words = {
            "label": federation.label_holder,
            "delta": private.delta,
            "epsilon": private.epsilon,
            "replaced": noise.replaced.epsilon,
            "metrics": metrics,
        }
        return tuple(line.format(**words) for line in _NOISY_LEAVES)
    facts = {
        "metrics": metrics,
        "label": federation.label_holder,
        "holders": ", ".join(federation.feature_holders),
        "epsilon": private.epsilon,
        "twice": 2 * private.epsilon,
        "way": "noisy leaves of random splits" if private.splits == "random" else "DPBoost",
    }
    return tuple(line.format(**facts) for line in _LINES)
