"""LightGBM on Dask: training rows are distributed over workers, which grow each tree together."""

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
    lightgbm_settings,
    narrow_columns,
    portable_text,
)

if TYPE_CHECKING:
    from distributed import Client

#: Timeouts: for a connection to the cluster, and for its workers to connect to each other.
_CONNECT_SECONDS = 60
_JOIN_MINUTES = 5

#: Most rows that are sent to a worker at once.
_BLOCK = 500_000

#: Columns in narrow types, labels and weights.
_Part = tuple[list[np.ndarray], np.ndarray, np.ndarray | None]

#: Lines of a model file that depend on the machines.
_MACHINE_LINES = (
    r"tree_sizes=|\[(num_threads|data|valid|output_model|input_model|machines|num_machines"
    r"|local_listen_port|time_out|machine_list_filename|pre_partition):"
)


def require() -> None:
    """Raise ConfigError if Dask is not installed."""
    require_extra("distributed", "Dask", "site.yaml names a Dask scheduler", "dask")


def train(blocks: Blocks, parameters: Parameters, cluster: str) -> str:
    """Train with the rows on several workers.

    In LightGBM's own distributed training, each worker constructs the bins of some columns from its
    own rows, so that ranks missing there would share a bin. Here all workers use the bins of a
    reference that has every rank: as with a single process, no two ranks share a bin.

    Args:
        blocks: Training rows; each block is sent before the next is read.
        parameters: Parameters for LightGBM.
        cluster: Address of the scheduler.

    Returns:
        The model's text, without lines that depend on the machines. The last digits of its numbers
        depend on the distribution of rows.

    Raises:
        ConfigError: Dask is not installed.
        ContractError: The frame has no row or no feature.
        ConnectionError: The cluster is unreachable or lost a worker.
    """
    require()
    from distributed import Client, KilledWorker
    from distributed.comm import CommClosedError
    from lightgbm.basic import LightGBMError

    failure = ""
    try:
        # Dask's own configuration has the settings of tls:// addresses.
        with Client(cluster, timeout=_CONNECT_SECONDS) as client:
            return _train(client, blocks, parameters)
    except (OSError, TimeoutError, CommClosedError, KilledWorker) as error:
        failure = type(error).__name__
    except LightGBMError as error:
        # The remaining workers report a socket error if one was lost.
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
    # At least eight blocks, none larger than a worker can receive at once.
    size = max(1, min(_BLOCK, -(-rows // 8)))
    for number, begin in enumerate(range(0, rows, size)):
        some = slice(begin, min(begin + size, rows))
        matrix = blocks.read(some.start, some.stop).matrix
        reference.add(begin, matrix)
        weight = None if blocks.weight is None else blocks.weight[some]
        part: _Part = (narrow_columns(matrix), blocks.label[some], weight)
        del matrix
        worker = workers[number % len(workers)]
        shards[worker].append(client.scatter(part, workers=[worker], hash=False))
    shards = {worker: mine for worker, mine in shards.items() if mine}
    settings = lightgbm_settings(first, reference.highest, rows, parameters)
    bins = client.scatter(reference.matrix(), broadcast=True, hash=False)
    ports = client.run(_free_port, workers=list(shards))
    machines = [f"{urlsplit(worker).hostname}:{ports[worker]}" for worker in shards]
    if len(shards) > 1:
        settings |= {
            "tree_learner": "data",
            "pre_partition": True,
            "machines": ",".join(machines),
            "num_machines": len(machines),
            "time_out": _JOIN_MINUTES,
        }
    del settings["num_threads"]
    models = [
        client.submit(
            _train_on_worker,
            *(mine, bins, first, parameters.trees),
            {**settings, "local_listen_port": ports[worker]},
            # Run where the rows are, all at the same time.
            workers=[worker],
            pure=False,
            retries=0,
        )
        for worker, mine in shards.items()
    ]
    text: str = client.gather(models)[0]
    return portable_text(text, _MACHINE_LINES)


def _train_on_worker(
    parts: Sequence[_Part],
    reference: np.ndarray,
    frame: Frame,
    trees: int,
    settings: Mapping[str, Any],
) -> str:
    """Train on a worker, together with the others."""
    import lightgbm

    columns, labels, weights = zip(*parts, strict=True)
    # Construct before connecting: afterwards, LightGBM would construct bins across workers.
    mine = dataset(
        frame,
        reference,
        [(len(part[0]), partial(_read_rows, part)) for part in columns],
        np.concatenate(labels),
        None if weights[0] is None else np.concatenate(weights),
        {**settings, "num_machines": 1, "machines": ""},
    ).construct()
    booster = lightgbm.train(dict(settings), mine, trees)
    text: str = booster.model_to_string()
    booster.free_network()
    return text


def _read_rows(columns: list[np.ndarray], begin: int, end: int) -> np.ndarray:
    """Return rows of narrow columns as float64, shape (end - begin, features)."""
    return np.column_stack([column[begin:end] for column in columns]).astype(np.float64)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port
