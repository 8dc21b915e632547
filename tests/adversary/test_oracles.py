"""A label holder chooses whom it asks about, each night: no holder's outside changes by it."""

import polars as pl

from tests.adversary.kit import EVERYBODY, of_run
from tests.federation import Workspace
from tests.party_state import state_of

#: Stages by which a feature holder releases.
RELEASE = (
    "check_table", "check_drift", "digest_ids", "preprocess", "desensitize", "rank",
    "check_release", "seal",
)  # fmt: skip

NIGHTS = 3


def night(workspace: Workspace, number: int) -> Workspace:
    """The same federation on another night."""
    return Workspace(workspace.folder, f"{number + 0x100:016x}")


def draws(workspace: Workspace, party: str) -> list[str]:
    with state_of(workspace, party) as state:
        return [line.artifact for line in state.ledger.entries() if line.kind == "release"]


def test_subsets_are_no_oracle_and_burn_no_budget(workspace: Workspace) -> None:
    """Each night other people are asked about, most of them invented, beside one target."""
    before = draws(workspace, "bank")
    assert before
    tables = workspace.table_path("credit")
    whole = pl.read_parquet(tables).head(60)
    identity = workspace.declared.id.column
    seen = []
    for number in range(NIGHTS):
        tonight = night(workspace, number)
        rows = pl.int_range(pl.len())
        invented = pl.concat_str(pl.lit(f"nobody-{number}-"), rows.cast(pl.String))
        ids = pl.when(rows % 6 == number).then(pl.col(identity)).otherwise(invented)
        whole.with_columns(ids.alias(identity)).write_parquet(tables)
        tonight.open()
        for stage in ("check_table", "check_drift", "digest_ids", "psi_query"):
            tonight.step("credit", stage)
        told = {stage: tonight.step("bank", stage) for stage in RELEASE}
        tonight.step("bank", "psi_answer")
        manifest = tonight.artifact("ranks", "bank").manifest
        entries = sorted(of_run(tonight, "bank"))
        seen.append((told["check_release"]["checks"], manifest.rows, entries))
    assert all(one == seen[0] for one in seen)
    assert draws(workspace, "bank") == before, "no night opens a release"
    assert ("exact", "check_table", EVERYBODY) in seen[0][2]
