"""Salted contents: what is encrypted tells nothing by its digest, and a small file nothing by size.

A manifest is public, and lists the sha256 and the size of every file. With one row, `routes` or
`values` has a handful of possible contents: anyone who reads the store, or a digest in Airflow,
could find the right one by trying them, although the file itself is encrypted. So an encrypted file
is

    salt (32 bytes) | length of the content (8 bytes, little endian) | content | zeros

and digest, size and encryption are of all that. The salt follows from the publisher's secret and
the file's place, so that a retry makes the same bytes. Zeros fill it up to a multiple of `STEP`
bytes, and below `FEW` rows up to a size that depends on public row and column counts alone. Without
encryption there is no salt: anyone who sees the store reads the file itself.
"""

from opboost_ops.exchange.rejection import Rejected

SALT_BYTES = 32

_HEAD = SALT_BYTES + 8

#: Sizes of encrypted files are multiples of this.
STEP = 4096

#: Below so many rows, all contents have one size.
FEW = 1000

#: More than Parquet or JSON takes for a cell or a split of the protocol.
_CELL = 32

#: More than Parquet takes for what it says of a column, whose name may have 128 characters.
_COLUMN = 2048


def salted(content: bytes, salt: bytes, rows: int, columns: int) -> bytes:
    """A file as it is before encryption.

    Args:
        content: The file.
        salt: 32 bytes that nobody but publisher and receiver know.
        rows: Of its table; entries of its document. Public.
        columns: Of its table. Public.
    """
    size = _HEAD + len(content)
    if rows < FEW:
        width = max(columns, 1)
        size = max(size, _HEAD + _COLUMN * width + _CELL * rows * width)
    padding = -size % STEP + size - _HEAD - len(content)
    return b"".join((salt, len(content).to_bytes(8, "little"), content, bytes(padding)))


def unsalted(raw: bytes, what: str) -> bytes:
    """The content of such a file.

    Args:
        raw: As it was decrypted.
        what: Name of its place and of the file, for the error.

    Raises:
        Rejected: It is none.
    """
    length = int.from_bytes(raw[SALT_BYTES:_HEAD], "little")
    if len(raw) < _HEAD or length > len(raw) - _HEAD or raw[_HEAD + length :].strip(b"\0"):
        raise Rejected("malformed", f"{what} is not salted and padded as it must be.")
    return raw[_HEAD : _HEAD + length]
