"""Files of private keys: base64 on one line, readable by their owner alone."""

import base64
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from opboost_ops.config.key_sources import in_a_file, text_of
from opboost_ops.errors import ConfigError
from opboost_ops.tables.spill.files import private_folder

Key = TypeVar("Key")


def read_key(path: Path, what: str, parse: Callable[[bytes], Key], remedy: str) -> Key:
    """Read a private key.

    Args:
        path: Its file, or where else it is kept; see `config.key_sources`.
        what: What kind of key it is, for the error: "an Ed25519 signing key".
        parse: Makes a key of its raw bytes; raises ValueError if they are none.
        remedy: How to make one.

    Raises:
        ConfigError: The file is missing, readable by others, or no such key.
    """
    if not in_a_file(path):
        text = text_of(path, what.split(maxsplit=2)[2])
        with suppress(ValueError):
            return parse(base64.b64decode(text, validate=True))
        raise ConfigError(f"{path} is not {what}.", remedy)
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(
                f"The {what.split(maxsplit=2)[2]} {path.name} can be read by others.",
                "Make it readable by its owner alone (chmod 600).",
            )
        return parse(base64.b64decode(path.read_text().strip(), validate=True))
    except OSError:
        problem = f"The {what.split(maxsplit=2)[2]} {path.name} cannot be read."
    except ValueError:
        problem = f"{path.name} is not {what}."
    raise ConfigError(problem, remedy)


def each(path: Path, read: Callable[[Path], Key]) -> Iterator[Key]:
    """A key, then those that it has replaced: the party may need them for runs under way.

    They lie beside it as ``NAME.until-...``, which `opboost keys renew` makes; of a key that lies
    in no file, one may be kept under the same name with ``_FORMER`` behind it.

    Args:
        path: The key's place, as ``site.yaml`` names it.
        read: Reads one.

    Raises:
        ConfigError: One of them cannot be read, as soon as it is asked for.
    """
    yield read(path)
    if in_a_file(path):
        for former in sorted(path.parent.glob(f"{path.name}.until-*")):
            yield read(former)
        return
    beside = Path(f"{path}_FORMER")
    try:
        text_of(beside, "former key")
    except ConfigError:
        return
    yield read(beside)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner reads, and that is never overwritten."""
    private_folder(path.parent)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "wb") as file:
        file.write(content)
