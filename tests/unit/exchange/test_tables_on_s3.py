"""Tables read from S3, and scores written there."""

from pathlib import Path

import polars as pl
import pytest

from opboost_ops.config.source import Sink, Source
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.pipeline.evaluation.scores import deliver
from opboost_ops.pipeline.inputs import own_copy
from opboost_ops.tables.s3 import S3Bucket
from opboost_ops.tables.spill.arrays import Scratch

ROWS = pl.DataFrame({"id": ["b", "a"], "income": [1.5, 2.5]})


def bucket_of(s3: str) -> S3Bucket:
    name, _, prefix = s3.removeprefix("s3://").partition("/")
    return S3Bucket(name, prefix)


@pytest.mark.parametrize("pattern", ["days/*.csv", "days/1.csv"])
def test_a_table_in_s3(s3: str, tmp_path: Path, pattern: str) -> None:
    bucket = bucket_of(s3)
    bucket.put("days/1.csv", ROWS.write_csv().encode())
    bucket.put("days/2.csv", b"id,income\nc,\n")
    for other in ("other/3.csv", "days/old/4.csv", "days/.5.csv"):
        bucket.put(other, b"id,income\nd,\n")
    target = tmp_path / "home" / "table.parquet"
    own_copy.copy(Source(at=f"{s3}/{pattern}"), "bank", target, {}, "id")
    found = pl.read_parquet(target).get_column("id").to_list()
    assert found == ["a", "b", "c"][: 2 if "1" in pattern else 3]
    assert [path.name for path in target.parent.iterdir()] == ["table.parquet"]


def test_an_object_that_is_not_there(s3: str, tmp_path: Path) -> None:
    target = tmp_path / "table.parquet"
    with pytest.raises(ContractError, match="has no object of that name"):
        own_copy.copy(Source(at=f"{s3}/nothing.parquet"), "bank", target, (), "id")
    with pytest.raises(ConfigError, match="does not exist") as caught:
        own_copy.copy(Source(at="s3://no-such-bucket/x.parquet"), "bank", target, (), "id")
    assert "no-such-bucket" not in str(caught.value)
    assert not target.exists()


def test_scores_in_s3(s3: str, tmp_path: Path) -> None:
    scores = pl.DataFrame({"id": ["a"], "score": [0.5], "model_version": ["v1"]})
    groups, scratch = lambda: iter([scores.to_arrow()]), Scratch(tmp_path)
    for _ in range(2):
        sink = Sink(at=f"{s3}/scores", format="csv")
        deliver(sink, groups, "model_version", "v1", "local-1", scratch)
    bucket = bucket_of(s3)
    assert [item.key for item in bucket.list("scores/")] == ["scores/v1/local-1.csv"]
    assert bucket.get("scores/v1/local-1.csv") == b"id,score,model_version\na,0.5,v1\n"
