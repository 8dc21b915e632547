"""A keyed fingerprint of what a table says, however it is written.

Two tables have the same one if they hold the same rows in some order: rows may be permuted, files
split or joined, row groups and dictionaries other ones, and other columns are not looked at. Each
row becomes a pseudorandom number of 128 bits, and the numbers are added up, block by block::

    row = AES_K2(XOR over columns c of AES_K1(value, c, kind of value)),  sum of all mod 2^128

A value is what `raw_table.numbers` makes of it: 5 and 5.0 are one number, NaN is missing, a
category is its text, whatever type keeps it.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from opboost_ops.stages.raw_names import found_names

#: Rows at a time.
_ROWS = 131_072

#: Kinds of value, which enter its block; a column that is not there has one of its own.
_ABSENT, _MISSING, _NUMBER, _TEXT, _OTHER = range(5)

_STRINGS = (pl.String, pl.Categorical, pl.Enum)

Encrypt = Callable[[np.ndarray], np.ndarray]


def content_fingerprint(files: Iterable[Path], columns: Sequence[str], key: bytes) -> str | None:
    """The fingerprint of a table, 32 hex digits.

    Args:
        files: That make it up.
        columns: Raw names of those that count, in whatever order.
        key: 32 bytes that nobody else has.

    Returns:
        The fingerprint; None if a file cannot be read.
    """
    try:
        return rows_fingerprint(_batches(files, columns), columns, key)
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError):
        return None


def rows_fingerprint(blocks: Iterable[pl.DataFrame], columns: Sequence[str], key: bytes) -> str:
    """The same of rows that are read already, 32 hex digits.

    Args:
        blocks: Of the rows, in whatever order.
        columns: Names of those that count, in whatever order; one that a block lacks counts as
            absent there.
        key: 32 bytes that nobody else has.
    """
    outer, inner = _aes(key, b"row"), _aes(key, b"cell")
    names = sorted(set(columns))
    total = np.zeros(4, dtype=np.uint64)
    rows = 0
    for block in blocks:
        rows += block.height
        total = _added(total, outer(_rows(block, names, key, inner)))
    whole = hashlib.blake2b(key=key, digest_size=16)
    for name in names:
        whole.update(f"{len(name)}:{name}".encode())
    whole.update(rows.to_bytes(8, "big") + total.tobytes())
    return whole.hexdigest()


def _batches(paths: Iterable[Path], names: Sequence[str]) -> Iterator[pl.DataFrame]:
    for path in paths:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            there = found_names({name: name for name in names}, file.schema_arrow.names)
            columns = list(there.values())
            for batch in file.iter_batches(_ROWS, columns=columns, use_threads=False):
                frame = pl.from_arrow(batch)
                assert isinstance(frame, pl.DataFrame)
                yield frame.select(pl.col(column).alias(name) for name, column in there.items())


def _rows(block: pl.DataFrame, names: Sequence[str], key: bytes, encrypt: Encrypt) -> np.ndarray:
    """A block of the cipher for every row, uint64, shape (n, 2)."""
    found = np.zeros((block.height, 2), dtype=np.uint64)
    cells = np.empty((block.height, 2), dtype=np.uint64)
    for number, name in enumerate(names):
        kinds = np.full(block.height, _ABSENT, dtype=np.uint64)
        words = np.zeros(block.height, dtype=np.uint64)
        if name in block.columns:
            words, kinds = _words(block.get_column(name), key)
        cells[:, 0] = words
        cells[:, 1] = kinds | np.uint64(number << 8)
        found ^= encrypt(cells)
    return found


def _words(values: pl.Series, key: bytes) -> tuple[np.ndarray, np.ndarray]:
    """What each value is, in eight bytes, and its kind; uint64, shape (n,) each."""
    kind = values.dtype
    if kind.is_integer():
        # Exactly, as IDs need it; a float that is a whole number becomes the same word.
        found, present = values.cast(pl.Int64, strict=False), values.is_not_null()
        if found.null_count() == values.null_count():
            return _told(found.fill_null(0).to_numpy().view(np.uint64), present, _NUMBER)
    if kind.is_numeric() or kind == pl.Boolean or kind == pl.Null:
        floats = values.cast(pl.Float64).fill_nan(None)
        numbers = floats.fill_null(0.0).to_numpy() + 0.0  # A negative zero is a zero.
        whole = (np.abs(numbers) < 2.0**63) & (np.floor(numbers) == numbers)
        integers = np.where(whole, numbers, 0.0).astype(np.int64).view(np.uint64)
        # Words of fractions could be those of integers: their kind tells them apart.
        words = np.where(whole, integers, numbers.view(np.uint64))
        kinds = np.where(whole, _NUMBER, _NUMBER | 16).astype(np.uint64)
        words, missing = _told(words, floats.is_not_null(), _NUMBER)
        return words, np.where(missing == _MISSING, missing, kinds)
    if kind in _STRINGS or isinstance(kind, pl.Enum):
        return _told(_hashed(values.cast(pl.String), key), values.is_not_null(), _TEXT)
    texts = pl.Series([repr(value) for value in values.to_list()], dtype=pl.String)
    return _told(_hashed(texts, key), values.is_not_null(), _OTHER)


def _told(words: np.ndarray, present: pl.Series, kind: int) -> tuple[np.ndarray, np.ndarray]:
    there = present.to_numpy()
    zero = np.uint64(0)
    return np.where(there, words, zero), np.where(there, kind, _MISSING).astype(np.uint64)


def _hashed(texts: pl.Series, key: bytes) -> np.ndarray:
    """Keyed hashes of texts, uint64, shape (n,); each distinct text is hashed once."""
    distinct = texts.unique()
    base = hashlib.blake2b(key=key, digest_size=8)
    digests = bytearray()
    for text in distinct.to_list():
        one = base.copy()
        one.update((text or "").encode())
        digests += one.digest()
    hashes = pl.Series(np.frombuffer(bytes(digests), dtype="<u8"))
    table = pl.DataFrame({"text": distinct, "hash": hashes})
    joined = pl.DataFrame({"text": texts}).join(
        table, on="text", how="left", nulls_equal=True, maintain_order="left"
    )
    return joined.get_column("hash").to_numpy()


def _aes(key: bytes, purpose: bytes) -> Encrypt:
    derived = hashlib.blake2b(purpose, key=key, digest_size=16).digest()
    # Each block is another input of a permutation that nobody else knows, as with the noise.
    cipher = Cipher(algorithms.AES(derived), modes.ECB())  # noqa: S305

    def encrypt(blocks: np.ndarray) -> np.ndarray:
        encryptor = cipher.encryptor()
        raw = encryptor.update(np.ascontiguousarray(blocks).data.cast("B")) + encryptor.finalize()
        return np.frombuffer(raw, dtype=np.uint64).reshape(-1, 2)

    return encrypt


def _added(total: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The sum mod 2^128 of what there was and of new rows, as four limbs of 32 bits."""
    limbs = np.frombuffer(rows.tobytes(), dtype="<u4").reshape(-1, 4)
    # A batch has fewer than 2^32 rows, so that no column of limbs overflows.
    sums = [int(one) for one in limbs.astype(np.uint64).sum(axis=0) + total]
    carry = 0
    found = np.zeros(4, dtype=np.uint64)
    for i, limb in enumerate(sums):
        carry += limb
        found[i] = carry & 0xFFFFFFFF
        carry >>= 32
    return found
