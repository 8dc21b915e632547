"""The canonical document that the parties of a federation agree on, and its digest.

It is the whole federation file but for a closed list of what cannot change what leaves a party,
with the version of the protocol, and for each released column the digests of its public map and of
its channels as this version of the software computes them: a corrected formula that would change
noise is another agreement, too.

The name `standard` is the channel that ships with this software, which `opboost init` writes.

A channel's table is read once, where the federation file is read. From there it travels inside
plans and model versions, so that nobody needs the file twice; an agreement names it by its digest.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from opboost_ops.config.columns import canonical, columns_of, differing, shared_columns
from opboost_ops.config.documents import bounded_text
from opboost_ops.config.federation import Federation
from opboost_ops.config.resources import shipped
from opboost_ops.errors import ConfigError, Fault
from opboost_ops.mechanisms import Designed
from opboost_ops.mechanisms.designed import Table

#: All that may change without a new agreement; ``*`` is any party. Everything else is agreed.
FREE = (
    # Within the terms' highest frequency, which is agreed.
    "schedule",
    "scoring.cron",
    "parties.*.queue",
    # What the scoring party makes of its own scores, at home.
    "scoring.cost_ratio",
    "scoring.calibration",
    "scoring.interval",
    "scoring.reasons",
)

#: May change besides in vertical learning. In horizontal learning all of ``training`` decides which
#: sums leave.
FREE_VERTICAL = (
    "training.trees",
    "training.learning_rate",
    "training.depth",
    "training.tolerance",
    "training.denoise",
    # What the label holder makes of released values and of its own agreed columns. It asks others
    # for split values as before, of one model, within what their policies answer. Which columns of
    # its own are used, such as that of weights, is agreed.
    "training.parameters",
    "training.objective",
    "training.early_stopping",
    "training.tuning",
)

#: Raised when a message, an order of messages or a default of a declared file changes its meaning.
PROTOCOL = 1

#: What the file of a designed channel says of its form.
_TABLE_FORM = "designed_channel"
_TABLE_VERSION = 1

#: Caps on the losses of a number that `opboost init` offers, those of its edges included: of a step
#: of its domain, and of the whole range.
MOST_STEP, MOST_WHOLE = 0.7, 4.5

#: Epsilon of private edges that the standard channel leaves room for under these caps.
STANDARD_EDGES = 0.05

#: The channel that ships with this software, on [1, 10].
STANDARD: Mapping[str, Any] = {
    "name": "designed", "epsilon": 0.65, "most": 4.45, "table": "standard",
}  # fmt: skip

_REMEDY = "take a file as `opboost channel designed --out` wrote it"

#: Most bytes of such a file: 64 x 64 counts of 20 digits take a tenth of it.
_MOST_BYTES = 1 << 20


def free_entries(learning: str) -> tuple[str, ...]:
    """Entries of a federation file that may change without a new agreement; ``*`` is any party.

    Args:
        learning: How its parties learn.
    """
    return FREE + (FREE_VERTICAL if learning == "vertical" else ())


def document(federation: Federation) -> dict[str, Any]:
    """The document that the parties agree on, as JSON values.

    Args:
        federation: As declared, or as a plan has it.
    """
    return {
        "protocol": PROTOCOL,
        "federation": declared(federation),
        "columns": computed(federation),
    }


def declared(federation: Federation) -> dict[str, Any]:
    """The agreed part of a federation file; it builds no channel.

    Args:
        federation: As declared, or as a plan has it.
    """
    content = differing(federation)
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
    """The federation of an agreement; None where it has only the digest of a mechanism's table.

    Args:
        content: Of the agreement; see `document`.
    """
    with suppress(ValidationError):
        return Federation.model_validate(content["federation"])
    return None


def computed(federation: Federation) -> dict[str, Any]:
    """Digests of every released column's map and channels, as this version computes them.

    Args:
        federation: As declared, or as a plan has it.
    """
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
    """Sha256 of a document, hex."""
    return hashlib.sha256(canonical(content)).hexdigest()


def differences(before: Any, after: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two documents differ: path, value before, value after; None where there is none.

    Lists are compared as a whole: their order is part of what was agreed.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after}):
            yield from differences(
                before.get(name), after.get(name), f"{at}.{name}" if at else str(name)
            )
    elif canonical(before) != canonical(after):
        yield at, before, after


def fields(pinned: Mapping[str, Any], federation: Federation) -> list[str]:
    """The fields in which a federation differs from what was agreed; empty if in none.

    Digests are computed only where nothing declared differs: who plans a domain of a billion values
    makes nobody build its channel.

    Args:
        pinned: What was agreed.
        federation: As declared, or as a plan has it.
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
    """A table's file.

    Args:
        table: The table.
        provenance: How it came about, for people; nothing reads it.
    """
    facts = {_TABLE_FORM: _TABLE_VERSION, "made": dict(provenance), **table.model_dump(mode="json")}
    return json.dumps(facts) + "\n"


def table_digest(table: Table) -> str:
    """Sha256 of a table's content, hex: what an agreement names it by."""
    return hashlib.sha256(canonical(table.model_dump(mode="json"))).hexdigest()


def is_standard(table: Table) -> bool:
    """True of the table that ships with this software."""
    facts = _read_table(STANDARD["table"], Path())
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
    if not isinstance(content, dict) or content.get(_TABLE_FORM) != _TABLE_VERSION:
        return f"{name} is not a designed channel that this version knows"
    facts = {key: content[key] for key in Table.model_fields if key in content}
    try:
        Table.model_validate(facts)
    except ValidationError:
        return f"{name} is not a designed channel: its domain, outputs or counts are not as written"
    return facts
