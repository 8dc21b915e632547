"""LightGBM on Dask: training rows are distributed over workers, which grow each tree together."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa

from opboost_ops.config.resources import require_extra
from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters.backend import Parameters, Progress, Rows, silent
from opboost_ops.learning.boosters.lightgbm_backend import (
    bin_reference,
    dataset,
    narrow,
    portable_text,
)
from opboost_ops.tables.spill.arrays import release_memory

if TYPE_CHECKING:
    from distributed import Client

#: Timeouts: for a connection to the cluster, and for its workers to connect to each other.
_CONNECT_SECONDS = 60
_JOIN_MINUTES = 5

#: Most rows that are sent to a worker at once.
_BLOCK = 500_000

#: Lines of a model file that depend on the machines.
_MACHINE_LINES = (
    r"tree_sizes=|\[(num_threads|data|valid|output_model|input_model|machines|num_machines"
    r"|local_listen_port|time_out|machine_list_filename|pre_partition):"
)


def require() -> None:
    """Raise ConfigError if Dask is not installed."""
    require_extra("distributed", "Dask", "site.yaml names a Dask scheduler", "dask")


@dataclass(frozen=True)
class DaskEngine:
    """Training on several workers, each with some of the rows.

    In LightGBM's own distributed training, each worker constructs the bins of some columns from its
    own rows, so that ranks missing there would share a bin. Here all workers use the bins of a
    reference that has every rank: as with a single process, no two ranks share a bin.

    Attributes:
        cluster: Address of the scheduler.
    """

    cluster: str

    def train(
        self,
        rows: Rows,
        parameters: Parameters,
        progress: Progress = silent,  # noqa: ARG002
    ) -> str:
        """See `Engine.train`; each block of rows is sent before the next is read.

        The last digits of the model's numbers depend on the distribution of rows.

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
            with Client(self.cluster, timeout=_CONNECT_SECONDS) as client:
                return _train(client, rows, parameters)
        except (OSError, TimeoutError, CommClosedError, KilledWorker) as error:
            failure = type(error).__name__
        except LightGBMError as error:
            # The remaining workers report a socket error if one was lost.
            if "socket" not in str(error).lower():
                raise
            failure = "a worker was lost"
        raise ConnectionError(f"Training on the Dask cluster failed ({failure}).")


def _train(client: "Client", rows: Rows, parameters: Parameters) -> str:
    threads = {
        worker: facts["nthreads"]
        for worker, facts in sorted(client.scheduler_info(n_workers=-1)["workers"].items())
    }
    if not threads:
        raise ConnectionError("no workers")
    workers = list(threads)
    shards: dict[str, list[Any]] = {worker: [] for worker in workers}
    count = rows.table.num_rows
    if not count or not rows.frame.names:
        raise ContractError("The training frame has no row or no feature.")
    reference, settings = bin_reference(rows, parameters)
    # At least eight blocks, none larger than a worker can receive at once.
    size = max(1, min(_BLOCK, -(-count // 8)))
    for number, begin in enumerate(range(0, count, size)):
        release_memory()
        worker = workers[number % len(workers)]
        part = _narrow_floats(rows.table.slice(begin, size))
        shards[worker].append(client.scatter(part, workers=[worker], hash=False))
    shards = {worker: parts for worker, parts in shards.items() if parts}
    bins = client.scatter(reference, broadcast=True, hash=False)
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
    # Not a slice: pickle would include the rows of the whole table.
    columns = replace(rows, table=rows.table.schema.empty_table())
    models = [
        client.submit(
            _train_on_worker,
            *(parts, bins, columns, parameters.trees),
            {**settings, "num_threads": threads[worker], "local_listen_port": ports[worker]},
            # Run where the rows are, all at the same time.
            workers=[worker],
            pure=False,
            retries=0,
        )
        for worker, parts in shards.items()
    ]
    text: str = client.gather(models)[0]
    return portable_text(text, _MACHINE_LINES)


def _train_on_worker(
    parts: Sequence[pa.Table],
    reference: pa.Table,
    columns: Rows,
    trees: int,
    settings: Mapping[str, Any],
) -> str:
    """Train on a worker, together with the others."""
    import lightgbm

    # Types may differ between parts.
    rows = replace(columns, table=pa.concat_tables(parts, promote_options="permissive"))
    # Construct before connecting: afterwards, LightGBM would construct bins across workers.
    alone = {**settings, "num_machines": 1, "machines": ""}
    data = dataset(rows, reference, alone).construct()
    booster = lightgbm.train(dict(settings), data, trees, keep_training_booster=True)
    text: str = booster.model_to_string()
    booster.free_network()
    return text


def _narrow_floats(part: pa.Table) -> pa.Table:
    """Return a part with its own numbers in narrow types; ranks have one or two bytes already."""
    columns = zip(part.column_names, part.columns, strict=True)
    return pa.table(
        {
            name: column if pa.types.is_integer(column.type) else narrow(column.to_numpy())
            for name, column in columns
        }
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port
