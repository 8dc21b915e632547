"""The canonical document that a federation's parties agree on, and its digest.

It is the federation file, without a closed list of entries that cannot affect what a party
releases, with the protocol's version and, for each released column, the digests of its public map
and channels as this version of the software computes them. A corrected formula that would change
the noise is therefore a new agreement.

The table `standard` is the channel that ships with this software and that `opboost init` declares.

A channel's table is read once, with the federation file. Plans and model versions then contain it,
so that the file is not needed again; an agreement contains its digest.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from opboost_ops.config.columns import canonical, columns_of, non_default, shared_columns
from opboost_ops.config.documents import bounded_text
from opboost_ops.config.federation import Federation
from opboost_ops.config.resources import shipped
from opboost_ops.errors import ConfigError, Fault
from opboost_ops.mechanisms import Designed
from opboost_ops.mechanisms.designed import Table

#: Entries that may change without a new agreement; ``*`` is any party. All others are agreed.
FREE = (
    # Within the agreed maximum frequency of the terms.
    "schedule",
    "scoring.cron",
    "parties.*.queue",
    # Local postprocessing of the scoring party's own scores.
    "scoring.cost_ratio",
    "scoring.calibration",
    "scoring.interval",
    "scoring.reasons",
)

#: Further such entries in vertical learning. In horizontal learning all of ``training`` decides
#: which sums are sent.
FREE_VERTICAL = (
    "training.trees",
    "training.learning_rate",
    "training.depth",
    "training.tolerance",
    "training.denoise",
    # The label holder's processing of released values and of its own agreed columns. Its requests
    # for split values stay the same: for one model, within what the other policies allow. The
    # choice of its own columns, such as that of weights, is agreed.
    "training.parameters",
    "training.objective",
    "training.early_stopping",
    "training.tuning",
)

#: Version of the protocol; increased if a message, their order or a default changes its meaning.
PROTOCOL = 1

#: Key and version of the file format of designed channels.
_TABLE_FORM = "designed_channel"
_TABLE_VERSION = 1

#: Caps on the losses of a number that `opboost init` offers, including its edges: for one step of
#: its domain, and across the full range.
MAX_STEP_LOSS, MAX_WHOLE_LOSS = 0.7, 4.5

#: Epsilon of private edges for which the standard channel leaves room under these caps.
STANDARD_EDGES = 0.05

#: The channel that ships with this software, on [1, 10].
STANDARD: Mapping[str, Any] = {
    "name": "designed", "epsilon": 0.65, "most": 4.45, "table": "standard",
}  # fmt: skip

_REMEDY = "take a file as `opboost channel designed --out` wrote it"

#: Maximum size of such a file in bytes, ten times that of 64 x 64 counts of 20 digits.
_MAX_BYTES = 1 << 20


def free_entries(learning: str) -> tuple[str, ...]:
    """Return the entries that may change without a new agreement; ``*`` is any party.

    Args:
        learning: ``vertical`` or ``horizontal``.
    """
    return FREE + (FREE_VERTICAL if learning == "vertical" else ())


def document(federation: Federation) -> dict[str, Any]:
    """Return the document that the parties agree on, as JSON values."""
    return {
        "protocol": PROTOCOL,
        "federation": declared(federation),
        "columns": computed(federation),
    }


def declared(federation: Federation) -> dict[str, Any]:
    """Return the agreed part of a federation file, without computing channels."""
    content = non_default(federation)
    for path in free_entries(federation.learning):
        _remove_entry(content, path.split("."))
    for name, party in federation.parties.items():
        for feature, spec in party.features.items():
            if spec.mechanism is not None:
                entry = content["parties"][name]["features"][feature]
                if isinstance(spec.mechanism, Designed) and isinstance(spec.mechanism.table, Table):
                    entry["mechanism"]["table"] = table_digest(spec.mechanism.table)
    for key in ("training", "scoring"):
        if not content.get(key):
            content.pop(key, None)
    return content


def federation_of(content: Mapping[str, Any]) -> Federation | None:
    """Return the federation of an agreement; None if the agreement has only digests of tables.

    Args:
        content: Content of the agreement, as from `document`.
    """
    with suppress(ValidationError):
        return Federation.model_validate(content["federation"])
    return None


def computed(federation: Federation) -> dict[str, Any]:
    """Compute the digests of every released column's map and channels."""
    if federation.learning == "horizontal":
        return {column.name: {"map": column.digest.hex()} for column in shared_columns(federation)}
    digests: dict[str, Any] = {}
    for party in federation.feature_holders:
        for column in columns_of(federation, party):
            digests[f"{party}.{column.name}"] = {
                "map": column.map_digest.hex(),
                "channel": column.mechanism.channel(column.domain).digest().hex(),
            }
    return digests


def digest_of(content: Mapping[str, Any]) -> str:
    """Return a document's SHA-256, in hex."""
    return hashlib.sha256(canonical(content)).hexdigest()


def differences(before: Any, after: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences of two documents: path, value before and after; None if absent.

    Lists are compared as a whole, because their order is agreed as well.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after}):
            yield from differences(
                before.get(name), after.get(name), f"{at}.{name}" if at else str(name)
            )
    elif canonical(before) != canonical(after):
        yield at, before, after


def fields(pinned: Mapping[str, Any], federation: Federation) -> list[str]:
    """Return the paths at which a federation differs from an agreement; empty if it complies.

    Digests are computed only if no declared entry differs, so that a plan with a huge domain makes
    nobody compute its channel.

    Args:
        pinned: Content of the agreement.
        federation: The declaration, or a plan's.
    """
    if pinned["protocol"] != PROTOCOL:
        return ["protocol"]
    paths = [path for path, _, _ in differences(pinned["federation"], declared(federation))]
    if not paths:
        columns = differences(pinned["columns"], computed(federation))
        paths = [f"columns.{path}" for path, _, _ in columns]
    return paths


def _remove_entry(inside: Any, path: list[str]) -> None:
    first, *rest = path
    if not isinstance(inside, dict):
        return
    if not rest:
        inside.pop(first, None)
    elif first == "*":
        for value in inside.values():
            _remove_entry(value, rest)
    else:
        _remove_entry(inside.get(first), rest)


def table_text(table: Table, provenance: Mapping[str, Any]) -> str:
    """Return the content of a table's file.

    Args:
        table: The table.
        provenance: How the table was computed; informative only.
    """
    content = {
        _TABLE_FORM: _TABLE_VERSION, "made": dict(provenance), **table.model_dump(mode="json")
    }  # fmt: skip
    return json.dumps(content) + "\n"


def table_digest(table: Table) -> str:
    """Return the SHA-256 of a table's content, in hex, which an agreement contains."""
    return hashlib.sha256(canonical(table.model_dump(mode="json"))).hexdigest()


def is_standard(table: Table) -> bool:
    """True for the table that ships with this software."""
    facts = _read_table(STANDARD["table"], Path())
    return isinstance(facts, dict) and Table.model_validate(facts) == table


def inline_tables(data: Any, folder: Path) -> list[Fault]:
    """Replace the names of table files in a federation file by their content.

    Args:
        data: Content of the federation file; changed in place. Malformed entries are left alone.
        folder: Folder of the federation file.

    Returns:
        Faults of the table files.
    """
    faults = []
    for where, mechanism in _designed_mechanisms(data):
        table = _read_table(mechanism["table"], folder)
        if isinstance(table, str):
            faults.append(Fault(f"{where}.mechanism.table", table, _REMEDY))
        else:
            mechanism["table"] = table
    return faults


def _designed_mechanisms(data: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for party, spec in _entries(data, "parties"):
        for name, feature in _entries(spec, "features"):
            mechanism = feature.get("mechanism") if isinstance(feature, dict) else None
            if not isinstance(mechanism, dict) or mechanism.get("name") != "designed":
                continue
            if isinstance(mechanism.get("table"), str):
                yield f"parties.{party}.features.{name}", mechanism


def _entries(data: Any, key: str) -> list[tuple[Any, Any]]:
    inside = data.get(key) if isinstance(data, dict) else None
    return list(inside.items()) if isinstance(inside, dict) else []


def _read_table(name: str, folder: Path) -> dict[str, Any] | str:
    if Path(name).name != name:
        return "names a file in another folder; it must be in the federation file's folder"
    file = folder / name
    if name == STANDARD["table"]:
        file = shipped("schemas") / "channels" / "standard.json"
    try:
        content = json.loads(bounded_text(file, _MAX_BYTES))
    except OSError:
        return f"{name} is missing, or cannot be read"
    except ConfigError as error:
        return f"{name} {error.problem}"
    except (ValueError, RecursionError):
        return f"{name} is not a JSON file"
    if not isinstance(content, dict) or content.get(_TABLE_FORM) != _TABLE_VERSION:
        return f"{name} is not a designed channel in a supported format"
    facts = {key: content[key] for key in Table.model_fields if key in content}
    try:
        Table.model_validate(facts)
    except ValidationError:
        return f"{name} is not a designed channel: its domain, outputs or counts were changed"
    return facts
