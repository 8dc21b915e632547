"""Horizontal learning by a process a party: elapsed and processor seconds, rounds and bytes."""

import argparse
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import parser_of, show
from benchmarks.papers.horizontal import BUCKETS, DOMAIN, GROWTH, OBJECTIVE, Share, deal_rows, words
from opboost_ops.aggregation.identity import Identity
from opboost_ops.aggregation.mailbox import Mailbox
from opboost_ops.boosting import federboost
from opboost_ops.boosting.federboost import Settings
from opboost_ops.boosting.histogram import Growth
from opboost_ops.config.feature import DomainRange
from opboost_ops.config.federation import Federation, IdColumn, Party
from opboost_ops.config.training import FederBoostTraining
from opboost_ops.exchange.key_files import write_private
from opboost_ops.exchange.rounds import Conversation
from opboost_ops.exchange.signing import Signer, new_signing_key
from opboost_ops.exchange.store import LocalStore
from opboost_ops.mechanisms import noise

_RUN, _PLAN = "0" * 16, "0" * 64
_PATIENCE = 1800.0


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--columns", type=int, default=11)
    options = parser.parse_args()
    result = {**vars(options), "load": round(os.getloadavg()[0], 1), **measured(options)}
    show(result, options)


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """One training of made-up rows, and LightGBM's on all of them."""
    made = words(0, options.rows * options.columns).reshape(options.columns, options.rows)
    integers = [(words % DOMAIN.size).astype(np.int64) + DOMAIN.lower for words in made]
    shares = [column / DOMAIN.upper for column in integers]
    label = (shares[0] + shares[1] * shares[2] + 0.5 * shares[3] > 0.95).astype(np.float64)
    growth = Growth(options.layers, GROWTH.learning_rate, GROWTH.penalty, GROWTH.least_node)
    settings = Settings(OBJECTIVE, (DOMAIN,) * options.columns, options.trees, BUCKETS, growth)
    begin = time.perf_counter()
    rows = lightgbm.Dataset(np.column_stack(integers).astype(float), label)
    stock = {"objective": "binary", "max_depth": options.layers, "num_threads": 1, "verbosity": -1}
    lightgbm.train({**stock, "num_leaves": 2**options.layers}, rows, options.trees)
    whole = time.perf_counter() - begin
    found = train(deal_rows(integers, label, options.parties), settings)
    rounds = found["messages"] // options.parties - 1
    return {**found, "rounds": rounds, "lightgbm": round(whole, 3)}


def train(shares: list[Share], settings: Settings) -> dict[str, Any]:
    """Train with a process a party; signing keys and secrets are throw-away ones.

    Args:
        shares: Of each party.
        settings: What is learnt, and how.

    Returns:
        ``wall`` seconds from the moment all are ready until the last has ended,
        ``processor_seconds`` of all, of the ``active`` party and, on average, of ``each_other``,
        ``bytes_of_one`` of the others, and how many ``messages`` all have sent.
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
            raise SystemExit("A party failed; its traceback is above.")
        found = sorted((told.get() for _ in names), key=lambda line: line["party"])
    used = [line["cpu"] for line in found]
    return {
        "processor_seconds": round(sum(used), 3),
        "active": round(used[0], 3),
        "each_other": round(float(np.mean(used[1:])), 3),
        "wall": round(seconds, 3),
        "bytes_of_one": found[1]["bytes"],
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


if __name__ == "__main__":
    main()
