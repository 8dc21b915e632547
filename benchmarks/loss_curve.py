"""How channel, sampling table and loss curve grow with the domain: seconds and memory of each.

Every size is a process of its own, so that the memory is its own.
"""

import argparse
import json
import multiprocessing
import resource
import time

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import AdjMap, GlobalMap, Mechanism
from opboost_ops.privacy.loss import loss_curve


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 128, 256, 512, 1024])
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    lines = []
    for size in options.sizes:
        for name in ("global", "adj"):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                lines.append(pool.apply(measured, (name, size, options.epsilon)))
    if options.json:
        print(json.dumps({"epsilon": options.epsilon, "lines": lines}))
        return
    print("| mechanism | values | channel | table | loss curve | in all | memory |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for line in lines:
        print(
            f"| {line['mechanism']} | {line['values']} | {line['channel']:.2f} s "
            f"| {line['table']:.2f} s | {line['curve']:.2f} s | {line['seconds']:.2f} s "
            f"| {line['mebibytes']} MiB |"
        )


def measured(name: str, size: int, epsilon: float) -> dict[str, float | int | str]:
    """What one domain takes.

    Args:
        name: ``global`` or ``adj``, of 16 partitions.
        size: Values of the domain.
        epsilon: Nominal.
    """
    mechanism: Mechanism = GlobalMap(epsilon=epsilon)
    if name == "adj":
        mechanism = AdjMap(epsilon=epsilon, theta=max(1, size // 16))
    domain = Domain(1, size)
    times = [time.perf_counter()]
    channel = mechanism.channel(domain)
    channel.digest()
    times.append(time.perf_counter())
    _ = channel.alias
    times.append(time.perf_counter())
    loss_curve(mechanism, domain)
    times.append(time.perf_counter())
    return {
        "mechanism": name,
        "values": size,
        "channel": round(times[1] - times[0], 3),
        "table": round(times[2] - times[1], 3),
        "curve": round(times[3] - times[2], 3),
        "seconds": round(times[3] - times[0], 3),
        "mebibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


if __name__ == "__main__":
    main()
