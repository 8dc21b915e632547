"""IDs as messages of the oblivious PRF: typed, and in one form only.

Two tables that write one person in two ways would not find each other, silently; so every ID that
could be written otherwise is refused, with the number of such rows and never an ID.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from opboost_ops.errors import ContractError

#: A message that every party adds to its own, and that is no ID: only where it is found do keys
#: and versions agree, whoever is or is not common.
CANARY = b"c"

_Check = Callable[[str], bool]
_STRINGS: Mapping[str, _Check] = {
    "are empty": lambda value: not value,
    "begin or end with a blank": lambda value: value != value.strip(),
    "hold half of a surrogate pair": lambda value: any("\ud800" <= c <= "\udfff" for c in value),
    "are not in Unicode's form NFC": lambda value: not unicodedata.is_normalized("NFC", value),
}


def messages(ids: Iterable[object], id_type: Literal["string", "integer"]) -> list[bytes]:
    """One message a row: ``s`` and the text in UTF-8, or ``i`` and the number in decimal.

    Args:
        ids: One a row.
        id_type: Their declared type.

    Raises:
        ContractError: An ID is missing, of another type, or could be written otherwise; all
            faults at once, with counts.
    """
    values = list(ids)
    expected = str if id_type == "string" else int
    faults: dict[str, int] = {}
    if set(map(type, values)) - {expected}:
        # By the exact type: a bool is an int, too.
        others = [value for value in values if type(value) is not expected]
        faults["are missing"] = sum(value is None for value in others)
        faults[f"are no {id_type}"] = sum(value is not None for value in others)
    if id_type == "integer":
        found = [b"i%d" % value for value in values if type(value) is int]
    else:
        texts = [value for value in values if type(value) is str]
        odd = [v for v in texts if not v.isascii() or v != v.strip() or not v]
        faults |= {what: sum(map(check, odd)) for what, check in _STRINGS.items()}
        found = [b"s" + v.encode(errors="replace") for v in texts]
    faults = {what: count for what, count in faults.items() if count}
    if faults:
        raise ContractError(
            "Of the IDs, " + ", ".join(f"{n:,} {what}" for what, n in faults.items()) + ".",
            "Write every ID in one form, the same in all parties' tables.",
        )
    repeated = len(found) - len(set(found))
    if repeated:
        raise ContractError(
            f"{repeated:,} rows have an ID that another row has, too.",
            "Give every person one row.",
        )
    return found
