"""What is wrong with the tables of all parties, for whoever may read all of them."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.errors import Fault, OpBoostError
from opboost_ops.stages.rehearsal import common_people, rehearse, table_fault
from opboost_ops.stages.sources import borrowed
from opboost_ops.stages.stage import Context

#: Context and folder of ``site.yaml`` by party.
Parties = Mapping[str, tuple[Context, Path]]


def table_faults(federation: Federation, parties: Parties) -> list[Fault]:
    """All that the first stages of a training run and of a scoring run would find.

    Args:
        federation: As declared.
        parties: Context and folder of ``site.yaml`` of each party whose site is in order.
    """
    faults = _looked_at(federation, parties, "train", tuple(federation.parties))
    scored = scoring_parties(federation, parties)
    if not scored and federation.scoring.cron is None:
        return faults
    for party in scorers(federation):
        if party in parties and party not in scored:
            why = f"{', '.join(scored)} does" if scored else "scoring.cron is set"
            faults.append(
                Fault(
                    f"{party}/site.yaml:tables.{federation.name}.score",
                    f"names no table of new rows, and {why}",
                    "name the file of rows to score, or take it out everywhere",
                )
            )
    return faults + _looked_at(federation, parties, "score", scored)


def scorers(federation: Federation) -> tuple[str, ...]:
    """The parties that need a table of new rows where any are scored.

    Args:
        federation: As declared.
    """
    if federation.learning == "vertical" and federation.scoring.mode == "local":
        return (federation.label_holder,)
    return tuple(federation.parties)


def scoring_parties(federation: Federation, parties: Parties) -> tuple[str, ...]:
    """Those of them whose ``site.yaml`` names one.

    Args:
        federation: As declared.
        parties: As for `table_faults`.
    """
    return tuple(
        party
        for party in scorers(federation)
        if party in parties
        and (tables := parties[party][0].site.tables.get(federation.name))
        and tables.score is not None
    )


def _looked_at(
    federation: Federation, parties: Parties, purpose: Purpose, whose: tuple[str, ...]
) -> list[Fault]:
    """What is wrong with the tables for one purpose; sources are copied once for all of it."""
    faults: list[Fault] = []
    read: list[Context] = []
    with ExitStack() as stack:
        for party in whose:
            if party not in parties:
                continue
            context, folder = parties[party]
            context = replace(context, purpose=purpose)
            try:
                lent = stack.enter_context(borrowed(context))
            except OpBoostError as error:
                faults.append(table_fault(context, error))
                continue
            read.append(lent)
            faults += rehearse(lent, folder)
        concerned = federation.parties if purpose == "train" else scorers(federation)
        if federation.learning == "vertical" and len(read) == len(concerned) > 1:
            faults += _nobody(federation, purpose, read)
    return faults


def _nobody(federation: Federation, purpose: Purpose, read: Sequence[Context]) -> list[Fault]:
    if common_people(read) != 0:
        return []
    return [
        Fault(
            f"{purpose} tables",
            f"no value of {federation.id.column} is in the tables of all parties",
            "look at which column names a person, and how each party writes it",
        )
    ]
