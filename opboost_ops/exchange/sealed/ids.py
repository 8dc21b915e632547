"""IDs as messages of the oblivious PRF: typed, and in one form only.

Two tables that write one person in two ways would not find each other, silently; so every ID that
could be written otherwise is refused, with the number of such rows and never an ID.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from opboost_ops.errors import ContractError

#: A message that every party adds to its own, and that is no ID: only where it is found do keys
#: and versions agree, whichever IDs are common.
CANARY = b"c"

#: Every blank of ASCII, which "strip" takes away.
_BLANKS = bytes(i for i in range(128) if chr(i).isspace())

_Check = Callable[[str], bool]
_STRINGS: Mapping[str, _Check] = {
    "are empty": lambda value: not value,
    "begin or end with a blank": lambda value: value != value.strip(),
    "hold half of a surrogate pair": lambda value: any("\ud800" <= c <= "\udfff" for c in value),
    "are not in Unicode's form NFC": lambda value: not unicodedata.is_normalized("NFC", value),
}


class Reader:
    """Makes messages of IDs, piece by piece, and counts those that could be written otherwise.

    Args:
        id_type: Their declared type.
    """

    def __init__(self, id_type: Literal["string", "integer"]) -> None:
        self._type = id_type
        self._faults: Counter[str] = Counter()

    def messages(self, ids: Iterable[object]) -> list[bytes]:
        """One message per row: ``s`` and the text in UTF-8, or ``i`` and the number in decimal.

        Args:
            ids: One a row.
        """
        values = list(ids)
        expected = str if self._type == "string" else int
        if set(map(type, values)) - {expected}:
            # By the exact type: a bool is an int, too.
            others = [value for value in values if type(value) is not expected]
            missing = sum(value is None for value in others)
            self._faults["are missing"] += missing
            self._faults[f"are no {self._type}"] += len(others) - missing
        if self._type == "integer":
            return [b"i%d" % value for value in values if type(value) is int]
        texts = [value for value in values if type(value) is str]
        if len(texts) == len(values) and (plain := _plain_messages(texts)):
            return plain
        odd = [v for v in texts if not v.isascii() or v != v.strip() or not v]
        for what, check in _STRINGS.items() if odd else ():
            self._faults[what] += sum(map(check, odd))
        return [b"s" + v.encode(errors="replace") for v in texts]

    def require_one_form(self) -> None:
        """Refuse IDs that could be written otherwise.

        Raises:
            ContractError: All faults of all pieces at once, with counts.
        """
        faults = +self._faults
        if faults:
            raise ContractError(
                "Of the IDs, " + ", ".join(f"{n:,} {what}" for what, n in faults.items()) + ".",
                "Write every ID in one form, the same in all parties' tables.",
            )


def _plain_messages(texts: list[str]) -> list[bytes]:
    """Messages of texts of ASCII without blanks, which most are; none where one is another."""
    joined = "\ns".join(texts)
    if not (joined.isascii() and all(texts)):
        return []
    raw = b"s" + joined.encode()
    blanks = len(raw) - len(raw.translate(None, _BLANKS))
    return raw.split(b"\n") if blanks == len(texts) - 1 else []


def messages(ids: Iterable[object], id_type: Literal["string", "integer"]) -> list[bytes]:
    """The messages of all IDs of a table that fits into memory.

    Args:
        ids: One a row.
        id_type: Their declared type.

    Raises:
        ContractError: An ID is missing, of another type, there twice, or could be written
            otherwise.
    """
    reader = Reader(id_type)
    encoded = reader.messages(ids)
    reader.require_one_form()
    repeated = len(encoded) - len(set(encoded))
    if repeated:
        raise repeated_ids(repeated)
    return encoded


def repeated_ids(rows: int) -> ContractError:
    """The error for rows that have an ID of another row.

    Args:
        rows: How many.
    """
    return ContractError(
        f"{rows:,} rows have an ID that another row has, too.", "Give every person one row."
    )
