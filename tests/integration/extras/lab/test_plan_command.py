"""`opboost plan` with a total, and with sizes: what it prints, and what it never reads."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from opboost_ops.cli.plan import plan_command
from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError, ContractError, OpBoostError
from opboost_ops.extras.lab import division
from opboost_ops.privacy.consent.guessing import of_two
from opboost_ops.privacy.planner import guess_rate
from tests.federation import Workspace

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """One whose own tables are gone: a plan of public things does not miss them."""
    found = Workspace.write(tmp_path_factory.mktemp("plan") / "fed")
    credit = pl.read_parquet(found.table_path("credit"))
    bank = pl.read_parquet(found.table_path("bank"))
    both = bank.join(credit.select("id", "default"), on="id")
    both.write_parquet(found.folder / "public.parquet")
    found.table_path("bank").unlink()
    return found


@pytest.fixture
def ask(
    workspace: Workspace,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Ask:
    monkeypatch.setattr(division, "_PARTS", (1, 16))

    def asked(**options: Any) -> dict[str, Any]:
        given = {"party": "bank", "out": tmp_path, "as_json": True, **options}
        plan_command(workspace.file, **given)
        return dict(json.loads(capsys.readouterr().out))

    return asked


def test_a_sample_divides_a_total(workspace: Workspace, ask: Ask, tmp_path: Path) -> None:
    """The sums keep the total; what is proposed can be written into the federation file."""
    public = workspace.folder / "public.parquet"
    told = ask(sample=public, total_loss_1=2.0, total_loss_whole=6.0)
    assert told["by"] == "public sample"
    assert sum(line["loss_1"] for line in told["columns"]) <= 2.0
    assert sum(line["loss_whole"] for line in told["columns"]) <= 6.0
    assert told["kept_evenly"] <= told["kept"] <= told["kept_unprotected"]
    names = {line["name"] for line in told["columns"]} | set(told["left_out"])
    features = workspace.declared.parties["bank"].features
    assert names == {name for name, feature in features.items() if feature.type != "nominal"}
    assert "less protected" in told["says"]
    page = Path(told["picture"]).read_text()
    assert "less protected" in page and "public.parquet" in page and "http" not in page
    data = yaml.safe_load(workspace.file.read_text())
    for line in told["columns"]:
        data["parties"]["bank"]["features"][line["name"]]["mechanism"] = line["mechanism"]
    proposed = tmp_path / "federation.yaml"
    proposed.write_text(yaml.safe_dump(data, sort_keys=False))
    assert load_federation(proposed).parties["bank"].features


def test_without_caps_the_declared_guess_rate_is_held_fixed(workspace: Workspace, ask: Ask) -> None:
    public = workspace.folder / "public.parquet"
    told = ask(sample=public)
    declared = workspace.declared
    for name, caps in told["caps"].items():
        mechanism = declared.parties["bank"].features[name].mechanism
        assert mechanism is not None
        channel = mechanism.channel(declared.domain.to_domain())
        assert caps["guess"] == guess_rate(channel)
        assert caps["of_two"] == of_two(channel.probabilities())
        found = told["features"][name]
        for line in found:
            shares = [line[rate] / caps[rate] for rate in ("guess", "of_two")]
            assert 0.95 < max(shares) <= 1 + 1e-9, "one rate is used in full, so order differs"
    few = ask(sample=public, max_guess=0.15)
    assert all(line["guess"] <= 0.15 for found in few["features"].values() for line in found)


def test_the_least_total_that_reaches_a_share(workspace: Workspace, ask: Ask) -> None:
    public = workspace.folder / "public.parquet"
    whole = ask(sample=public, total_loss_1=40.0)
    told = ask(sample=public, total_loss_1=40.0, reach=0.5)
    assert told["total"]["loss_1"] < 40.0
    assert told["kept"] >= 0.5 * told["kept_unprotected"]
    assert told["kept"] < whole["kept"]


def test_importances_need_no_table_at_all(ask: Ask) -> None:
    told = ask(importance=["income=3", "balance=1"], total_loss_1=0.2)
    assert told["by"] == "declared importances"
    assert [line["name"] for line in told["columns"]] == ["income"]
    assert told["left_out"] == ["balance"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"total_loss_1": 1.0}, "either a public sample or declared importances"),
        ({"total_loss_1": -1.0, "importance": ["income=1"]}, "finite number above 0"),
        ({"total_loss_1": 1.0, "importance": ["incme=1"]}, "there is no feature incme"),
        ({"total_loss_1": 1.0, "importance": ["income=x"]}, "income is not a number above 0"),
        ({"total_loss_1": 1.0, "importance": ["income=0"]}, "income is not a number above 0"),
        ({"total_loss_1": 1.0, "importance": ["income=nan"]}, "income is not a number above 0"),
        (
            {"total_loss_1": 1.0, "importance": ["income=1"], "reach": 1.5},
            "--reach must be a share",
        ),
        ({"total_loss_1": 0.1, "importance": ["income=1"], "reach": 0.9}, "lower --reach"),
        ({"total_loss_1": 0.0009, "importance": ["income=1"]}, "This total is too small"),
        ({"importance": ["income=1"]}, "are for dividing a total"),
    ],
)
def test_what_cannot_be_planned_is_one_message(
    workspace: Workspace, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        plan_command(workspace.file, party="bank", **options)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame.drop("default"), "no column default, which is the label"),
        (lambda frame: frame.drop("income"), "has no column income"),
        (lambda frame: frame.head(50), "has 50 rows"),
        (lambda frame: frame.with_columns(default=pl.lit(1)), "the same in all rows"),
    ],
)
def test_a_sample_that_says_nothing_is_refused(
    workspace: Workspace, tmp_path: Path, change: Callable[[pl.DataFrame], pl.DataFrame], said: str
) -> None:
    sample = tmp_path / "sample.parquet"
    change(pl.read_parquet(workspace.folder / "public.parquet")).write_parquet(sample)
    with pytest.raises(ContractError, match=said):
        plan_command(workspace.file, party="bank", sample=sample, total_loss_1=1.0, out=tmp_path)
    sample.write_text("no Parquet")
    with pytest.raises(OpBoostError, match="not a Parquet file"):
        plan_command(workspace.file, party="bank", sample=sample, total_loss_1=1.0, out=tmp_path)
