"""Pinning in ``policy.yaml``: the rest of the file stays as it is."""

import base64
import os
import tempfile
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from opboost_ops.config.loading import load_policy
from opboost_ops.config.schema import Name, PublicKey
from opboost_ops.errors import ConfigError


def require_public_key(key: str) -> str:
    """The key, if it is the base64 of 32 bytes in its one right spelling.

    Raises:
        ConfigError: It is not.
    """
    # The last of 43 digits carries two bits that mean nothing: of its spellings one is right.
    if _fits(PublicKey, key) and base64.b64encode(base64.b64decode(key)).decode() == key:
        return key
    raise ConfigError(
        "That is no public key: it must be the base64 of 32 bytes, 44 characters.",
        "Copy it whole, as its party's `opboost keys show` prints it.",
    )


def pin(path: Path, party: str, key: str, replace: bool) -> bool:
    """Pin a party's signing key as a receiver's.

    Args:
        path: The ``policy.yaml``.
        party: The receiver.
        key: Its public key, base64.
        replace: Whether another key may be pinned already.

    Returns:
        Whether the file changed.

    Raises:
        ConfigError: Another key is pinned, or the file cannot be changed without touching more.
    """
    require_public_key(key)
    if not _fits(Name, party):
        raise ConfigError("That is no name of a party.", "Names are as in the federation file.")
    policy = load_policy(path)
    if party == policy.party:
        raise ConfigError(f"{path.name} is {party}'s own; a party is not its own receiver.")
    known = policy.receivers.get(party)
    if known is not None and known.signing_key == key:
        return False
    if known is not None and not replace:
        raise ConfigError(
            f"{path.name} pins another signing key for {party}; nothing was changed.",
            f"If {party} told you the new key over a channel that you trust, say --replace.",
        )
    text = path.read_bytes().decode()
    data = yaml.safe_load(text)
    receivers = data.get("receivers", {})
    # Copies, since entries that share an anchor are one object: only this one may change.
    receiver = {**receivers.get(party, {}), "signing_key": key}
    expected = {**data, "receivers": {**receivers, party: receiver}}
    changed = _pinned(text, party, key)
    if data_of(changed) != expected:
        raise ConfigError(
            f"{path.name} is written in a way that this command cannot add to.",
            f"Write it there by hand: receivers: {{{party}: {{signing_key: {key}}}}}",
        )
    replace_text(path.resolve(), changed)
    return True


def _pinned(text: str, party: str, key: str) -> str:
    receivers = child(yaml.compose(text, Loader=yaml.SafeLoader), "receivers")
    # Some names, such as `on`, are no text in YAML unless they are quoted.
    name = party if yaml.safe_load(party) == party else f'"{party}"'
    if receivers is None:
        end = "" if text.endswith("\n") else "\n"
        return f"{text}{end}receivers:\n  {name}:\n    signing_key: {key}\n"
    old = child(child(receivers, party), "signing_key")
    if old is not None:
        return text[: old.start_mark.index] + key + text[old.end_mark.index :]
    start = receivers.start_mark
    if receivers.flow_style:
        comma = ", " if receivers.value else ""
        at = start.index + 1
        return f"{text[:at]}{name}: {{signing_key: {key}}}{comma}{text[at:]}"
    indent = " " * start.column
    entry = f"{name}:\n{indent}  signing_key: {key}\n{indent}"
    return text[: start.index] + entry + text[start.index :]


def child(node: Any, name: str) -> Any:
    """The value of a key of a composed mapping; None if there is none."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return value
    return None


def _fits(form: Any, text: str) -> bool:
    try:
        TypeAdapter(form).validate_python(text)
    except ValidationError:
        return False
    return True


def data_of(text: str) -> Any:
    """What a text says as YAML; None if it is none."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def replace_text(path: Path, text: str) -> None:
    """Replace a file's text, whole or not at all; who may read it stays as it is.

    Raises:
        ConfigError: It cannot be written.
    """
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        return
    except OSError:
        problem = f"{path.name} cannot be written; it is as it was."
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
    raise ConfigError(problem, "See that this user may write into its folder.")
