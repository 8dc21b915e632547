"""Ledger entries of disclosures without an artifact: models and summaries."""

import hashlib
from typing import Any, Literal

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.learning.federboost.sum_noise import SumNoise
from opboost_ops.pipeline.protocol import EVERYBODY, STEPS
from opboost_ops.pipeline.runner.publication import Publisher, experiment_of
from opboost_ops.privacy.ledger.budgets import Budget, ModelCharge
from opboost_ops.privacy.ledger.entries import LedgerEntry

#: Who is told what has an epsilon of its own, and what it is.
_MODEL = {
    "model": (
        "whoever is given the model, or sees what it led to",  # codespell:ignore whoever
        "trees with noise in their splits and leaves",
    ),
    "metrics": (EVERYBODY, "metrics of held-out rows with noise"),
}


def charge_model(party: Publisher, federation: Federation, run: str, model: ModelCharge) -> None:
    """Charge the label holder's rows for a model or for its noisy metrics, whatever becomes of it.

    A model that loses against the champion is charged, too: that it lost is told. The same draw is
    charged once for any number of runs of its stage.

    Args:
        party: The label holder.
        federation: The plan's.
        run: The run's id.
        model: What was drawn.

    Raises:
        BudgetError: The policy's cap on all models would be exceeded; nothing of it leaves.
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
    party: Publisher, federation: Federation, run: str, session: str, noise: SumNoise, rows: int
) -> None:
    """Charge a party's rows for a session of noisy sums, before anything of it leaves.

    It is charged in full, whatever becomes of the session, and once: a retry has the same name.

    Args:
        party: Whose rows.
        federation: The plan's.
        run: The run's id.
        session: The session's name.
        noise: What is added to the sums.
        rows: Of this party.

    Raises:
        BudgetError: The policy's cap on all models would be exceeded; nothing leaves.
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


def _charge(party: Publisher, federation: Federation, run: str, **facts: Any) -> None:
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
    party: Publisher,
    federation: Federation,
    run: str,
    stage: str,
    by: Literal["summary", "failure", "messages"],
) -> None:
    """Write into the ledger what a step is declared to tell beside its artifacts.

    Args:
        party: Who runs it.
        federation: The plan's.
        run: The run's id.
        stage: The step.
        by: By what of it; see `protocol.Disclosure`.
    """
    for kind, receiver, words in STEPS[stage].disclosures(federation, party.name, by):
        announce(party, federation, run, kind, words, receiver)


def announce(
    party: Publisher,
    federation: Federation,
    run: str,
    stage: str,
    discloses: str,
    receiver: str = EVERYBODY,
) -> None:
    """Write into the ledger what a stage's summary tells everybody.

    Args:
        party: Who says it.
        federation: The plan's.
        run: The run's id.
        stage: The stage that says it.
        discloses: What it tells.
        receiver: To whom.
    """
    facts = {"receiver": receiver, "run": run, "experiment": experiment_of(party)}
    place = name_of(f"{federation.name}/{run}/{stage}/{party.name}")
    with open_state(party.site) as state:
        enter(state, party.name, federation.name, stage, place, discloses, **facts)


def name_of(place: str) -> str:
    """The name of what no artifact carries, 64 hex digits.

    Args:
        place: What nothing else is called.
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
    """Write one exact line, which no artifact carries, into a party's ledger.

    Args:
        state: The party's.
        party: Its name.
        federation: Name of the federation.
        kind: What says it.
        artifact: Its name, 64 hex digits: of one name it is written once.
        discloses: What it tells everyone who sees the run.
        facts: The rest of a `LedgerEntry`.
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
    with state.together():
        state.ledger.reserve([line])
        state.ledger.commit(artifact)
