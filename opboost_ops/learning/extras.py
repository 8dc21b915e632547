"""Libraries that are extras: absent until they are asked for."""

from importlib.util import find_spec

from opboost_ops.errors import ConfigError


def require_extra(module: str, name: str, entry: str, extra: str) -> None:
    """Make sure that an extra is there, without importing it.

    Args:
        module: What is imported of it.
        name: As people call it.
        entry: What in the federation file asks for it.
        extra: Its name among this package's extras.

    Raises:
        ConfigError: It is not installed.
    """
    if find_spec(module) is None:
        raise ConfigError(
            f"{entry}, and {name} is not installed.",
            f"Install the extra: pip install 'opboost-ops[{extra}]'.",
        )
