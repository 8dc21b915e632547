"""What lies beside a compose file: federation files, and a home for each party."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from opboost_ops.config.loading import load_federation, load_site
from opboost_ops.extras.datasets import load
from opboost_ops.extras.datasets.workspace import dump, write_workspace
from opboost_ops.pipeline.party.agreement import agree

PARTIES = ("bank", "credit", "shop")


def write_deployment(
    root: Path,
    store: str,
    rows: int = 2000,
    copies: int = 1,
    training: Mapping[str, object] | None = None,
    queue: str = "{}",
) -> Path:
    """Write ``homes/<party>`` and ``federations/<name>.yaml``; all parties agree.

    Args:
        root: Where.
        store: Of every site file.
        rows: Of the generated tables.
        copies: How many federations use the same tables.
        training: Other entries of ``training``.
        queue: Of a party, by its name.

    Returns:
        The folder of the federation files.
    """
    file = write_workspace(load("credit", rows=rows), root / "homes", training=training)
    declared: dict[str, Any] = yaml.safe_load(file.read_text())
    file.unlink()
    for party, spec in declared["parties"].items():
        spec["queue"] = queue.format(party)
    federations = root / "federations"
    federations.mkdir()
    name = declared["name"]
    names = [name, *(f"{name}_{number}" for number in range(2, copies + 1))]
    for each in names:
        dump(federations / f"{each}.yaml", {**declared, "name": each})
    for party in PARTIES:
        path = root / "homes" / party / "site.yaml"
        site = yaml.safe_load(path.read_text())
        tables = dict.fromkeys(names, site["tables"][name])
        dump(path, {**site, "store": store, "tables": tables})
        for each in names:
            agree(load_site(path), load_federation(federations / f"{each}.yaml"))
    return federations
