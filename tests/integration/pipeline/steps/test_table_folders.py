"""A table of several files gives, to the byte, what one file gives."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from opboost_ops.errors import ContractError
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.raw_blocks import whole_table
from opboost_ops.pipeline.party import own_table
from opboost_ops.tables.spill import arrays, tables
from tests.bad_input.faults import CANARY_TEXT, message_is_right
from tests.federation import Workspace, small_credit
from tests.party_state import context_of, entries_of
from tests.party_state import forget as forget_person

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
    site = workspace.site(PARTY)
    ids = pl.read_parquet(workspace.table_path(PARTY))["id"]
    for row in rows:
        forget_person(site, ids[row])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Two parties; the bank's first rows are of strangers, and some of its people forgotten."""
    workspace = Workspace.write(
        tmp_path_factory.mktemp("made") / "federation",
        small_credit(without="shop"),
        scoring={"mode": "routed", "evaluate": ["desensitised"]},
        training={"trees": 2, "weight_column": "term_months"},
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
    """A copy of it: as one file, or as a folder."""

    def copy(in_files: bool) -> Workspace:
        found = made.copy(tmp_path / ("files" if in_files else "one"), made.run)
        if in_files:
            # The first file holds nobody whom all parties have.
            split(found, (2, 120))
            split(found.scoring(), (2, 19))
            # More rows than are held in memory, and than are read at once.
            for party in (PARTY, "credit"):
                found.declare(f"{party}/site.yaml", block_rows=40)
            for module, size in ((arrays, "BLOCK"), (tables, "MIN_ROWS"), (tables, "MAX_ROWS")):
                monkeypatch.setattr(module, size, 60)
        return found

    return copy


def opened(workspace: Workspace) -> dict[str, bytes]:
    """The rows that the label holder opened, in every run."""
    return {
        name: content
        for name, content in workspace.files("credit", "home", NAME).items()
        if name.endswith("/opened-bank.arrow")
    }


def read(raw: bytes) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(pa.ipc.open_file(raw).read_all()))


def timeless(page: bytes) -> bytes:
    """A page but for the seconds that a check took."""
    return re.sub(rb"\d+\.\d+ s<", b"s<", page)


def state(workspace: Workspace) -> list[dict[str, Any]]:
    """The bank's ledger but for the digests."""
    lines = [release.model_dump(mode="json") for release in entries_of(workspace, PARTY)]
    return [{k: v for k, v in line.items() if k != "artifact"} for line in lines]


@pytest.mark.slow
def test_training_and_scoring_are_the_same_to_the_byte(
    copied: Callable[[bool], Workspace],
) -> None:
    first, second = copied(False), copied(True)
    for workspace in (first, second):
        workspace.all()
    # Write times are no part of what is signed; the table's fingerprint stays at home.
    assert second.files("exchange") == first.files("exchange")
    for party, pages in ((PARTY, 2), ("credit", 3)):
        homes = [each.files(party, "home", NAME, each.run) for each in (first, second)]
        assert homes[0].keys() - {"table.json"} == homes[1].keys() - {"table.json"}
        for name, whole in homes[0].items():
            found = homes[1][name]
            # A table is kept in batches of a block: its rows are the same.
            if name.endswith(".arrow"):
                assert found == whole or read(found).equals(read(whole)), name
            if name.endswith((".html", ".txt")):
                assert timeless(found) == timeless(whole), name
        assert sum(name.endswith(".html") for name in homes[0]) >= pages
    for workspace in (first, second):
        workspace.scoring().until("score")
        workspace.declare("federation.yaml", scoring={"mode": "desensitised"})
        workspace.scoring("0" * 15 + "b").until("score")
    assert {"routes", "values"} <= {kind for name in second.files("exchange", NAME)
                                    for kind in name.split("/")}  # fmt: skip
    assert len(opened(first)) == 3
    assert opened(first) == opened(second)
    assert len(first.files(PARTY, "pins")) == len(second.files(PARTY, "pins"))
    assert state(first) == state(second)


def test_a_folder_is_read_as_the_file_would_be(made: Workspace, tmp_path: Path) -> None:
    """Names do not matter, order and contents do."""
    workspace = made.copy(tmp_path / "federation", made.run)
    whole = whole_table(context_of(workspace, PARTY))
    alone = raw_table.fingerprint(context_of(workspace, PARTY))
    folder = split(workspace, (2, 120))
    context = context_of(workspace, PARTY)
    assert whole_table(context).equals(whole)
    before = raw_table.fingerprint(context)
    assert before != alone
    for number in range(3):
        (folder / f"part-{number}.parquet").rename(folder / f"of-{number}.parquet")
    assert raw_table.fingerprint(context) == before
    (folder / "of-2.parquet").rename(folder / "a.parquet")
    assert raw_table.fingerprint(context) != before
    assert not whole_table(context).equals(whole)


def test_a_folder_is_watched(
    copied: Callable[[bool], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = copied(True)
    workspace.known_to(monkeypatch)
    folder = workspace.table_path(PARTY).with_suffix("")

    def changed(look: str) -> bool:
        return own_table.changed(PARTY, NAME, look)

    assert changed("1")
    (folder / "part-2.parquet").rename(folder / "part-3.parquet")
    assert not changed("2")
    pl.read_parquet(folder / "part-1.parquet").head(5).write_parquet(folder / "part-2.parquet")
    assert changed("3")
    for path in folder.glob("*.parquet"):
        path.unlink()
    with pytest.raises(ContractError, match="cannot be read"):
        changed("4")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("type", ("disagree", "income", "same types")),
        ("column", ("has no column", "income", "Add it")),
        ("text", ("missing, truncated or not a Parquet",)),
        ("nothing", ("missing, truncated or not a Parquet",)),
    ],
)
def test_files_that_are_no_table(
    copied: Callable[[bool], Workspace], content: str, words: tuple[str, ...]
) -> None:
    workspace = copied(True)
    folder = workspace.table_path(PARTY).with_suffix("")
    path = folder / "part-1.parquet"
    table = pl.read_parquet(path)
    if content == "type":
        table.with_columns(income=pl.lit(CANARY_TEXT)).write_parquet(path)
    elif content == "column":
        table.drop("income").write_parquet(path)
    elif content == "text":
        path.write_text(CANARY_TEXT)
    else:
        for file in folder.iterdir():
            file.unlink()
    workspace.open()
    with pytest.raises(ContractError) as caught:
        workspace.step(PARTY, "check_table")
    message_is_right(caught.value, PARTY, *words)
    assert "part-" not in str(caught.value)
