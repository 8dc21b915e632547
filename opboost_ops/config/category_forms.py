"""The one text form of a category or class."""

import re
import unicodedata

#: A whole number as a program writes it that has gaps, or decimals, in the column.
_WHOLE = re.compile(r"[+-]?(?:0|[1-9]\d*)\.0+")


def canonical(text: str) -> str:
    """A category's form: composed Unicode without blanks around it, 3 for 3.0; 01 stays 01.

    Args:
        text: As a table or a declaration has it.
    """
    plain = unicodedata.normalize("NFC", text).strip()
    return plain.partition(".")[0] if _WHOLE.fullmatch(plain) else plain
