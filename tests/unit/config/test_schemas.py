"""The committed JSON Schemas are those of the models."""

import json
from pathlib import Path
from typing import get_args

import jsonschema
import pytest

from opboost_ops.config.resources import shipped
from opboost_ops.config.schemas import schemas, write_schemas
from opboost_ops.exchange.manifest import File, Kind, Manifest

MANIFEST = {"manifest": Manifest}
ALL = schemas(MANIFEST)


@pytest.mark.parametrize("name", sorted(ALL))
def test_schemas_have_not_drifted(name: str) -> None:
    committed = (shipped("schemas") / name).read_text(encoding="utf-8")
    assert committed == ALL[name], "run `python -m opboost_ops.extras.setup.schemas`"


def test_no_schema_is_forgotten() -> None:
    committed = {path.name for path in shipped("schemas").glob("*.schema.json")}
    assert committed == set(ALL)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_one_schema_covers_manifests_of_all_kinds(kind: Kind) -> None:
    manifest = Manifest(
        federation="toy",
        run="0" * 16,
        kind=kind,
        party="bank",
        about="bank",
        rows=3,
        files={"table.parquet": File(sha256="a" * 64, size=10)},
        software="1",
    )
    schema = json.loads(ALL["manifest.schema.json"])
    found = json.loads(manifest.to_bytes())
    jsonschema.validate(found, schema)
    for wrong in ({"rows": -1}, {"run": "../../x"}, {"kind": "secret"}, {"values": [1]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**found, **wrong}, schema)


def test_they_are_written(tmp_path: Path) -> None:
    written = write_schemas(tmp_path, MANIFEST)
    assert {path.name: path.read_text() for path in written} == ALL
