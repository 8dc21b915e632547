"""Federation files for everybody, and each party's own things in its home."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from opboost_ops.config.loading import load_federation, load_site
from opboost_ops.datasets import load
from opboost_ops.datasets.workspace import dump, write_workspace
from opboost_ops.orchestration.parties.environments import LOCAL_SETTINGS
from opboost_ops.orchestration.parties.places import Places, make
from opboost_ops.orchestration.parties.users import Account, give
from opboost_ops.run.agreement import agree


def queues(folder: Path) -> dict[str, set[str]]:
    """The queues of each party that any federation file names.

    Args:
        folder: Where the files lie.

    Raises:
        ConfigError: A file is faulty.
    """
    found: dict[str, set[str]] = {}
    for path in sorted(folder.glob("*.yaml")):
        for name, party in load_federation(path).parties.items():
            found.setdefault(name, set()).add(party.queue)
    return found


def write_federations(
    places: Places,
    dataset: str,
    rows: int | None,
    copies: int,
    training: Mapping[str, Any],
    store: str,
) -> None:
    """Make a dataset's federations; each party's things wait in its home for their owner.

    Args:
        places: Where.
        dataset: One of `opboost datasets list`.
        rows: Of the generated one.
        copies: How many federations of the same parties, on the same tables.
        training: Other entries of ``training``.
        store: Folder or URL of the exchange.
    """
    new = places.root / ".new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    file = write_workspace(load(dataset, rows=rows), new / "workspace", training=training)
    declared: dict[str, Any] = yaml.safe_load(file.read_text())
    for party, spec in declared["parties"].items():
        spec["queue"] = party
    files = new / "federations"
    make(files, 0o755)
    names = [declared["name"]] + [f"{declared['name']}_{n}" for n in range(2, copies + 1)]
    for name in names:
        dump(files / f"{name}.yaml", {**declared, "name": name})
        (files / f"{name}.yaml").chmod(0o644)
    for party in declared["parties"]:
        site = yaml.safe_load((file.parent / party / "site.yaml").read_text())
        site["store"] = store
        site["tables"] = dict.fromkeys(names, site["tables"][declared["name"]])
        dump(file.parent / party / "site.yaml", site)
        # Whoever makes the parties speaks for them, until their homes have other owners.
        mine = load_site(file.parent / party / "site.yaml")
        for name in names:
            agree(mine, load_federation(files / f"{name}.yaml"))
        home = places.home(party)
        shutil.rmtree(home, ignore_errors=True)
        shutil.move(file.parent / party, home)
        home.chmod(0o700)
    # All of them at once, and last: an interrupted start begins anew.
    files.rename(places.federations)
    shutil.rmtree(new)


def prepare_home(home: Path, account: Account) -> None:
    """Give a party's home to its user, with the folders that its worker needs.

    Args:
        home: Where.
        account: Whose.
    """
    if home.exists() and home.stat().st_uid == account.uid:
        return  # What lies there is the party's own affair from now on.
    home.mkdir(mode=0o700, exist_ok=True)
    home.chmod(0o700)
    for name in ("airflow/config", "tmp", "secrets"):
        (home / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    # One of each, by which `opboost parties refusals` sees that a worker reads its own alone.
    mark = f"opboost_{home.name}"
    own = {"variables": {mark: home.name}, "connections": {mark: {"conn_type": "generic"}}}
    for name, content in own.items():
        file = home / "secrets" / f"{name}.json"
        file.write_text(json.dumps(content) + "\n")
        file.chmod(0o600)
    (home / "airflow" / "config" / "airflow_local_settings.py").write_text(LOCAL_SETTINGS)
    give(home, account)
