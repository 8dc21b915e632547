"""What a failed check of a table tells to do is what the federation file would take."""

from types import SimpleNamespace

import pytest
import yaml

from opboost_ops.config.loading import load_federation
from opboost_ops.extras.datasets.generated import write_lenders
from opboost_ops.pipeline.inputs.rehearsal import finding_fault
from opboost_ops.quality.validation import Finding


@pytest.fixture(scope="module")
def lenders(tmp_path_factory):
    file = write_lenders(tmp_path_factory.mktemp("lenders") / "all", rows=90, seed=0, training={})
    data = yaml.safe_load(file.read_text())
    features = data["parties"]["lender_01"]["features"]
    features["region"] = {
        "uuid": "5b0e7a52-6a0c-4f0e-9b1c-3f6f4c2f7d11",
        "type": "nominal",
        "categories": ["north", "south"],
        "missing": "forbid",
    }
    features["income"]["missing"] = "forbid"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return load_federation(file)


@pytest.mark.parametrize(("column", "keep"), [("region", False), ("income", True)])
def test_nobody_is_told_to_declare_what_the_file_refuses(lenders, column, keep):
    party = next(iter(lenders.parties))
    context = SimpleNamespace(
        federation=lenders, party=party, declared=lenders.parties[party], purpose="train"
    )
    gaps = Finding(column, "gaps", "No value is missing", "critical", 2)
    fault = finding_fault(context, gaps, {"gaps": 2, "rows": 9})
    assert "2 of 9 rows" in fault.problem
    assert f"features.{column}" in fault.suggestion
    assert ("missing: keep" in fault.suggestion) is keep
