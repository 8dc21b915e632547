"""A table of several files gives, to the byte, what one file gives."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from opboost_ops import table_watch
from opboost_ops.config.loading import load_site
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.exchange.manifest import parse_manifest
from opboost_ops.privacy.forgotten import Forgotten
from opboost_ops.runner import Run, run_stage
from opboost_ops.stages.list_shards import DISCLOSES
from tests.books import books_of
from tests.federation import SECOND_RUN, Workspace, small_credit

PARTY = "bank"
NAME = "credit_scoring"


def split(workspace: Workspace, sizes: tuple[int, ...], files: str = "part-{}.parquet") -> Path:
    """Put a folder of files of these sizes, and the rest, in the place of the bank's table."""
    path = workspace.table_path(PARTY)
    table = pl.read_parquet(path)
    folder = path.with_suffix("")
    folder.mkdir()
    path.unlink()
    begin = 0
    for number, size in enumerate([*sizes, table.height - sum(sizes)]):
        table[begin : begin + size].write_parquet(folder / files.format(number))
        begin += size
    # Neither is part of it.
    (folder / ".part-9.parquet").write_bytes(b"half a file")
    (folder / "_SUCCESS").touch()

    def change(site: Any) -> None:
        site["tables"][NAME][workspace.purpose] = f"tables/{workspace.purpose}"

    workspace.edit_yaml(f"{PARTY}/site.yaml", change)
    return folder


def strangers_first(workspace: Workspace, rows: int) -> None:
    """Let the bank's first rows be of people whom nobody else knows."""

    def change(table: pl.DataFrame) -> pl.DataFrame:
        known = pl.read_parquet(workspace.folder / "credit" / "tables" / path.name)["id"]
        strange = ~table["id"].is_in(known.to_list())
        assert strange.sum() >= rows
        return pl.concat([table.filter(strange), table.filter(~strange)])

    path = workspace.table_path(PARTY)
    workspace.edit_table(PARTY, change)


def forget(workspace: Workspace, rows: tuple[int, ...]) -> None:
    site = load_site(workspace.folder / PARTY / "site.yaml")
    ids = pl.read_parquet(workspace.table_path(PARTY))["id"]
    for row in rows:
        Forgotten(site.forgotten).add(site.noise_secret(), ids[row])


def sharded(workspace: Workspace) -> None:
    workspace.edit_yaml("federation.yaml", lambda d: d["parties"][PARTY].update(shards=True))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Two parties; the bank's first rows are of strangers, and some of its people forgotten."""
    whole = small_credit()
    parties = ("credit", PARTY)
    small = replace(
        whole,
        tables={party: whole.tables[party] for party in parties},
        features={party: whole.features[party] for party in parties},
        new_rows={party: whole.new_rows[party] for party in parties},
    )
    workspace = Workspace.write(
        tmp_path_factory.mktemp("made") / "federation",
        small,
        scoring={"mode": "routed", "evaluate": ["desensitised"]},
        training={"trees": 2},
    )
    workspace.plain()
    for each in (workspace, workspace.scoring()):
        strangers_first(each, 2)
        forget(each, (1, 20, 21))
    return workspace


@pytest.fixture
def copied(
    made: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[bool], Workspace]:
    """A copy of it, whose sites are then the known ones: as one file, or in shards."""

    def copy(in_shards: bool) -> Workspace:
        found = made.copy(tmp_path / ("shards" if in_shards else "one"), made.run)
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        if in_shards:
            # The first file holds nobody whom all parties have.
            split(found, (2, 120))
            split(found.scoring(), (2, 19))
            sharded(found)
        return found

    return copy


def sent(workspace: Workspace) -> dict[str, Any]:
    """All that was published but the plan, which differs; what answers what follows from it."""
    found: dict[str, Any] = {}
    for name, content in workspace.files("exchange", NAME).items():
        run, kind, _, file = name.split("/")
        if kind == "plan" or file in ("signature", "manifest.sig", "published.json"):
            continue
        if file == "manifest.json":
            manifest = parse_manifest(content, "").model_dump()
            found[name] = {k: v for k, v in manifest.items() if k != "answers"}
        else:
            found[name] = content
    return found


def books(workspace: Workspace) -> tuple[list[dict[str, Any]], list[str]]:
    """The bank's ledger but for the digests, and the lines of `list_shards`."""
    with books_of(workspace, PARTY) as kept:
        lines = [release.model_dump(mode="json") for release in kept.ledger.releases()]
    listed = [line["discloses"] for line in lines if line["kind"] == "list_shards"]
    rest = [line for line in lines if line["kind"] != "list_shards"]
    return [{k: v for k, v in line.items() if k != "artifact"} for line in rest], listed


def test_training_and_scoring_are_the_same_to_the_byte(
    copied: Callable[[bool], Workspace],
) -> None:
    told, models, cells, kept, lines, homes = [], [], [], [], [], []
    for in_shards in (False, True):
        workspace = copied(in_shards)
        workspace.all()
        models.append(workspace.files("credit", "models", NAME, workspace.run)["model.txt"])
        routed = workspace.scoring()
        routed.all() if in_shards else routed.until("score")
        workspace.edit_yaml("federation.yaml", lambda d: d["scoring"].update(mode="desensitised"))
        workspace.scoring("0" * 15 + "b").until("accept")
        told.append(sent(workspace))
        cells.append(workspace.files(PARTY, "cells"))
        ledger, listed = books(workspace)
        kept.append(ledger)
        lines.append(listed)
        homes.append(workspace.files(PARTY, "home", NAME))
    assert {name.split("/")[1] for name in told[0]} >= {"ranks", "holdout", "routes", "values"}
    assert told[0] == told[1]
    assert models[0] == models[1]
    assert cells[0] == cells[1]
    assert kept[0] == kept[1]
    assert lines == [[], [DISCLOSES] * 3]
    # Nobody of the first file is in a release, and yet it was treated like the others.
    parts = {name.split("/")[1] for name in homes[1]} - {n.split("/")[1] for n in homes[0]}
    assert {f"{what}-{i}.arrow" for what in ("held", "positions") for i in range(3)} <= parts
    for name in ("preprocessed.arrow", "positions.arrow", "randomised.arrow", "held.arrow"):
        assert homes[0][f"{workspace.run}/{name}"] == homes[1][f"{workspace.run}/{name}"]
