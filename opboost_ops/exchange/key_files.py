"""Files of private keys: base64 on one line, readable by their owner alone."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from opboost_ops.errors import ConfigError

Key = TypeVar("Key")


def read_key(path: Path, what: str, parse: Callable[[bytes], Key], remedy: str) -> Key:
    """Read a private key.

    Args:
        path: Its file.
        what: What kind of key it is, for the error: "an Ed25519 signing key".
        parse: Makes a key of its raw bytes; raises ValueError if they are none.
        remedy: How to make one.

    Raises:
        ConfigError: The file is missing, readable by others, or no such key.
    """
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
