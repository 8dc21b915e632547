"""What the exchange costs, beside desensitising and ranking the same cells.

Ranks of one table are signed, encrypted to their receiver, decrypted and verified.
"""

import argparse
import hashlib
import json
import tempfile
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.measure import timed
from opboost_ops.domain import Domain
from opboost_ops.exchange.encoding import smallest_integers
from opboost_ops.exchange.encryption import Envelope, PrivateKey, new_encryption_key
from opboost_ops.exchange.signing import Signer, new_signing_key, signed_by
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.mechanisms.release import randomise

SECRET = bytes(range(32))
DOMAIN = Domain(1, 10)


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    result = {"exchange": exchange(options.rows, options.columns, rng)}
    print(json.dumps(result, indent=None if options.json else 1))


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

    plain, protected = timed(protect, 5)
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


if __name__ == "__main__":
    main()
