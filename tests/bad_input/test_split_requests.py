"""Split requests that a feature holder must not answer, each really signed by the label holder."""

from typing import Any

import pytest

from opboost_ops.errors import ArtifactError, OpBoostError, PolicyError
from tests.bad_input.faults import message_is_right, untouched
from tests.federation import Workspace


def request(splits: Any, thresholds: Any = None) -> dict[str, Any]:
    return {"splits": splits, "thresholds": {} if thresholds is None else thresholds}


def refuses(asked: Workspace, splits: Any, error_class: type[OpBoostError], *words: str) -> None:
    """The bank gets this request, and gives nothing."""
    refuses_document(asked, request(splits), error_class, *words)


def refuses_document(
    asked: Workspace, document: Any, error_class: type[OpBoostError], *words: str
) -> None:
    before, others = untouched(asked), set(asked.published())
    asked.forge("split_request", "bank", "credit", document=document)
    with pytest.raises(error_class) as caught:
        asked.step("bank", "answer_splits")
    assert type(caught.value) is error_class
    message_is_right(caught.value, *words)
    assert caught.value.remedy
    assert set(asked.published()) == others
    assert "split_values/bank" not in others
    assert untouched(asked) == before


def test_one_wrong_rank_spoils_the_whole_request(asked: Workspace) -> None:
    refuses(asked, {"income": [1], "balance": [1, 99]}, ArtifactError, "balance")


def test_thresholds_are_capped_as_splits_are(asked: Workspace) -> None:
    wanted = request({}, {"balance": [edge + 0.5 for edge in range(1, 11)]})
    refuses_document(asked, wanted, PolicyError, "balance has 9 splits", "the request names 10")
    other = request({}, {"spend": [1.5]})
    refuses_document(asked, other, PolicyError, "spend", "bank")
