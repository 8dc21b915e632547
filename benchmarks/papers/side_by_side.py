"""Parties of horizontal learning as processes that meet over a local store, and what they cost."""

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opboost_ops.aggregation.identity import Identity
from opboost_ops.aggregation.mailbox import Mailbox
from opboost_ops.boosting import federboost
from opboost_ops.boosting.federboost import Settings
from opboost_ops.config.feature import DomainRange
from opboost_ops.config.federation import Federation, IdColumn, Party
from opboost_ops.config.training import FederBoostTraining
from opboost_ops.errors import ContractError
from opboost_ops.exchange.key_files import write_private
from opboost_ops.exchange.rounds import Conversation
from opboost_ops.exchange.signing import Signer, new_signing_key
from opboost_ops.exchange.store import LocalStore
from opboost_ops.mechanisms import noise

_RUN, _PLAN = "0" * 16, "0" * 64
_PATIENCE = 1800.0

#: One party's rows: columns as domain integers, and labels.
Share = tuple[list[np.ndarray], np.ndarray]


def dealt(columns: Sequence[np.ndarray], label: np.ndarray, parties: int) -> list[Share]:
    """Rows dealt evenly.

    Args:
        columns: Domain integers, one array of shape (n,) a column.
        label: Labels, shape (n,).
        parties: To how many.
    """
    parts = np.array_split(np.arange(len(label)), parties)
    return [([column[part] for column in columns], label[part]) for part in parts]


def train(shares: Sequence[Share], settings: Settings) -> dict[str, Any]:
    """Train with a process a party; signing keys and secrets are throw-away ones.

    Args:
        shares: Of each party.
        settings: What is learnt, and how.

    Returns:
        ``seconds`` from the moment all are ready until the last has ended, ``cpu`` of the active
        party and, on average, of the others, ``bytes`` that one of the others has sent, and how
        many ``messages`` all have.

    Raises:
        ContractError: A party failed.
    """
    names = [f"party_{i:02d}" for i in range(len(shares))]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        signers = {}
        for i, name in enumerate(names):
            write_private(folder / f"{name}.key", new_signing_key(_bytes(i))[0].encode())
            signers[name] = Signer.from_file(folder / f"{name}.key")
        federation = Federation(
            version=1,
            name="side_by_side",
            learning="horizontal",
            id=IdColumn(column="id", type="string"),
            domain=DomainRange(lower=0, upper=1),
            parties={
                n: Party(role="label_holder", signing_key=s.public) for n, s in signers.items()
            },
            training=FederBoostTraining(trainer="federboost", active=names[0]),
        )
        # Forked: what this process has imported costs the parties nothing, as in a worker.
        fork = multiprocessing.get_context("fork")
        ready = fork.Barrier(len(names) + 1)
        told = fork.SimpleQueue()
        processes = [
            fork.Process(
                target=_party,
                args=(i, name, federation, signers, folder, shares[i], settings, ready, told),
            )
            for i, name in enumerate(names)
        ]
        for process in processes:
            process.start()
        ready.wait(_PATIENCE)
        begin = time.perf_counter()
        for process in processes:
            process.join()
        seconds = time.perf_counter() - begin
        if any(process.exitcode for process in processes):
            raise ContractError("A party of the experiment failed; its traceback is above.")
        found = sorted((told.get() for _ in names), key=lambda line: line["party"])
    return {
        "seconds": seconds,
        "cpu_active": found[0]["cpu"],
        "cpu_others": float(np.mean([line["cpu"] for line in found[1:]])),
        "bytes": found[1]["bytes"],
        "messages": sum(line["messages"] for line in found),
    }


def _party(
    number: int,
    name: str,
    federation: Federation,
    signers: dict[str, Signer],
    folder: Path,
    share: Share,
    settings: Settings,
    ready: Any,
    told: Any,
) -> None:
    secret = _bytes(number)
    seed = noise.run_seed(secret, federation.name, _RUN, _bytes(0))
    me = Identity(name, signers[name], secret, seed)
    pinned = {party: signer.public for party, signer in signers.items()}
    ready.wait(_PATIENCE)
    before = _cpu()
    mailbox = Mailbox(
        me,
        federation,
        _RUN,
        LocalStore(folder / "store"),
        Conversation(federation, _RUN, _PLAN, pinned),
        folder / f"kept_{name}",
        _PATIENCE,
    )
    federboost.learn(*share, settings, mailbox)
    traffic = mailbox.traffic
    told.put(
        {
            "party": name,
            "cpu": _cpu() - before,
            "bytes": traffic.bytes,
            "messages": traffic.sent,
        }
    )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _bytes(number: int) -> bytes:
    return bytes([number + 1]) * 32
