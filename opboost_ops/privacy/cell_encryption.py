"""Cell files at rest under a key of the party: Parquet modular encryption with AES-GCM.

Each file has keys of its own, wrapped by the party's; footer and columns are encrypted.
"""

import base64
from contextlib import suppress
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet.encryption as pe
from cryptography.hazmat.primitives.keywrap import (
    InvalidUnwrap,
    aes_key_unwrap,
    aes_key_wrap,
)

from opboost_ops.errors import ConfigError

_NAME = "cells"
_MAGIC = b"PARE"


class _Keys(pe.KmsClient):  # type: ignore[misc]
    """Wraps the keys of files."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key

    def wrap_key(self, key_bytes: bytes, _: str) -> bytes:
        """A file's key under the party's."""
        return base64.b64encode(aes_key_wrap(self._key, key_bytes))

    def unwrap_key(self, wrapped_key: bytes, _: str) -> bytes:
        """A file's key."""
        with suppress(InvalidUnwrap):
            return aes_key_unwrap(self._key, base64.b64decode(wrapped_key))
        raise ConfigError(
            "The cell files are encrypted under another key.", "Check `cells_key` in site.yaml."
        )


class Encryption:
    """How cell files are encrypted.

    Args:
        key: 32 bytes; absent, new files are written in the clear.
    """

    def __init__(self, key: bytes | None) -> None:
        self._key = key

    def writing(self) -> Any:
        """Properties for a writer; None where files are written in the clear."""
        if self._key is None:
            return None
        declared = pe.EncryptionConfiguration(
            footer_key=_NAME,
            uniform_encryption=True,
            encryption_algorithm="AES_GCM_V1",
            double_wrapping=False,
            data_key_length_bits=256,
        )
        return self._factory.file_encryption_properties(pe.KmsConnectionConfig(), declared)

    def reading(self, path: Path) -> Any:
        """Properties for a reader; None for a file in the clear.

        Raises:
            ConfigError: The file is encrypted and there is no key, or another one.
        """
        with path.open("rb") as file:
            if file.read(4) != _MAGIC:
                return None
        if self._key is None:
            raise ConfigError(
                f"The cell file {path.name} is encrypted.",
                "Name its key: `cells_key` in site.yaml.",
            )
        declared = pe.DecryptionConfiguration(cache_lifetime=timedelta(minutes=5))
        return self._factory.file_decryption_properties(pe.KmsConnectionConfig(), declared)

    @cached_property
    def _factory(self) -> Any:
        key = self._key
        assert key is not None
        return pe.CryptoFactory(lambda _: _Keys(key))
