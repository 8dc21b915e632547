"""How large a Parquet column becomes, by the headers of its pages, without unpacking one.

A page's header is a struct in Thrift's compact protocol; its fields 2 and 3 are the page's size
unpacked and packed (parquet-format, `PageHeader`). All others are stepped over.
"""

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 7, 8, 12

#: Integers of 16, 32 and 64 bits.
_INTEGERS = (4, 5, 6)

#: How deep structs may lie in a header; the format has two levels.
_MOST_DEPTH = 8


def unpacked_size(raw: bytes, begin: int, end: int) -> int | None:
    """Bytes that the pages of a column become, by their own headers.

    Args:
        raw: The whole Parquet file.
        begin: Where the column's first page begins.
        end: Where its last one ends.

    Returns:
        Their sum, or None if they do not fill the column's part of the file one by one.
    """
    if not 0 <= begin <= end <= len(raw):
        return None
    whole, at = 0, begin
    try:
        while at < end:
            sizes, at = _header(raw, at, end)
            if sizes[2] < 0 or sizes[3] < 0:
                return None
            whole, at = whole + sizes[2], at + sizes[3]
    except (IndexError, KeyError, ValueError):
        return None
    return whole if at == end else None


def _header(raw: bytes, at: int, end: int) -> tuple[dict[int, int], int]:
    numbers: dict[int, int] = {}
    at = _struct(raw, at, end, numbers, 0)
    return numbers, at


def _struct(raw: bytes, at: int, end: int, numbers: dict[int, int] | None, depth: int) -> int:
    if depth > _MOST_DEPTH:
        raise ValueError
    field = 0
    while at < end:
        head, at = raw[at], at + 1
        if head == 0:
            return at
        kind, delta = head & 15, head >> 4
        if delta:
            field += delta
        else:
            field, at = _integer(raw, at, end)
        if kind in _INTEGERS:
            value, at = _integer(raw, at, end)
            if numbers is not None:
                if field in numbers:
                    raise ValueError
                numbers[field] = value
        else:
            at = _skip(raw, at, end, kind, depth)
    raise ValueError


def _skip(raw: bytes, at: int, end: int, kind: int, depth: int) -> int:
    if kind in (_TRUE, _FALSE):
        return at
    if kind == _BYTE:
        return at + 1
    if kind == _DOUBLE:
        return at + 8
    if kind == _BINARY:
        length, at = _unsigned(raw, at, end)
        return at + length
    if kind == _STRUCT:
        return _struct(raw, at, end, None, depth + 1)
    # Lists, sets and maps are in no page header.
    raise ValueError


def _integer(raw: bytes, at: int, end: int) -> tuple[int, int]:
    value, at = _unsigned(raw, at, end)
    return (value >> 1) ^ -(value & 1), at


def _unsigned(raw: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte, at = raw[at], at + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError
