"""Ledger entries of disclosures without an artifact: models and summaries."""

import hashlib
from typing import Any, Literal

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.learning.federboost.sum_noise import SumNoise
from opboost_ops.pipeline.party.local_party import LocalParty, experiment_of
from opboost_ops.pipeline.protocol import STEPS
from opboost_ops.pipeline.step_types import EVERYBODY
from opboost_ops.privacy.ledger.budgets import Budget, ModelCharge
from opboost_ops.privacy.ledger.entries import LedgerEntry

#: Receiver and content of a disclosure with an epsilon of its own, by kind.
_MODEL = {
    "model": (
        "whoever is given the model, or sees what it led to",  # codespell:ignore whoever
        "trees with noise in their splits and leaves",
    ),
    "metrics": (EVERYBODY, "metrics of held-out rows with noise"),
}


def charge_model(party: LocalParty, federation: Federation, run: str, model: ModelCharge) -> None:
    """Charge the label holder's rows for a model or its noisy metrics.

    A model that loses against the champion is charged too, because the loss itself is disclosed. A
    draw is charged once, however often its stage runs.

    Args:
        party: The label holder.
        federation: The plan's federation.
        run: The run's ID.
        model: The draw.

    Raises:
        BudgetError: It would exceed the policy's cap on all models; nothing is released.
    """
    receiver, of = _MODEL[model.what]
    _charge(
        party,
        federation,
        run,
        receiver=receiver,
        kind=model.what,
        artifact=model.name,
        epsilon=model.epsilon,
        curve=model.curve,
        replaced=model.replaced,
        rows=model.rows,
        discloses=f"{of}; epsilon for a row added or removed, more for a row replaced",
    )


def charge_sums(
    party: LocalParty, federation: Federation, run: str, session: str, noise: SumNoise, rows: int
) -> None:
    """Charge a party's rows for a session of noisy sums, before any sum is sent.

    The session is charged in full even if it fails, and only once: a retry has the same name.

    Args:
        party: The party whose rows are summed.
        federation: The plan's federation.
        run: The run's ID.
        session: Name of the session.
        noise: The noise on the sums.
        rows: Number of the party's rows.

    Raises:
        BudgetError: It would exceed the policy's cap on all models; nothing is sent.
    """
    _charge(
        party,
        federation,
        run,
        receiver="all parties, and whoever is given the model",  # codespell:ignore whoever
        kind="model",
        artifact=session,
        epsilon=noise.curve.epsilon,
        curve=noise.curve,
        replaced=noise.replaced,
        rows=rows,
        discloses="sums over all parties with noise, and the model that follows from them: "
        f"{noise.guarantee(len(federation.parties))}",
    )


def _charge(party: LocalParty, federation: Federation, run: str, **facts: Any) -> None:
    line = LedgerEntry(
        federation=federation.name,
        run=run,
        party=party.name,
        account="model",
        experiment=experiment_of(party),
        **facts,
    )
    with open_state(party.site) as state:
        state.ledger.reserve([line], Budget(party.policy).models)
        state.ledger.commit(line.artifact)


def announce_step(
    party: LocalParty,
    federation: Federation,
    run: str,
    stage: str,
    by: Literal["summary", "failure", "messages"],
) -> None:
    """Enter into the ledger the declared disclosures of a step besides its artifacts.

    Args:
        party: The party that runs the step.
        federation: The plan's federation.
        run: The run's ID.
        stage: Name of the step.
        by: The channel of the disclosure; see `step_types.Disclosure`.
    """
    for kind, receiver, words in STEPS[stage].disclosures(federation, party.name, by):
        announce(party, federation, run, kind, words, receiver)


def announce(
    party: LocalParty,
    federation: Federation,
    run: str,
    kind: str,
    discloses: str,
    receiver: str = EVERYBODY,
) -> None:
    """Enter a disclosure without an artifact into the ledger.

    Args:
        party: The party that discloses.
        federation: The plan's federation.
        run: The run's ID.
        kind: Kind of the entry, such as the stage that discloses.
        discloses: The disclosure, in words.
        receiver: Its receiver.
    """
    facts = {"receiver": receiver, "run": run, "experiment": experiment_of(party)}
    place = name_of(f"{federation.name}/{run}/{kind}/{party.name}")
    with open_state(party.site) as state:
        enter(state, party.name, federation.name, kind, place, discloses, **facts)


def name_of(place: str) -> str:
    """Return the name of a disclosure without an artifact, 64 hex digits.

    Args:
        place: A unique description.
    """
    return hashlib.sha256(place.encode()).hexdigest()


def enter(
    state: PartyState,
    party: str,
    federation: str,
    kind: str,
    artifact: str,
    discloses: str,
    **facts: Any,
) -> None:
    """Add one exact entry, for a disclosure without an artifact, to a party's ledger.

    Args:
        state: The party's state.
        party: Name of the party.
        federation: Name of the federation.
        kind: Kind of the disclosure.
        artifact: Name of the disclosure, 64 hex digits; each name is entered once.
        discloses: What everyone who sees the run learns.
        facts: Other fields of the `LedgerEntry`.
    """
    line = LedgerEntry(
        **{"run": "", "receiver": EVERYBODY, "rows": 0, **facts},
        federation=federation,
        party=party,
        kind=kind,
        artifact=artifact,
        account="exact",
        discloses=discloses,
    )
    with state.transaction():
        state.ledger.reserve([line])
        state.ledger.commit(artifact)
