"""What Airflow shows of a federation's DAG is what its runs do."""

from pathlib import Path

import pytest

from opboost_ops.config.federation import Purpose
from opboost_ops.config.loading import load_federation
from opboost_ops.orchestration.documentation import documentation
from opboost_ops.run.phases import phases


@pytest.mark.parametrize("purpose", ["train", "score"])
def test_the_page_names_all_that_passes_between_parties(good_file: Path, purpose: Purpose) -> None:
    federation = load_federation(good_file)
    text = documentation(federation, purpose)
    passed = text.split("Signed artifacts that pass between parties: ")[1].splitlines()[0]
    declared = phases(federation, purpose)
    assert set(passed.strip(".").replace("`", "").split(", ")) == {
        "plan",
        *(kind for phase in declared for kind in phase.awaits),
    }
    for number, phase in enumerate(declared, start=1):
        assert f"{number}. {', '.join(phase.parties(federation))}: " in text
