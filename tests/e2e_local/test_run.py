"""`opboost run` as people call it: a process per party, one line at the end."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from opboost_ops.cli import run
from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError
from opboost_ops.extras.datasets import generated
from opboost_ops.pipeline.phases import phases
from opboost_ops.pipeline.runner.fork_server import ForkServer
from opboost_ops.reports.outcomes import outcome_words
from tests.commands import opboost, printed_json
from tests.federation import Workspace, small_credit
from tests.verifier.ending import assert_promises_held

#: As few customers as a test can afford.
ROWS = 600


def run_credit(folder: Path, *more: str) -> dict[str, Any]:
    """What `opboost run --dataset credit` prints at its end, with a smaller default table."""
    words = ("run", "--dataset", "credit", "--trees", "12", "--json", "--out", folder, *more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generated.load, "__defaults__", (ROWS, 0))
        code, out, err = opboost(*words, folder=folder.parent)
    assert code == 0, err
    (line,) = out.splitlines()
    assert "register" in err
    return dict(json.loads(line))


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("seeded") / "run"
    yield folder, run_credit(folder, "--seed", "5")
    assert_promises_held([folder])


def test_the_last_line_has_all_keys(seeded: tuple[Path, dict[str, Any]]) -> None:
    folder, result = seeded
    assert set(result["metrics"]) == {
        "centralised",
        "label_holder_alone",
        "federated",
        "federated_desensitised",
    }
    for values in result["metrics"].values():
        assert set(values) == {"accuracy", "auc"}
        assert all(0 <= value <= 1 for value in values.values())
    assert result["metrics"]["centralised"]["auc"] > 0.6
    assert result["metrics"]["federated"]["auc"] > 0.5
    sizes = result["bytes"]
    assert {"feature_holders_total", "align", "holdout", "ranks_entropy"} <= set(sizes)
    artifacts = sizes["artifacts"]
    kinds = ("psi_query", "psi_answer", "shares", "ranks", "split_request", "split_values")
    expected = {f"{kind}/{party}" for kind in kinds for party in ("shop", "bank")}
    assert set(artifacts) == {"plan/credit", *expected}
    for kind, places in (
        ("feature_holders_total", ("ranks", "split_values")),
        ("align", ("psi_query", "psi_answer", "shares")),
    ):
        wanted = sum(size for place, size in artifacts.items() if place.split("/")[0] in places)
        assert sizes[kind] == wanted > 0
    # Held-out rows are judged by ranks: nothing of its own leaves for them.
    assert sizes["holdout"] == 0
    on_disk = sum(p.stat().st_size for p in (folder / "exchange").glob("[!.]*/**/*") if p.is_file())
    assert sum(artifacts.values()) == on_disk
    assert 0 < sizes["ranks_entropy"] < sizes["feature_holders_total"]
    federation = load_federation(folder / "federation.yaml")
    stages = {stage for phase in phases(federation, "train") for stage in phase.stages}
    assert set(result["seconds"]) == {"open_run", *stages}
    assert all(isinstance(v, float) and v >= 0 for v in result["seconds"].values())
    assert result["quality_seconds"] > 0
    model = Path(result["model"])
    assert model.is_absolute() or (folder.parent / model).is_file()
    assert (folder.parent / model).read_text().startswith("tree")


def test_it_says_what_was_achieved(seeded: tuple[Path, dict[str, Any]]) -> None:
    found = seeded[1]["outcome"]
    assert found["champion"] is True and found["why"].startswith("the first model")
    # The gain of the sentence is that of the metrics in the mode of scoring.
    metrics, gain = seeded[1]["metrics"], found["gain"]
    both = (metrics[f"federated_{found['mode']}"], metrics["label_holder_alone"])
    assert gain["value"] == pytest.approx(both[0]["auc"] - both[1]["auc"])
    assert gain["low"] <= gain["value"] <= gain["high"]
    assert set(found["cost"]) == {"shop", "bank"} and min(found["cost"].values()) > 0
    words = outcome_words(found)
    assert f"{gain['value']:+.4f} (95 %" in words and "became champion" in words
    assert ("see `opboost plan`" in words) is (gain["low"] <= 0)


@pytest.mark.slow
def test_one_seed_gives_one_model(seeded: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, first = seeded
    again = run_credit(tmp_path / "again", "--seed", "5")
    assert again["run"] != first["run"]
    assert again["metrics"] == first["metrics"]
    read = [(base / result["model"]).read_bytes()
            for base, result in ((folder.parent, first), (tmp_path, again))]  # fmt: skip
    assert read[0] == read[1]


@pytest.mark.parametrize("more", [{}, {"federation": Path("f.yaml"), "seed": 1}])
def test_arguments_that_do_not_go_together(more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="dataset"):
        run.run_command(**more)


@pytest.mark.slow
def test_ctrl_c_leaves_the_pids_to_the_one_who_ends_the_processes() -> None:
    """Otherwise a party's PID could be a stranger's when it is ended."""
    read, write = os.pipe()
    with ForkServer(os.environ) as server:
        for _ in range(2):
            pid = server.fork(read, write)
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(pid, signal.SIGTERM)
            os.kill(parent, signal.SIGINT)
    os.close(read)
    os.close(write)


@pytest.mark.slow
def test_a_federation_of_ones_own(tmp_path: Path) -> None:
    """Only the metrics that production can have."""
    workspace = Workspace.write(tmp_path / "federation", small_credit(), seed=None)
    result = printed_json("run", workspace.file, "--trees", "3")
    assert not (workspace.folder / "exchange" / ".throwaway").exists()
    card = json.loads(Path(result["model"]).with_name("card.json").read_text())
    assert card["experiment"] is False
    assert result["metrics"]["centralised"] is None
    assert result["metrics"]["federated"] is None
    assert set(result["metrics"]["federated_desensitised"]) == {"accuracy", "auc"}
    registered = json.loads(Path(result["model"]).with_name("federation.json").read_text())
    bank = registered["parties"]["bank"]["features"].values()
    assert {feature["mechanism"]["epsilon"] for feature in bank} == {0.64}
    declared = yaml.safe_load(workspace.file.read_text())["parties"]["bank"]["features"]
    assert {feature["mechanism"]["epsilon"] for feature in declared.values()} == {0.64}
