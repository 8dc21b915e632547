"""What the report claims about federation."""

import pytest

from opboost_ops.cli.tables import compare


@pytest.mark.parametrize(
    ("federated", "alone", "words"),
    [
        (0.90, 0.88, "Federation pays"),
        (0.8851, 0.8850, "no clear difference"),
        (0.86, 0.88, "Federation costs"),
    ],
)
def test_a_claim_needs_a_margin(federated: float, alone: float, words: str) -> None:
    found = compare({"federated": {"auc": federated}, "label_holder_alone": {"auc": alone}})
    assert words in found
    assert f"{federated - alone:+.4f}" in found


def test_no_claim_without_clear_rows() -> None:
    assert compare({"federated": None, "label_holder_alone": {"r2": 0.1}}) == ""
