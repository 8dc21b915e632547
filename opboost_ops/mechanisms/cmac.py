"""AES-CMAC of many messages at once (NIST SP 800-38B): a block of the cipher for all of them."""

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

#: Messages at a time: what is in memory besides them and their keys.
_ROWS = 131_072

#: Reduces a doubled block in the field of 2^128 elements.
_REDUCED = 0x87


def cmac(key: bytes, messages: np.ndarray) -> np.ndarray:
    """AES-CMAC of messages of one length.

    Args:
        key: Of AES.
        messages: uint8, shape (n, length).

    Returns:
        uint8, shape (n, 16).
    """
    # ECB is the block cipher itself; CMAC chains the blocks.
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305

    def encrypt(blocks: np.ndarray) -> np.ndarray:
        raw = encryptor.update(np.ascontiguousarray(blocks).reshape(-1).data)
        return np.frombuffer(raw, dtype=np.uint8).reshape(-1, _BLOCK)

    once = _doubled(encryptor.update(bytes(_BLOCK)))
    rows, length = messages.shape
    width = max(_BLOCK, -(-length // _BLOCK) * _BLOCK)
    padded = np.zeros((rows, width), dtype=np.uint8)
    padded[:, :length] = messages
    if length < width:
        padded[:, length] = 0x80
    last = once if length == width else _doubled(once)
    padded[:, -_BLOCK:] ^= np.frombuffer(last, dtype=np.uint8)
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
    """AES-CMAC of each ID with a tag before it.

    Args:
        key: Of AES.
        tag: A byte, by type.
        ids: Shape (n,).
        id_type: Their declared type.

    Returns:
        uint8, shape (n, 16); None if an ID is missing or not of the declared type.
    """
    parts = ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]
    keys = [np.empty((0, _BLOCK), dtype=np.uint8)]
    for part in parts:
        plain = part.dictionary_decode() if pa.types.is_dictionary(part.type) else part
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
    """AES-CMAC of a tag and each text's UTF-8, or each binary value.

    Args:
        key: Of AES.
        tag: What comes before each text.
        texts: Strings or bytes, shape (n,), none missing.

    Returns:
        uint8, shape (n, 16).
    """
    keys = np.empty((len(texts), _BLOCK), dtype=np.uint8)
    for begin in range(0, len(texts), _ROWS):
        part = pc.cast(texts.slice(begin, _ROWS), pa.large_binary())
        _, places, content = part.buffers()
        starts = np.frombuffer(places, dtype=np.int64)[part.offset : part.offset + len(part) + 1]
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
    """AES-CMAC of a tag of one byte and each number as 15 bytes, least first: a block each.

    Args:
        key: Of AES.
        tag: A byte.
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
    for begin in range(0, len(numbers), _ROWS):
        keys[begin : begin + _ROWS] = cmac(key, messages[begin : begin + _ROWS])
    return keys


def _doubled(block: bytes) -> bytes:
    number = int.from_bytes(block, "big") << 1
    if number >> 128:
        number = (number & (2**128 - 1)) ^ _REDUCED
    return number.to_bytes(_BLOCK, "big")
