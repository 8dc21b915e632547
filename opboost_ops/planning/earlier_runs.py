"""What planning takes from finished runs, at the label holder's home: post-processing.

Nothing here reads a feature holder's table, asks anybody, or costs anything: releases were charged
when they were drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from opboost_ops.boosting.denoise.evidence import evidence_of
from opboost_ops.boosting.denoise.rows import drawable
from opboost_ops.boosting.denoise.shares import shares
from opboost_ops.boosting.frame import Frame, Parameters
from opboost_ops.config.columns import released_channels
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import POLICY, load_federation, load_policy, load_site
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.manifest import is_run_id, reference
from opboost_ops.exchange.order import MEMORY
from opboost_ops.exchange.store import open_store
from opboost_ops.privacy.division import Evidence
from opboost_ops.privacy.planner import Caps
from opboost_ops.run import clock
from opboost_ops.run.inbox import Run, acceptance_of
from opboost_ops.run.party_sites import party_site_file
from opboost_ops.run.publication import Publisher
from opboost_ops.stages.assemble import LABEL, frame_of
from opboost_ops.stages.stage import Home


@dataclass(frozen=True, eq=False)
class EarlierRun:
    """A finished training run as its label holder has it.

    Attributes:
        federation: The plan's, which the run went by, whatever the file says now.
        run: Its id.
        frame: Training rows: own columns, and others' as ranks.
        label: Of them, numbers or class indices, shape (n,).
        classes: How many classes; 0 of a number.
        folder: The label holder's private folder for the federation.
    """

    federation: Federation
    run: str
    frame: Frame
    label: np.ndarray
    classes: int
    folder: Path


def load_run(file: Path, declared: Federation, run: str) -> EarlierRun:
    """A finished training run, at the label holder.

    Args:
        file: ``federation.yaml``, by which the label holder's site is found.
        declared: What it says; the run's own plan is what counts.
        run: The run's id.

    Raises:
        ConfigError: The label holder's site is not known, it has no such run any more, or the run
            trained nothing that can be looked at so.
    """
    if not declared.feature_holders:
        raise ConfigError("In horizontal learning no columns are released.")
    known = party_site_file(file, declared.label_holder)
    if known is None:
        raise ConfigError(
            f"No site.yaml of {declared.label_holder}, the label holder, is known: what a run has "
            "brought lies in its home.",
            f"Run this there, with OPBOOST_SITE_{declared.label_holder.upper()} set.",
        )
    site = load_site(known)
    home = Home(site.home / declared.name / run)
    if not is_run_id(run) or not (home.has("frame") and home.has(MEMORY)):
        raise ConfigError(
            f"{declared.label_holder} has no training frame of run {run} of {declared.name}.",
            "Name a training run that got so far, and that `retention_days` has not removed: "
            "`opboost models list` names those with a version.",
        )
    policy, store = load_policy(known.parent / POLICY), open_store(site.store)
    planned = _planned(Publisher(site.party, site, policy, store), declared, run)
    if planned.training.trainer == "dpboost":
        raise ConfigError(
            f"Run {run} trained a private model, which promises noise for whatever depends on its "
            "rows: they are not looked at in another way.",
            "Name a run of another trainer.",
        )
    facts, table = home.json("frame"), home.table("frame")
    label = np.array(table.column(LABEL).to_numpy())
    frame = frame_of(table, facts)
    return EarlierRun(planned, run, frame, label, len(facts["classes"]), site.home / declared.name)


def evidence_from(found: EarlierRun, party: str, names: Sequence[str]) -> Evidence:
    """What a run tells of a feature holder's columns, for `privacy.division`.

    Args:
        found: The run.
        party: The feature holder.
        names: Of its columns, among which a loss is divided.

    Raises:
        ConfigError: Of some it cannot be seen which output was released.
    """
    full = [f"{party}.{name}" for name in names]
    channels = released_channels(found.federation)
    _require_drawable(found, full)
    training = found.federation.training
    task = found.federation.parties[found.federation.label_holder].label
    assert task is not None
    parameters = Parameters(
        task.task, found.classes, training.trees, training.learning_rate, training.depth, 0
    )
    made = evidence_of(found.frame, found.label, parameters, channels, full)
    return replace(made, names=tuple(names))


def prior_from(found: EarlierRun, column: str) -> np.ndarray:
    """The likeliest shares of a column's values behind what was released of it.

    Args:
        found: The run.
        column: As ``party.column``.

    Returns:
        Shares of the domain's values, float64, shape (|D|,); they sum up to 1.

    Raises:
        ConfigError: It has released no such column, or it cannot be seen which output was released.
    """
    channels = released_channels(found.federation)
    if column not in channels:
        names = ", ".join(channels)
        raise ConfigError(f"Run {found.run} has released no column {column}.", f"It has {names}.")
    _require_drawable(found, [column])
    ranks = found.frame.matrix[:, found.frame.names.index(column)].astype(np.int64)
    counts = np.bincount(ranks - 1, minlength=len(channels[column].outputs)).astype(float)
    return shares(counts, channels[column].probabilities())


def _require_drawable(found: EarlierRun, names: Sequence[str]) -> None:
    known = drawable(found.frame, released_channels(found.federation))
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(
            f"Of {', '.join(unknown)} run {found.run} does not show which value was released: not "
            "every output occurred, or outputs are no values of the domain (piecewise).",
            "Take a run of more rows or at a smaller epsilon, or a mechanism on the domain.",
        )


def _planned(publisher: Publisher, declared: Federation, run: str) -> Federation:
    """The plan's federation, verified as every stage does."""
    holder = publisher.name
    acceptance = acceptance_of(publisher, Run(declared.name, run, holder))
    place = reference(declared.name, run, "plan", holder)
    files = publisher.store.get(place, acceptance.admit("plan", holder))
    if files is None:
        raise ConfigError(
            f"The plan of run {run} of {declared.name} is no longer in the store.",
            "Name a run that `opboost store gc` has not removed.",
        )
    acceptance.accept("plan", holder, files, clock.today())
    return acceptance.federation


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

    found = load_run(federation, load_federation(federation), run)
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
) -> tuple[EarlierRun, Caps]:
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
    found = load_run(file, declared, run)
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
