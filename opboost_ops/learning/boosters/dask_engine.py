"""LightGBM on Dask: training rows spread over workers, one tree grown by all of them."""

import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters.frame import Frame, Parameters
from opboost_ops.learning.boosters.lightgbm_backend import highest_of, settings_of, stated
from opboost_ops.learning.boosters.lightgbm_blocks import SAMPLE, with_all_ranks
from opboost_ops.learning.extras import require_extra

if TYPE_CHECKING:
    from distributed import Client

#: Seconds until a cluster must have answered, and minutes until its workers must have met.
_PATIENCE = 60
_MEETING = 5

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


def train(parts: Iterable[tuple[Frame, np.ndarray]], parameters: Parameters, cluster: str) -> str:
    """Train with the rows on several workers.

    LightGBM's own distributed training lets each worker look for some columns' bins among its own
    rows, so that ranks which it does not have would share one. Here all workers take their bins
    from one reference that holds every rank: as with one process, no two ranks share a bin.

    Args:
        parts: Rows and labels, block by block; a block is sent off before the next one is read.
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
            return _train(client, parts, parameters)
    except (OSError, TimeoutError, CommClosedError, KilledWorker) as error:
        failure = type(error).__name__
    except LightGBMError as error:
        # What the others say when a worker has gone.
        if "socket" not in str(error).lower():
            raise
        failure = "a worker was lost"
    raise ConnectionError(f"Training on the Dask cluster failed ({failure}).")


def _train(
    client: "Client", parts: Iterable[tuple[Frame, np.ndarray]], parameters: Parameters
) -> str:
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    if not workers:
        raise ConnectionError("no workers")
    shards: dict[str, list[Any]] = {worker: [] for worker in workers}
    sample: list[np.ndarray] = []
    first, rows, highest = None, 0, np.empty(0)
    for number, (frame, label) in enumerate(parts):
        most = highest_of(frame.matrix)
        highest = most if first is None else np.maximum(highest, most)
        first = first or Frame(frame.names, frame.matrix[:0], frame.categorical, frame.ranked)
        if rows < SAMPLE:
            sample.append(frame.matrix[: SAMPLE - rows].copy())
        rows += len(label)
        worker = workers[number % len(workers)]
        block = (frame.matrix, label, frame.weight)
        shards[worker].append(client.scatter(block, workers=[worker], hash=False))
    if first is None or not rows or not first.names:
        raise ContractError("The training frame has no row or no feature.")
    shards = {worker: mine for worker, mine in shards.items() if mine}
    settings = settings_of(first, highest, rows, parameters)
    reference = client.scatter(
        with_all_ranks(np.concatenate(sample), first, highest), broadcast=True, hash=False
    )
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
    columns = (list(first.names), [first.names.index(name) for name in first.categorical])
    models = [
        client.submit(
            _grown,
            *(mine, reference, columns, parameters.trees),
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
    parts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray | None]],
    reference: np.ndarray,
    columns: tuple[list[str], list[int]],
    trees: int,
    settings: Mapping[str, Any],
) -> str:
    """A worker's side of the training."""
    import lightgbm

    names, categorical = columns
    common: dict[str, Any] = {
        "params": {**settings, "num_machines": 1, "machines": ""},
        "feature_name": names,
    }
    bins = lightgbm.Dataset(reference, categorical_feature=categorical, **common).construct()
    matrices, labels, weights = zip(*parts, strict=True)
    weight = None if weights[0] is None else np.concatenate(weights)
    # Before it meets the others: then it would look for bins together with them.
    mine = lightgbm.Dataset(
        np.concatenate(matrices),
        np.concatenate(labels),
        weight=weight,
        reference=bins,
        **common,
    ).construct()
    booster = lightgbm.train(dict(settings), mine, trees)
    text: str = booster.model_to_string()
    booster.free_network()
    return text


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port
