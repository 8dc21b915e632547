"""Values that must never leave their party, and what a retry publishes."""

import shutil
import struct
from typing import Any

import polars as pl

from tests.federation import FIRST_RUN, Workspace

#: Raw values that nobody else has: the smallest integer types cannot hold them by chance.
NUMBERS = {"credit": 7919.123456789, "shop": 8117.987654321, "bank": 9973.135792468}
FEATURES = {"credit": "amount", "shop": "spend", "bank": "balance"}
PREFIX = "canary-person-"


def plant(workspace: Workspace) -> list[bytes]:
    """A raw number in every party's table, and IDs that can be recognised; all their bytes.

    Nothing is encrypted: the search must see what was sent.
    """
    workspace.plain()
    shared = PREFIX.encode()
    needles = [shared]
    for party, number in NUMBERS.items():
        feature = FEATURES[party]

        def change(table: pl.DataFrame, feature: str = feature, number: float = number) -> Any:
            rows = range(table.height)
            values = [number + i / 1024 if i % 7 == 0 else v
                      for i, v in zip(rows, table.get_column(feature), strict=True)]  # fmt: skip
            return table.with_columns(pl.Series(feature, values), id=pl.lit(PREFIX) + pl.col("id"))

        workspace.edit_table(party, change)
        for i in range(0, 350, 7):
            value = number + i / 1024
            needles += [f"{value:.4f}".encode(), struct.pack("<d", value)]
    workspace.edit_table(
        "credit", lambda t: t.with_columns(employment=pl.lit("canary-job-") + pl.col("employment"))
    )
    return [*needles, b"canary-job-"]


def assert_absent(needles: list[bytes], files: dict[str, bytes]) -> None:
    for name, raw in files.items():
        for needle in needles:
            assert needle not in raw, name


def decoded(workspace: Workspace) -> dict[str, bytes]:
    """The exchange's files, and what the label holder opened of sealed rows, as text."""
    files = workspace.files("exchange")
    for path in workspace.home("credit").glob("opened-*.arrow"):
        files[path.name] = str(pl.read_ipc(path).to_dict(as_series=False)).encode()
    return files


def test_no_canary_leaves_its_party(workspace: Workspace) -> None:
    """Neither into the exchange or a summary, nor into homes, ledgers or models of the others."""
    needles = plant(workspace)
    summaries = workspace.all()
    assert_absent(needles, decoded(workspace))
    assert_absent(needles, {"summaries": repr(summaries).encode()})
    for summary in summaries.values():
        assert len(repr(summary)) < 2048
    # The needles are right: at home they are found.
    own = b"".join(workspace.files("bank", "home").values())
    own += workspace.table_path("bank").read_bytes()
    assert any(needle in own for needle in needles)
    for party, number in NUMBERS.items():
        needles = [repr(number + i / 1024).encode() for i in range(0, 350, 7)]
        needles += [struct.pack("<d", number + i / 1024) for i in range(0, 350, 7)]
        for other in NUMBERS:
            if other != party:
                assert_absent(needles, workspace.files(other))


def test_a_later_run_and_a_lost_home_release_the_same_noise(workspace: Workspace) -> None:
    """Unchanged cells give the same output at every retraining, and after a lost home."""
    workspace.all()
    before = workspace.files("exchange")
    shutil.rmtree(workspace.home("bank"))
    for step in workspace.steps():
        if step.party == "bank":
            workspace.step(step.party, step.stage)
    assert workspace.files("exchange") == before
    runs = (FIRST_RUN, workspace.run)
    for party in ("shop", "bank"):
        homes = [workspace.folder / party / "home" / "credit_scoring" / run for run in runs]
        first, second = (pl.read_ipc(home / "randomised.arrow") for home in homes)
        assert first.equals(second)
        for kind in ("ranks", "shares"):
            places = [workspace.store.get(f"credit_scoring/{run}/{kind}/{party}") for run in runs]
            sizes = [{name: len(raw) for name, raw in (files or {}).items()} for files in places]
            assert sizes[0].keys() == sizes[1].keys()
            tables = [name for name in sizes[0] if name.endswith(".enc")]
            assert tables and all(sizes[0][name] == sizes[1][name] for name in tables)
