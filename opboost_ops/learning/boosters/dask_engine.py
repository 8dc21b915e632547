"""LightGBM on Dask: training rows spread over workers, one tree grown by all of them."""

import socket
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from opboost_ops.config.resources import require_extra
from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters.backend import Frame, Parameters
from opboost_ops.learning.boosters.lightgbm_backend import (
    Blocks,
    Reference,
    dataset,
    narrow,
    settings_of,
    stated,
)

if TYPE_CHECKING:
    from distributed import Client

#: Seconds until a cluster must have answered, and minutes until its workers must have met.
_PATIENCE = 60
_MEETING = 5

#: Rows that are sent to a worker at once, at most.
_BLOCK = 500_000

#: Columns in narrow types, labels and weights.
_Part = tuple[list[np.ndarray], np.ndarray, np.ndarray | None]

#: What the model file would tell of the machines that made it.
_LOCAL = (
    r"tree_sizes=|\[(num_threads|data|valid|output_model|input_model|machines|num_machines"
    r"|local_listen_port|time_out|machine_list_filename|pre_partition):"
)


def require() -> None:
    """Make sure that Dask is there.

    Raises:
        ConfigError: It is not installed.
    """
    require_extra("distributed", "Dask", "site.yaml names a Dask scheduler", "dask")


def train(blocks: Blocks, parameters: Parameters, cluster: str) -> str:
    """Train with the rows on several workers.

    LightGBM's own distributed training lets each worker look for some columns' bins among its own
    rows, so that ranks which it does not have would share one. Here all workers take their bins
    from one reference that holds every rank: as with one process, no two ranks share a bin.

    Args:
        blocks: The rows; a block is sent off before the next one is read.
        parameters: How; the booster is LightGBM.
        cluster: Address of its scheduler.

    Returns:
        The text model, without what it says of machines. The last digits of its numbers hang on
        which worker had which rows.

    Raises:
        ConfigError: Dask is not installed.
        ContractError: There is no row or no feature to learn from.
        ConnectionError: The cluster cannot be reached, or lost a worker.
    """
    require()
    from distributed import Client, KilledWorker
    from distributed.comm import CommClosedError
    from lightgbm.basic import LightGBMError

    failure = ""
    try:
        # What a tls:// address needs is in Dask's own configuration.
        with Client(cluster, timeout=_PATIENCE) as client:
            return _train(client, blocks, parameters)
    except (OSError, TimeoutError, CommClosedError, KilledWorker) as error:
        failure = type(error).__name__
    except LightGBMError as error:
        # What the others say when a worker has gone.
        if "socket" not in str(error).lower():
            raise
        failure = "a worker was lost"
    raise ConnectionError(f"Training on the Dask cluster failed ({failure}).")


def _train(client: "Client", blocks: Blocks, parameters: Parameters) -> str:
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    if not workers:
        raise ConnectionError("no workers")
    shards: dict[str, list[Any]] = {worker: [] for worker in workers}
    rows = len(blocks.label)
    first = blocks.read(0, 1)
    if not rows or not first.names:
        raise ContractError("The training frame has no row or no feature.")
    reference = Reference(first, rows)
    # At least two blocks a worker on this machine, and none larger than a worker can take at once.
    size = max(1, min(_BLOCK, -(-rows // 8)))
    for number, begin in enumerate(range(0, rows, size)):
        some = slice(begin, min(begin + size, rows))
        matrix = blocks.read(some.start, some.stop).matrix
        reference.add(begin, matrix)
        weight = None if blocks.weight is None else blocks.weight[some]
        part: _Part = (narrow(matrix), blocks.label[some], weight)
        del matrix
        worker = workers[number % len(workers)]
        shards[worker].append(client.scatter(part, workers=[worker], hash=False))
    shards = {worker: mine for worker, mine in shards.items() if mine}
    settings = settings_of(first, reference.highest, rows, parameters)
    bins = client.scatter(reference.matrix(), broadcast=True, hash=False)
    ports = client.run(_free_port, workers=list(shards))
    machines = [f"{urlsplit(worker).hostname}:{ports[worker]}" for worker in shards]
    if len(shards) > 1:
        settings |= {
            "tree_learner": "data",
            "pre_partition": True,
            "machines": ",".join(machines),
            "num_machines": len(machines),
            "time_out": _MEETING,
        }
    del settings["num_threads"]
    models = [
        client.submit(
            _grown,
            *(mine, bins, first, parameters.trees),
            {**settings, "local_listen_port": ports[worker]},
            # Each where its rows are, and all at the same time.
            workers=[worker],
            pure=False,
            retries=0,
        )
        for worker, mine in shards.items()
    ]
    text: str = client.gather(models)[0]
    return stated(text, _LOCAL)


def _grown(
    parts: Sequence[_Part],
    reference: np.ndarray,
    frame: Frame,
    trees: int,
    settings: Mapping[str, Any],
) -> str:
    """A worker's side of the training."""
    import lightgbm

    columns, labels, weights = zip(*parts, strict=True)
    # Before it meets the others: then it would look for bins together with them.
    mine = dataset(
        frame,
        reference,
        [(len(part[0]), partial(_joined, part)) for part in columns],
        np.concatenate(labels),
        None if weights[0] is None else np.concatenate(weights),
        {**settings, "num_machines": 1, "machines": ""},
    ).construct()
    booster = lightgbm.train(dict(settings), mine, trees)
    text: str = booster.model_to_string()
    booster.free_network()
    return text


def _joined(columns: list[np.ndarray], begin: int, end: int) -> np.ndarray:
    """Some rows of narrow columns as numbers, shape (end - begin, features)."""
    return np.column_stack([column[begin:end] for column in columns]).astype(np.float64)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port
