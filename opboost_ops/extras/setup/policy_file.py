"""Receivers' keys pinned in ``policy.yaml``; the rest of the file stays as it is."""

import base64
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import POLICY, load_policy
from opboost_ops.config.schema import Name, PublicKey
from opboost_ops.errors import ConfigError
from opboost_ops.privacy.consent.agreements import unpinned_receiver
from opboost_ops.tables.spill.files import replace_text


def require_public_key(key: str) -> str:
    """The key, if it is the base64 of 32 bytes in its one right spelling.

    Raises:
        ConfigError: It is not.
    """
    # The last of 43 digits carries two bits that mean nothing: of its spellings one is right.
    if _fits(PublicKey, key) and base64.b64encode(base64.b64decode(key)).decode() == key:
        return key
    raise ConfigError(
        "That is not a public key: it must be the base64 of 32 bytes, 44 characters.",
        "Copy it whole, as its party's `opboost keys show` prints it.",
    )


def pin(site: Path, federation: Federation) -> list[str]:
    """Pin the label holder's signing key in ``policy.yaml``; what is pinned stays.

    Args:
        site: Folder of the party's ``site.yaml``.
        federation: What the party agrees to.

    Returns:
        What is pinned now, in words.

    Raises:
        ConfigError: The file cannot be added to.
    """
    if not (site / POLICY).is_file():
        return []
    pinned = []
    holder = unpinned_receiver(load_policy(site / POLICY), federation)
    if holder is not None:
        pin_key(site / POLICY, holder, federation.parties[holder].signing_key, replace=False)
        pinned.append(f"the signing key of {holder}")
    return pinned


def pin_key(path: Path, party: str, key: str, replace: bool) -> bool:
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
        raise ConfigError("That is not a party's name.", "Names are as in the federation file.")
    policy = load_policy(path)
    if party == policy.party:
        raise ConfigError(f"{path.name} is {party}'s own; a party is not its own receiver.")
    pinned = policy.receivers.get(party)
    if pinned is not None and pinned.signing_key == key:
        return False
    if pinned is not None and not replace:
        raise ConfigError(
            f"{path.name} pins another signing key for {party}; nothing was changed.",
            f"If {party} told you the new key over a channel that you trust, pass --replace.",
        )
    text = path.read_bytes().decode()
    data = yaml.safe_load(text)
    receivers = data.get("receivers", {})
    # Copies, since entries that share an anchor are one object: only this one may change.
    receiver = {**receivers.get(party, {}), "signing_key": key}
    expected = {**data, "receivers": {**receivers, party: receiver}}
    by_hand = f"receivers: {{{party}: {{signing_key: {key}}}}}"
    _replace_text(path, _pinned(text, party, key), expected, by_hand)
    return True


def _pinned(text: str, party: str, key: str) -> str:
    receivers = _child(yaml.compose(text, Loader=yaml.SafeLoader), "receivers")
    # Some names, such as `on`, are no text in YAML unless they are quoted.
    name = party if yaml.safe_load(party) == party else f'"{party}"'
    if receivers is None:
        end = "" if text.endswith("\n") else "\n"
        return f"{text}{end}receivers:\n  {name}:\n    signing_key: {key}\n"
    old = _child(_child(receivers, party), "signing_key")
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


def _child(node: Any, name: str) -> Any:
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


def _replace_text(path: Path, text: str, expected: Any, by_hand: str) -> None:
    """Replace a file's text, whole or not at all; who may read it stays as it is.

    Args:
        path: The file, or a link to it.
        text: What it is to hold.
        expected: What that is to say.
        by_hand: What to write into the file where the text says anything else.

    Raises:
        ConfigError: It says anything else, or cannot be written.
    """
    parsed = None
    with suppress(yaml.YAMLError):
        parsed = yaml.safe_load(text)
    if parsed != expected:
        raise ConfigError(
            f"{path.name} is written in a way that this command cannot add to.",
            f"Write it there by hand: {by_hand}",
        )
    try:
        replace_text(path, text)
    except OSError:
        raise ConfigError(
            f"{path.name} cannot be written; it is as it was.",
            "See that this user may write into its folder.",
        ) from None
