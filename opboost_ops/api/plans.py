"""Plan, simulate and attack mechanisms locally, before anything is released."""

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

#: Called with the number of finished steps and their total.
Progress = Callable[[int, int], None]


def _silent(_done: int, _total: int) -> None: ...


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
    """Rank mechanisms for each column by the order they preserve at an equal guess rate.

    The guess rate is that of the declared mechanism, unless caps are named. The party's budgets
    apply as well.

    Args:
        federation: ``federation.yaml``, or its folder.
        party: The feature holder; may be omitted if there is only one.
        sample: Public Parquet rows with the same columns; the party's own table by default.
        max_loss_1: Cap on a column's loss(1).
        max_loss_whole: Cap on a column's loss(R - L).
        max_guess: Cap on the share of values that are guessed correctly under a uniform prior.
        out: Folder of the plot; the party's home by default.
        progress: Called with the number of mechanisms that are done, and their total.
        write: Also choose cells by the sample's label, at no greater loss, and write proposals
            that beat the declaration into the federation file.

    Raises:
        ConfigError: No mechanism satisfies the caps.
    """
    limits = Caps(max_loss_1, max_loss_whole, max_guess)
    file = federation_file(Path(federation))
    if not write:
        return rank(file, party, _path(sample), limits, _path(out), progress)
    if sample is None:
        raise ConfigError(
            "A proposal from the party's own table is not written, because it would disclose "
            "information about the table.",
            "Pass --sample with public rows.",
        )
    ranking = rank(file, party, _path(sample), limits, _path(out) or file.parent, progress, True)
    write_proposal(file, ranking.party, ranking.mechanisms, ranking.chosen, ranking.picture.parent)
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
    """Propose which columns to release, and how to divide a total privacy loss among them.

    Args:
        federation: ``federation.yaml``, or its folder.
        party: The feature holder; may be omitted if there is only one.
        total_loss_1: Total of all columns' loss(1).
        total_loss_whole: Total of all columns' loss(R - L).
        sample: Public rows with the columns and the label. Pass this or ``importance``.
        importance: A weight per column.
        reach: Find the smallest fraction of the total that keeps this share of the unprotected
            gain.
        out: Folder of the plot and channels.
        progress: Called with the number of channels that are done, and their total.
        write: Also choose cells by the sample, and write the proposal into the federation file;
            columns that the proposal omits are removed from it.

    Raises:
        ConfigError: There is not exactly one kind of evidence, or nothing to divide.
    """
    if total_loss_1 is None and total_loss_whole is None:
        raise ConfigError("No total is named.", "Pass a total of loss(1), of loss(R - L), or both.")
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
            file,
            details["party"],
            proposal.mechanisms,
            details["scales"],
            proposal.picture.parent,
            details["left_out"],
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
    """Split a table among simulated parties, and compare the federation's gain at each epsilon.

    Args:
        table: A frame, or a Parquet or CSV file.
        label: The label column.
        split: Columns of each simulated feature holder; the label holder has all others.
        upper: R of the domain, whose L is 1.
        seed: Seed of noise and held-out rows.
        out: Path of a report with the plot; none is written by default.
        dialect: Format of a CSV file, with the keys of a table in ``site.yaml``.
        progress: Called with the number of trainings that are done, and their total.

    Raises:
        ConfigError: The table cannot be read, or the domain is too large.
    """
    domain = Domain(1, upper)
    if problem := domain.size_problem():
        raise ConfigError(f"The domain {problem}.", "Pass a smaller --upper.")
    unusable: Mapping[str, str] = {}
    if isinstance(table, pl.DataFrame):
        frame = table
    else:
        frame, unusable = read_local(Path(table), dialect=dialect)
    parts = {
        party: [names] if isinstance(names, str) else list(names) for party, names in split.items()
    }
    simulated = split_table(frame, label, parts, domain, unusable)
    result = simulation.simulate(simulated, domain, seed=seed, progress=progress)
    if out is not None:
        title = "A table" if isinstance(table, pl.DataFrame) else Path(table).stem
        report = Path(out)
        report.write_text(simulation_report(f"{title}: would it pay?", result), encoding="utf-8")
        report.chmod(0o600)
    return result
