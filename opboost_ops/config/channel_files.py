"""Designed channels beside a federation file: each a JSON file, named by the feature's ``table``.

The name `standard` is the channel that ships with this software, which `opboost init` writes.

A table is read once, where the federation file is read. From there it travels inside plans and
model versions, so that nobody needs the file twice; an agreement names it by its digest.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from opboost_ops.config.declared_map import canonical
from opboost_ops.config.resources import shipped
from opboost_ops.config.yaml_text import bounded_text
from opboost_ops.errors import ConfigError, Fault
from opboost_ops.mechanisms.designed import Table

#: Which form of file this is.
FORM = "designed_channel"
_VERSION = 1

#: Caps on the losses of a number that `opboost init` offers, those of its edges included: of a step
#: of its domain, and of the whole range.
MOST_STEP, MOST_WHOLE = 0.7, 4.5

#: Epsilon of private edges that the standard channel leaves room for under these caps.
STANDARD_EDGES = 0.05

#: The channel that ships with this software, on [1, 10].
STANDARD: Mapping[str, Any] = {
    "name": "designed", "epsilon": 0.65, "most": 4.45, "table": "standard",
}  # fmt: skip

#: Most bytes of a file: 64 x 64 counts of 20 digits take a tenth of it.
_MOST_BYTES = 1 << 20

_REMEDY = "take a file as `opboost channel designed --out` wrote it"


def table_text(table: Table, provenance: Mapping[str, Any]) -> str:
    """A table's file.

    Args:
        table: The table.
        provenance: How it came about, for people; nothing reads it.
    """
    facts = {FORM: _VERSION, "made": dict(provenance), **table.model_dump(mode="json")}
    return json.dumps(facts) + "\n"


def table_digest(table: Table) -> str:
    """Sha256 of a table's content, hex: what an agreement names it by."""
    return hashlib.sha256(canonical(table.model_dump(mode="json"))).hexdigest()


def is_standard(table: Table) -> bool:
    """True of the table that ships with this software."""
    facts = _read(STANDARD["table"], Path())
    return isinstance(facts, dict) and Table.model_validate(facts) == table


def read_tables(data: Any, folder: Path) -> list[Fault]:
    """Put tables in the place of their files' names, in what a federation file says.

    Args:
        data: As read from the federation file; changed in place. What has another shape stays.
        folder: Where the federation file lies.

    Returns:
        What is wrong with the files.
    """
    faults = []
    for where, mechanism in _designed(data):
        table = _read(mechanism["table"], folder)
        if isinstance(table, str):
            faults.append(Fault(f"{where}.mechanism.table", table, _REMEDY))
        else:
            mechanism["table"] = table
    return faults


def _designed(data: Any) -> Iterator[tuple[str, dict[str, Any]]]:
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


def _read(name: str, folder: Path) -> dict[str, Any] | str:
    if Path(name).name != name:
        return "names a file elsewhere; a table lies beside the federation file"
    file = folder / name
    if name == STANDARD["table"]:
        file = shipped("schemas") / "channels" / "standard.json"
    try:
        content = json.loads(bounded_text(file, _MOST_BYTES))
    except OSError:
        return f"{name} is missing, or cannot be read"
    except ConfigError as error:
        return f"{name} {error.problem}"
    except (ValueError, RecursionError):
        return f"{name} is not a JSON file"
    if not isinstance(content, dict) or content.get(FORM) != _VERSION:
        return f"{name} is not a designed channel that this version knows"
    facts = {key: content[key] for key in Table.model_fields if key in content}
    try:
        Table.model_validate(facts)
    except ValidationError:
        return f"{name} is not a designed channel: its domain, outputs or counts are not as written"
    return facts
