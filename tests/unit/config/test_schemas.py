"""The committed JSON Schemas are those of the models."""

import pytest

from opboost_ops.config.schemas import schemas, write_schemas
from opboost_ops.resources import schemas_folder


@pytest.mark.parametrize("name", sorted(schemas()))
def test_schemas_have_not_drifted(name: str) -> None:
    committed = (schemas_folder() / name).read_text(encoding="utf-8")
    assert committed == schemas()[name], "run `opboost schemas`"


def test_no_schema_is_forgotten() -> None:
    committed = {path.name for path in schemas_folder().glob("*.schema.json")}
    assert committed == set(schemas())


def test_they_are_written(tmp_path) -> None:
    written = write_schemas(tmp_path)
    assert {path.name: path.read_text() for path in written} == schemas()
