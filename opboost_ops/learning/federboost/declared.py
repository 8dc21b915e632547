"""The settings of horizontal learning in a federation file, and noise and disclosures of sums."""

from opboost_ops.config.columns import shared_columns
from opboost_ops.config.faults.training import honest_parties, sum_privacy_of
from opboost_ops.config.federation import Federation
from opboost_ops.config.training import FederBoostTraining
from opboost_ops.learning.boosters.trainer import parameters_of
from opboost_ops.learning.federboost.federboost import Settings
from opboost_ops.learning.federboost.histogram import Growth
from opboost_ops.learning.federboost.objectives import Objective
from opboost_ops.learning.federboost.private_federboost import BUCKETS, Private, noise_of
from opboost_ops.learning.federboost.sum_noise import SumNoise
from opboost_ops.learning.private import noisy_leaves


def settings_of(federation: Federation) -> Settings:
    """Return the settings of horizontal learning.

    Args:
        federation: The plan's federation.
    """
    label, training = federation.label, federation.training
    assert label is not None and isinstance(training, FederBoostTraining)
    columns = shared_columns(federation)
    return Settings(
        objective=Objective(label.task, len(label.classes or ()), label.bounds),
        domains=tuple(column.domain for column in columns),
        trees=training.trees,
        buckets=16 if training.private is None else BUCKETS,
        growth=growth_of(federation),
        keeps=tuple(column.keeps for column in columns),
    )


def private_of(federation: Federation) -> Private | None:
    """Return the privacy budget of a session of noisy sums; None if sums are exact.

    Args:
        federation: The plan's federation.
    """
    declared = sum_privacy_of(federation)
    if declared is None:
        return None
    return Private(declared.epsilon, declared.delta, honest_parties(federation))


def sum_noise_of(federation: Federation) -> SumNoise | None:
    """Return the declared noise on the sums of a private training; None without a delta.

    Args:
        federation: The federation as declared.
    """
    training = federation.training
    if (sums := private_of(federation)) is not None:
        return noise_of(settings_of(federation), sums)
    if training.private is None or training.trainer != "dpboost":
        return None
    label = federation.label
    assert label is not None
    parameters = parameters_of(training, label.task, label.classes or (), label.bounds)
    return noisy_leaves.noise_of(parameters)


def sum_guarantee(federation: Federation) -> str:
    """Describe the guarantee of horizontal learning from noisy sums; empty for other training.

    Args:
        federation: The federation as declared.
    """
    if private_of(federation) is None:
        return ""
    noise = sum_noise_of(federation)
    assert noise is not None
    return noise.guarantee(len(federation.parties))


def growth_of(federation: Federation) -> Growth:
    """Return the growth limits of trees.

    Args:
        federation: The plan's federation.
    """
    training = federation.training
    assert isinstance(training, FederBoostTraining)
    return Growth(
        depth=training.depth, learning_rate=training.learning_rate, penalty=1.0, min_node_rows=20
    )


def disclosures(federation: Federation) -> dict[str, str]:
    """Return the exact disclosures of training messages by topic; empty if sums have noise.

    Args:
        federation: The federation as declared.
    """
    if private_of(federation) is not None:
        return {}
    settings, active = settings_of(federation), federation.label_holder
    columns, growth = shared_columns(federation), settings.growth
    nodes = 2**growth.depth - 1
    counted = "labels" if settings.objective.task == "regression" else "rows of each class"
    nullable = [column.name for column in columns if column.keeps]
    gaps = f"; and rows without {', '.join(nullable)}" if nullable else ""
    lookup = max((domain.size - 1).bit_length() for domain in settings.domains)
    return {
        "facts": f"over all parties: rows, and {counted}{gaps}",
        "lookup": f"over all parties: points of the distribution function of {len(columns)} "
        f"columns, at most {3 * settings.buckets} in each of {lookup} rounds",
        "histograms": "over all parties: rows and sums of gradients and hessians by bucket of each "
        f"column, in nodes for which {active} counts {growth.min_node_rows} rows or more, at most "
        f"{settings.trees * settings.objective.trees * nodes} times; a bucket of few rows reveals "
        "their labels, and two runs that differ by one person reveal that person's label and the "
        "bucket of each value",
        "model": f"ends of at most {settings.buckets} buckets for each of {len(columns)} columns, "
        "which are values of people; and the model, with rows and sums of hessians of each node",
    }
