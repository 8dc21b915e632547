"""Choosing mechanisms: planning, simulating and attacking at home, before anything is released."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.extras.datasets.split_table import split_table
from opboost_ops.extras.lab import simulation
from opboost_ops.extras.lab.advice import write_proposal
from opboost_ops.extras.lab.designs import channel as channel
from opboost_ops.extras.lab.division import Proposal
from opboost_ops.extras.lab.division import divide as divide_total
from opboost_ops.extras.lab.evidence import Request
from opboost_ops.extras.lab.leakage import leakage as leakage
from opboost_ops.extras.lab.ranking import Ranking, rank
from opboost_ops.extras.lab.simulation import simulation_report
from opboost_ops.pipeline.party.party_sites import federation_file
from opboost_ops.privacy.planner import Caps
from opboost_ops.tables.local import read_local

#: Called with how much is done, and of how much.
Progress = Callable[[int, int], None]


def _silent(_done: int, _whole: int) -> None: ...


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def plan(
    federation: str | Path,
    party: str | None = None,
    *,
    sample: str | Path | None = None,
    max_loss_1: float | None = None,
    max_loss_whole: float | None = None,
    max_guess: float | None = None,
    out: str | Path | None = None,
    progress: Progress = _silent,
    write: bool = False,
) -> Ranking:
    """Rank mechanisms for each column by the order that they preserve at one guess rate.

    The guess rates are those of the declared mechanism, unless caps are named. The party's budgets
    hold besides.

    Args:
        federation: ``federation.yaml``, or its folder.
        party: The feature holder; the only one when absent.
        sample: Public Parquet rows with the same columns; the party's own table when absent.
        max_loss_1: Cap on loss(1) of a column.
        max_loss_whole: Cap on loss(R - L) of a column.
        max_guess: Cap on the share of values that are guessed right, all equally likely before.
        out: Folder of the picture; the party's home when absent.
        progress: Called with how many mechanisms are done, and of how many.
        write: Choose cells, too, by the label in the sample, at no larger loss, and write what
            gains more than the declaration into the federation file.

    Raises:
        ConfigError: No mechanism keeps the caps.
    """
    limits = Caps(max_loss_1, max_loss_whole, max_guess)
    file = federation_file(Path(federation))
    if not write:
        return rank(file, party, _path(sample), limits, _path(out), progress)
    if sample is None:
        raise ConfigError(
            "A proposal from the party's own table is not written: it would disclose something "
            "about it.",
            "Give --sample with public rows.",
        )
    ranking = rank(file, party, _path(sample), limits, _path(out) or file.parent, progress, True)
    write_proposal(file, ranking.party, ranking.mechanisms, ranking.chosen)
    return ranking


def divide(
    federation: str | Path,
    party: str | None = None,
    *,
    total_loss_1: float | None = None,
    total_loss_whole: float | None = None,
    sample: str | Path | None = None,
    importance: Mapping[str, float] | None = None,
    reach: float | None = None,
    out: str | Path | None = None,
    progress: Progress = _silent,
    write: bool = False,
) -> Proposal:
    """Propose which columns to release, and how to divide a total loss among them.

    Args:
        federation: ``federation.yaml``, or its folder.
        party: The feature holder; the only one when absent.
        total_loss_1: Of the sum of all columns' loss(1).
        total_loss_whole: Of the sum of all columns' loss(R - L).
        sample: Public rows with the columns and the label.
        importance: Or a weight for each column.
        reach: Find the least part of the total that keeps this share of the unprotected.
        out: Folder of picture and channels.
        progress: Called with how many channels are done, and of how many.
        write: Choose cells by a sample, too, and write the proposal into the federation file;
            columns that it leaves out are taken out of it.

    Raises:
        ConfigError: There is not exactly one kind of evidence, or nothing to divide.
    """
    if total_loss_1 is None and total_loss_whole is None:
        raise ConfigError("No total is named.", "Give one of loss(1), of loss(R - L), or both.")
    request = Request(
        total=Caps(total_loss_1, total_loss_whole),
        sample=_path(sample),
        importances=importance or {},
        reach=reach,
        out=_path(out) or (federation_file(Path(federation)).parent if write else None),
        rescale=write,
    )
    file = federation_file(Path(federation))
    proposal = divide_total(file, party, request, progress)
    if write:
        details = proposal.details
        write_proposal(
            file, details["party"], proposal.mechanisms, details["scales"], details["left_out"]
        )
    return proposal


def simulate(
    table: str | Path | pl.DataFrame,
    label: str,
    split: Mapping[str, Sequence[str]],
    *,
    upper: int = 10,
    seed: int = 0,
    out: str | Path | None = None,
    dialect: Mapping[str, Any] | None = None,
    progress: Progress = _silent,
) -> simulation.Simulation:
    """Split a table among imagined parties, and compare the gain of a federation at each epsilon.

    Args:
        table: A frame, or a Parquet or CSV file.
        label: Its label column.
        split: Columns of each imagined party; the others are the label holder's.
        upper: R of the domain, whose L is 1.
        seed: Of noise and held-out rows.
        out: Where a picture goes, if anywhere.
        dialect: How a CSV file is written, by the entries of a table in ``site.yaml``.
        progress: Called with how many trainings are done, and of how many.

    Raises:
        ConfigError: The table cannot be read, or the domain is too large.
    """
    domain = Domain(1, upper)
    if excess := domain.excess():
        raise ConfigError(f"The domain {excess}.", "Name a smaller --upper.")
    unusable: Mapping[str, str] = {}
    if isinstance(table, pl.DataFrame):
        frame = table
    else:
        frame, unusable = read_local(Path(table), dialect=dialect)
    parts = {
        party: [names] if isinstance(names, str) else list(names) for party, names in split.items()
    }
    imagined = split_table(frame, label, parts, domain, unusable)
    result = simulation.simulate(imagined, domain, seed=seed, progress=progress)
    if out is not None:
        title = "A table" if isinstance(table, pl.DataFrame) else Path(table).stem
        picture = Path(out)
        picture.write_text(simulation_report(f"{title}: would it pay?", result), encoding="utf-8")
        picture.chmod(0o600)
    return result
