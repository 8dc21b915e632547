"""Joint posterior sampling in a run: nothing else leaves, another model results, repeatably."""

from pathlib import Path

import lightgbm
import pytest

from opboost_ops.config.loading import load_federation
from opboost_ops.config.training import XGBoostTraining
from opboost_ops.pipeline.party.form_values import with_form
from tests.federation import FIRST_RUN, Workspace
from tests.integration.pipeline.scoring_data import HOLDERS, dataset


def trained(folder: Path, denoise: str) -> tuple[str, list[bytes]]:
    """The model of a run, and what the feature holders released for it."""
    workspace = Workspace.write(
        folder,
        dataset("binary", buckets=True),
        training={"trees": 5, "depth": 3, "denoise": denoise},
        scoring={"mode": "routed"},
    )
    workspace.plain()
    workspace.all()
    # Each run seals them again: what is compared is what they are once they are opened.
    ranks = [(workspace.home("a") / f"opened-{party}.arrow").read_bytes() for party in HOLDERS]
    model = workspace.version(FIRST_RUN) / "model.txt"
    return model.read_text(), ranks


@pytest.mark.slow
def test_releases_are_the_same_and_the_model_is_another(tmp_path: Path) -> None:
    plain, released = trained(tmp_path / "plain", "none")
    joint, same = trained(tmp_path / "joint", "joint")
    again, _ = trained(tmp_path / "again", "joint")
    assert same == released
    assert joint == again
    # The label holder has columns of its own: an even mixture with plain training.
    assert lightgbm.Booster(model_str=plain).num_trees() == 5
    assert lightgbm.Booster(model_str=joint).num_trees() == 10


def test_auto_is_joint_only_without_own_columns_and_for_clear_rows(tmp_path: Path) -> None:
    workspace = Workspace.write(tmp_path, dataset("binary"))
    federation = load_federation(workspace.file)
    assert federation.denoising == "none"
    auto = with_form(federation, {"denoise": "auto"})
    assert auto.denoising == "none"
    holder = federation.label_holder
    bare = auto.parties[holder].model_copy(update={"features": {}})
    parties = {**auto.parties, holder: bare}
    routed = auto.scoring.model_copy(update={"mode": "routed"})
    assert auto.model_copy(update={"parties": parties}).denoising == "none"
    assert auto.model_copy(update={"scoring": routed}).denoising == "none"
    clear = auto.model_copy(update={"parties": parties, "scoring": routed})
    assert clear.denoising == "joint"
    booster = XGBoostTraining(trainer="xgboost")
    assert clear.model_copy(update={"training": booster}).denoising == "none"
