"""What the exchange and the ledger cost, beside desensitising and ranking the same cells.

Ranks of one table are signed, encrypted to their receiver, decrypted and verified; and the cell
states of one column of many people are updated, as for a second retraining in which 2 % changed.
"""

import argparse
import hashlib
import json
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.domain import Domain
from opboost_ops.exchange.encoding import smallest_integers
from opboost_ops.exchange.encryption import Envelope, PrivateKey, new_encryption_key
from opboost_ops.exchange.signing import Signer, new_signing_key, signed_by
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.mechanisms.release import randomise
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import Database

SECRET = bytes(range(32))
DOMAIN = Domain(1, 10)


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--people", type=int, default=10_000_000, help="of the cell states")
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    result = {
        "exchange": exchange(options.rows, options.columns, rng),
        "cells": cells(options.people, rng),
    }
    print(json.dumps(result, indent=None if options.json else 1))


def timed(work: Callable[[], Any], repeats: int = 5) -> tuple[Any, float]:
    """The work's result, and its median seconds."""
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - begin)
    return result, sorted(seconds)[len(seconds) // 2]


def exchange(rows: int, columns: int, rng: np.random.Generator) -> dict[str, float]:
    """Sign, encrypt, decrypt and verify ranks, beside desensitising and ranking them."""
    keys = rng.integers(0, 256, (rows, 16), dtype=np.uint8)
    values = [rng.integers(1, 11, rows) for _ in range(columns)]
    mechanism = GlobalMap(epsilon=1.0)
    mechanism.channel(DOMAIN)

    def desensitise_and_rank() -> pa.Table:
        ranks = {}
        for i, column in enumerate(values):
            out = randomise(column, keys, mechanism, DOMAIN, b"map", SECRET, uuid.UUID(int=i))
            _, inverse = np.unique(out, return_inverse=True)
            ranks[f"x{i}"] = smallest_integers(inverse.reshape(-1) + 1)
        return pa.table(ranks)

    table, work = timed(desensitise_and_rank, 3)
    private, public = new_encryption_key(SECRET)
    signer_key, _ = new_signing_key(SECRET)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "signing.key"
        path.write_text(signer_key)
        path.chmod(0o600)
        signer = Signer.from_file(path)
        path = Path(folder) / "encryption.key"
        path.write_text(private)
        path.chmod(0o600)
        receiver = PrivateKey.from_file(path)
    content, encoded = timed(
        lambda: np.column_stack([c.to_numpy() for c in table.columns]).tobytes(), 3
    )
    digest = hashlib.sha256(content).hexdigest()

    def protect() -> bytes:
        hashlib.sha256(content).hexdigest()
        sealed = Envelope(SECRET, public).encrypt(content, digest, "entries.bin")
        signature = signer.sign(digest.encode())
        assert signed_by(signer.public, digest.encode(), signature)
        plain = receiver.decrypt(sealed, digest, "entries.bin")
        assert hashlib.sha256(plain).hexdigest() == digest
        return plain

    plain, protected = timed(protect)
    assert plain == content
    return {
        "rows": rows,
        "columns": columns,
        "bytes": len(content),
        "desensitise_and_rank_seconds": round(work, 4),
        "encode_seconds": round(encoded, 4),
        "sign_encrypt_decrypt_verify_seconds": round(protected, 5),
        "share": round(protected / work, 5),
    }


def cells(people: int, rng: np.random.Generator) -> dict[str, float]:
    """Cell states of one column: the first release, and one in which 2 % of the values changed."""
    who = rng.integers(0, 2**63, people).astype(np.uint64)
    who = np.unique(who)
    values = rng.integers(1, 11, len(who))
    changed = np.where(rng.random(len(who)) < 0.02, rng.integers(1, 11, len(who)), values)
    column, context = uuid.UUID(int=1), bytes(32)
    with tempfile.TemporaryDirectory() as folder:
        state = Cells(Path(folder), Database(f"sqlite:///{folder}/ledger.sqlite"))
        _, first = timed(lambda: state.charge(column, context, who, values, DOMAIN), 1)
        _, held = timed(lambda: state.hold(column, context, who, changed, DOMAIN, 3), 1)
        _, second = timed(lambda: state.charge(column, context, who, changed, DOMAIN), 1)
        size = sum(path.stat().st_size for path in Path(folder).glob("*-*"))
    return {
        "people": len(who),
        "first_seconds": round(first, 3),
        "hold_seconds": round(held, 3),
        "update_seconds": round(second, 3),
        "bytes": size,
        "bytes_a_cell": round(size / len(who), 2),
    }


if __name__ == "__main__":
    main()
