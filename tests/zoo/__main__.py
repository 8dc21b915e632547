"""Put all odd tables through every entry point, and print a table of what became of them."""

import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.zoo import ALL
from tests.zoo.everything import ENTRIES, everything


def _outcomes(number: int) -> dict[str, str]:
    with TemporaryDirectory(prefix="zoo-") as folder:
        return everything(ALL[number], Path(folder) / "table")


def main() -> int:
    """Print the table; 1 if there is a silent difference."""
    chosen = [at for at, odd in enumerate(ALL) if not sys.argv[1:] or odd.name in sys.argv[1:]]
    counts, silent = {name: Counter[str]() for name in ENTRIES}, []
    with ProcessPoolExecutor(2) as pool:
        for at, outcomes in zip(chosen, pool.map(_outcomes, chosen, chunksize=4), strict=True):
            for entry, outcome in outcomes.items():
                known = outcome in ("accepted", "refused")
                counts[entry][outcome if known else "silent"] += 1
                if not known:
                    silent.append(f"{ALL[at].name}, {entry}: {outcome}")
                    sys.stderr.write(f"{silent[-1]}\n")
    lines = [f"{'entry':15} accepted  refused  silent differences"]
    for entry, of in counts.items():
        lines.append(f"{entry:15} {of['accepted']:8} {of['refused']:8} {of['silent']:8}")
    sys.stdout.write("\n".join([*lines, *silent, ""]))
    return int(bool(silent))


if __name__ == "__main__":
    sys.exit(main())
