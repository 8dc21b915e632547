"""JSON Schemas of declared files and records, generated from their models."""

import json
from collections.abc import Mapping
from pathlib import Path

from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy
from opboost_ops.config.schema import Record
from opboost_ops.config.site import Site

_MODELS: dict[str, type[Record]] = {"federation": Federation, "site": Site, "policy": Policy}


def schemas(more: Mapping[str, type[Record]] | None = None) -> dict[str, str]:
    """Return the text of each schema by file name.

    Args:
        more: Further models by name, besides those of the declared files.
    """
    texts = {}
    for name, model in {**_MODELS, **(more or {})}.items():
        schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **model.model_json_schema(),
        }
        texts[f"{name}.schema.json"] = json.dumps(schema, indent=1, sort_keys=True) + "\n"
    return texts


def write_schemas(folder: Path, more: Mapping[str, type[Record]] | None = None) -> list[Path]:
    """Write all schemas.

    Args:
        folder: The target folder.
        more: As for `schemas`.

    Returns:
        The written files.
    """
    written = []
    for name, text in schemas(more).items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
