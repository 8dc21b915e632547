"""Pinning a party's columns in its ``policy.yaml``, under the UUIDs that its federation repeats."""

from collections import defaultdict
from pathlib import Path
from typing import Any
from uuid import UUID

import yaml

from opboost_ops.cli.pinning import child, data_of, replace_text
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import POLICY, load_policy, load_site
from opboost_ops.errors import ConfigError, Fault
from opboost_ops.exchange.books import open_books
from opboost_ops.privacy.consent import unpinned


def pin_columns(site: Path, federation: Federation) -> dict[str, UUID]:
    """Write the UUID of every feature that the policy allows and does not pin yet.

    A UUID that is pinned already is left as it is, whatever the federation says.

    Args:
        site: Folder of the party's ``site.yaml``.
        federation: What repeats the UUIDs.

    Returns:
        What was pinned now, by feature; empty if nothing was missing.

    Raises:
        ConfigError: The ledger has charged one of the features under another UUID, whose budgets
            would begin anew; the party is none of the federation's; or the file is written in a
            way that cannot be added to. Nothing was changed.
    """
    declared, path = load_site(site / "site.yaml"), site / POLICY
    policy = load_policy(path)
    if declared.party not in federation.parties:
        raise ConfigError(f"{federation.name} has no party {declared.party}.")
    missing = unpinned(policy, federation, declared.party)
    if not missing:
        return {}
    with open_books(declared) as books:
        charged: dict[str, list[UUID]] = defaultdict(list)
        for release in books.ledger.releases():
            if release.column is not None:
                charged[(release.feature or "").partition("=")[0]].append(release.column)
    faults = [
        Fault(
            f"features.{name}.uuid",
            "the party's ledger has charged this feature under another UUID",
            f"give the federation file uuid: {charged[name][-1]}",
        )
        for name, uuid in missing.items()
        if name in charged and uuid not in charged[name]
    ]
    if faults:
        raise ConfigError("nothing was pinned", file=POLICY, faults=faults)
    text = path.read_bytes().decode()
    changed = text
    for name, uuid in missing.items():
        changed = _with_uuid(changed, name, str(uuid))
    expected = yaml.safe_load(text)
    # Copies: rules that share an anchor are one object.
    rules = expected["features"]
    expected["features"] = {
        name: {**rule, **({"uuid": str(missing[name])} if name in missing else {})}
        for name, rule in rules.items()
    }
    if data_of(changed) != expected:
        lines = "; ".join(f"features.{n}: {{uuid: {u}}}" for n, u in missing.items())
        raise ConfigError(
            f"{POLICY} is written in a way that this command cannot add to.",
            f"Write it there by hand: {lines}",
        )
    replace_text(path.resolve(), changed)
    return missing


def _with_uuid(text: str, feature: str, uuid: str) -> str:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        # The last entry did not fit: the caller sees that this is not what is wanted.
        return text
    rule: Any = child(child(root, "features"), feature)
    if not isinstance(rule, yaml.MappingNode):
        return text
    start = rule.start_mark
    if rule.flow_style:
        comma = ", " if rule.value else ""
        at = start.index + 1
        return f"{text[:at]}uuid: {uuid}{comma}{text[at:]}"
    return f"{text[: start.index]}uuid: {uuid}\n{' ' * start.column}{text[start.index :]}"
