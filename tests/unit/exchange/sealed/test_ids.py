"""IDs have one form, and those that could be written otherwise are refused with counts."""

import pytest

from opboost_ops.errors import ContractError
from opboost_ops.exchange.sealed.ids import CANARY, messages


def test_types_are_told_apart() -> None:
    assert messages(["7", "a b", "é"], "string") == [b"s7", b"sa b", "sé".encode()]
    assert messages([0, 7, -7, 10**30], "integer") == [b"i0", b"i7", b"i-7", b"i%d" % 10**30]
    assert CANARY not in messages(["c", ""[:0] or "x"], "string")


def test_a_message_depends_on_its_own_id_alone() -> None:
    plain = ["a", "s", "as", "x" * 40]
    for other in ("b c", "d\nse", "\u00e9"):
        assert messages([*plain, other], "string") == [
            *messages(plain, "string"),
            b"s" + other.encode(),
        ]


def test_the_canary_is_no_id() -> None:
    assert not CANARY.startswith((b"s", b"i"))


@pytest.mark.parametrize(
    ("ids", "id_type", "said"),
    [
        (["a", None, None], "string", "2 are missing"),
        (["a", 7], "string", "1 are not of type string"),
        ([1, True], "integer", "1 are not of type integer"),
        ([1, 1.0], "integer", "1 are not of type integer"),
        ([1, "1"], "integer", "1 are not of type integer"),
        (["a", ""], "string", "1 are empty"),
        (["a", " b", "c\n", "d\u00a0"], "string", "3 begin or end with a blank"),
        (["a", "b\x1c", "\tc"], "string", "2 begin or end with a blank"),
        (["a", "\ud800x"], "string", "1 hold half of a surrogate pair"),
        (["a", "e\u0301", "n\u0303"], "string", "2 are not in Unicode's form NFC"),
        (["a", "b", "a"], "string", "1 rows have an ID that another row has"),
        ([5, 5, 5], "integer", "2 rows have an ID that another row has"),
    ],
)
def test_an_id_that_could_be_written_otherwise(ids: list, id_type: str, said: str) -> None:
    with pytest.raises(ContractError, match=said) as caught:
        messages(ids, id_type)  # type: ignore[arg-type]
    for value in ids:
        if isinstance(value, str) and len(value.strip()) > 1:
            assert value not in str(caught.value)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ContractError) as caught:
        messages(["", None, " x", "e\u0301"], "string")
    assert all(
        part in str(caught.value)
        for part in ("1 are missing", "1 are empty", "1 begin or end", "1 are not in Unicode")
    )


def test_two_forms_of_one_id_are_refused_before_they_are_two_people() -> None:
    with pytest.raises(ContractError, match="1 are not in Unicode's form NFC"):
        messages(["\u00e9", "e\u0301"], "string")
