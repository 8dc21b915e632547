"""Vectorised AES-CMAC (NIST SP 800-38B): processes one cipher block of all messages at a time."""

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_BLOCK = 16

_KINDS = {
    "string": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "integer": (pa.types.is_integer,),
}

#: Messages per batch; bounds the memory for padded copies.
_BATCH_ROWS = 131_072

#: Reduction constant of GF(2^128), for doubling a block.
_REDUCTION = 0x87


def cmac(key: bytes, messages: np.ndarray) -> np.ndarray:
    """Return the AES-CMAC of each message; all messages have the same length.

    Args:
        key: AES key.
        messages: uint8, shape (n, length).

    Returns:
        uint8, shape (n, 16).
    """
    # ECB is the block cipher itself; CMAC chains the blocks.
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305

    def encrypt(blocks: np.ndarray) -> np.ndarray:
        raw = encryptor.update(np.ascontiguousarray(blocks).reshape(-1).data)
        return np.frombuffer(raw, dtype=np.uint8).reshape(-1, _BLOCK)

    subkey = _doubled(encryptor.update(bytes(_BLOCK)))
    rows, length = messages.shape
    width = max(_BLOCK, -(-length // _BLOCK) * _BLOCK)
    padded = np.zeros((rows, width), dtype=np.uint8)
    padded[:, :length] = messages
    if length < width:
        padded[:, length] = 0x80
    final_subkey = subkey if length == width else _doubled(subkey)
    padded[:, -_BLOCK:] ^= np.frombuffer(final_subkey, dtype=np.uint8)
    state = encrypt(padded[:, :_BLOCK])
    for begin in range(_BLOCK, width, _BLOCK):
        state = encrypt(state ^ padded[:, begin : begin + _BLOCK])
    return state


def keys_of_ids(
    key: bytes,
    tag: bytes,
    ids: pa.Array | pa.ChunkedArray,
    id_type: Literal["string", "integer"],
) -> np.ndarray | None:
    """Return the AES-CMAC of each ID, prefixed with a tag.

    Args:
        key: AES key.
        tag: One byte that identifies the ID type.
        ids: Shape (n,).
        id_type: Declared type of the IDs.

    Returns:
        uint8, shape (n, 16); None if an ID is missing or not of the declared type.
    """
    chunks = ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]
    keys = [np.empty((0, _BLOCK), dtype=np.uint8)]
    for chunk in chunks:
        plain = chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk
        if not len(plain):
            continue
        if plain.null_count or not any(fits(plain.type) for fits in _KINDS[id_type]):
            return None
        if id_type == "string":
            keys.append(keys_of_texts(key, tag, plain))
        else:
            numbers = plain.to_numpy(zero_copy_only=False)
            keys.append(keys_of_integers(key, tag, numbers))
    return np.concatenate(keys)


def keys_of_texts(key: bytes, tag: bytes, texts: pa.Array) -> np.ndarray:
    """Return the AES-CMAC of each text's UTF-8 bytes (or binary value), prefixed with a tag.

    Args:
        key: AES key.
        tag: Prefix of every message.
        texts: Strings or bytes, shape (n,), without nulls.

    Returns:
        uint8, shape (n, 16).
    """
    keys = np.empty((len(texts), _BLOCK), dtype=np.uint8)
    for begin in range(0, len(texts), _BATCH_ROWS):
        part = pc.cast(texts.slice(begin, _BATCH_ROWS), pa.large_binary())
        _, offsets, content = part.buffers()
        starts = np.frombuffer(offsets, dtype=np.int64)[part.offset : part.offset + len(part) + 1]
        data = np.frombuffer(content or b"", dtype=np.uint8)
        lengths = np.diff(starts)
        order = np.argsort(lengths, kind="stable")
        ends = np.flatnonzero(np.diff(lengths[order])) + 1
        for rows in np.split(order, ends):
            length = int(lengths[rows[0]])
            messages = np.empty((len(rows), len(tag) + length), dtype=np.uint8)
            messages[:, : len(tag)] = np.frombuffer(tag, dtype=np.uint8)
            if length:
                windows = np.lib.stride_tricks.sliding_window_view(data, length)
                messages[:, len(tag) :] = windows[starts[rows]]
            keys[begin + rows] = cmac(key, messages)
    return keys


def keys_of_integers(key: bytes, tag: bytes, numbers: np.ndarray) -> np.ndarray:
    """Return the AES-CMAC of a one-byte tag and each number as 15 little-endian bytes.

    Args:
        key: AES key.
        tag: One byte.
        numbers: Signed or unsigned integers, shape (n,).

    Returns:
        uint8, shape (n, 16).
    """
    wide: Literal["<u8", "<i8"] = "<u8" if numbers.dtype.kind == "u" else "<i8"
    messages = np.zeros((len(numbers), _BLOCK), dtype=np.uint8)
    messages[:, 0] = tag[0]
    messages[:, 1:9] = np.ascontiguousarray(numbers, dtype=wide).view(np.uint8).reshape(-1, 8)
    messages[:, 9:] = np.where(numbers < 0, 0xFF, 0).astype(np.uint8)[:, None]
    keys = np.empty((len(numbers), _BLOCK), dtype=np.uint8)
    for begin in range(0, len(numbers), _BATCH_ROWS):
        keys[begin : begin + _BATCH_ROWS] = cmac(key, messages[begin : begin + _BATCH_ROWS])
    return keys


def _doubled(block: bytes) -> bytes:
    number = int.from_bytes(block, "big") << 1
    if number >> 128:
        number = (number & (2**128 - 1)) ^ _REDUCTION
    return number.to_bytes(_BLOCK, "big")
