"""What planning takes from runs that the label holder has finished."""

from pathlib import Path

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import load_federation
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.privacy.planner import Caps
from opboost_ops.run.received import Received, prior_from, received


def estimated_prior(
    federation: Path | None, run: str | None, column: str | None, domain: Domain
) -> tuple[str, str] | None:
    """The prior of a released column, estimated from a run through the channel that released it.

    Args:
        federation: ``federation.yaml``.
        run: The run's id.
        column: As ``party.column``.
        domain: The domain for which a channel is made.

    Returns:
        Weights of all values with commas, and where they come from; None if none is asked for.

    Raises:
        ConfigError: It is half asked for, or there is no such run, column or domain.
    """
    if federation is None and run is None and column is None:
        return None
    if federation is None or run is None or column is None:
        raise ConfigError(
            "A prior of an earlier run needs --federation, --prior-run and --prior-of together.",
            "For example --federation federation.yaml --prior-run RUN --prior-of bank.income.",
        )

    found = received(federation, load_federation(federation), run)
    weights = prior_from(found, column)
    known = found.federation.domain
    if len(weights) != domain.size or (known.lower, known.upper) != (domain.lower, domain.upper):
        raise ConfigError(
            f"Run {run} released {column} of {len(weights)} values on [{known.lower}, "
            f"{known.upper}], and the channel is for [{domain.lower}, {domain.upper}].",
            f"Give --lower {known.lower} --upper {known.upper}, and a column that is no bit.",
        )
    return (
        ",".join(f"{weight:.6f}" for weight in weights),
        f"estimated from what run {run} of {found.federation.name} released of {column}",
    )


def piloted(
    file: Path, declared: Federation, party: str, run: str, wanted: Caps | None
) -> tuple[Received, Caps]:
    """A finished pilot of a feature holder, and the total that may follow it.

    Args:
        file: ``federation.yaml``.
        declared: What it says.
        party: The feature holder.
        run: The pilot's run id.
        wanted: A smaller total, where one is asked for.

    Raises:
        ConfigError: It was no pilot of that party, or more is asked for than it left.
    """
    found = received(file, declared, run)
    there = found.federation.parties.get(party)
    pilot = there.pilot if there is not None else None
    if pilot is None:
        raise ConfigError(
            f"Run {run} of {declared.name} was no pilot of {party}: its budgets were not "
            "asked for room for what would follow.",
            f"Declare parties.{party}.pilot before such a run, or propose by a public sample.",
        )
    totals = {}
    for name, most, least in (
        ("total-loss-1", pilot.total_loss_1, wanted.step if wanted else None),
        ("total-loss-whole", pilot.total_loss_whole, wanted.whole if wanted else None),
    ):
        if least is not None and most is not None and least > most:
            raise ConfigError(
                f"--{name} is {least:g}, and the pilot left {most:g}.",
                "Leave it out, or ask for less: the sum was agreed before the pilot.",
            )
        totals[name] = most if least is None else least
    return found, Caps(totals["total-loss-1"], totals["total-loss-whole"])
