"""Names of columns that are made of a feature and one of its categories."""

import re

#: Longest part of such a name that a category gives.
LONGEST = 128

#: What the names of a model's features may not hold.
_NOT_IN_NAMES = re.compile(r"[\s\",:\[\]{}/\\]")


def column_name(feature: str, category: str) -> str:
    """The column of a category: ``feature=category``, with %20 for a blank, as in URLs.

    Only what a model's names may not hold is written so; a per cent sign stays one.

    Args:
        feature: The feature's name.
        category: As declared.

        >>> column_name("housing", "rent, free")
        'housing=rent%2C%20free'
    """
    return f"{feature}={_NOT_IN_NAMES.sub(_written, category)}"


def _written(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
