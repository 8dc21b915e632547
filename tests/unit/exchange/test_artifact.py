"""A real artifact on disk, and every way of tampering with it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.domain import Domain
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.artifact import Artifact, Draft, Expected, open_artifact
from opboost_ops.exchange.encoding import integers, smallest_integers
from opboost_ops.exchange.manifest import MANIFEST, SIGNATURE, Manifest, parse_manifest
from opboost_ops.exchange.signing import Signer, new_signing_key
from opboost_ops.exchange.store import LocalStore
from opboost_ops.mechanisms.global_map import GlobalMap
from opboost_ops.privacy.loss import loss_curve

RUN = "0123456789abcdef"
PLACE = f"toy/{RUN}/ranks/bank"
ROWS = 500


def signer(folder: Path, name: str) -> Signer:
    path = folder / f"{name}.key"
    if not path.exists():
        path.write_text(new_signing_key()[0])
        path.chmod(0o600)
    return Signer.from_file(path)


def draft() -> Draft:
    ranks = np.arange(ROWS) % 10 + 1
    return Draft(
        kind="ranks",
        about="bank",
        table=pa.table({"income": smallest_integers(ranks), "debt": smallest_integers(11 - ranks)}),
        document={"note": "x"},
        rows=ROWS,
        columns=("income", "debt"),
        answers="a" * 64,
        losses={"income": loss_curve(GlobalMap(epsilon=1.0), Domain(1, 10))},
        discloses="",
    )


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def published(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one published artifact. Tests copy it and never change it."""
    folder = tmp_path_factory.mktemp("store")
    manifest, files = draft().seal(signer(keys, "bank"), "toy", RUN, "bank", False)
    assert manifest.reference == PLACE
    LocalStore(folder).put_once(PLACE, files)
    return folder


def expected(keys: Path, **changes: object) -> Expected:
    facts = {
        "federation": "toy",
        "run": RUN,
        "kind": "ranks",
        "party": "bank",
        "about": "bank",
        "key": signer(keys, "bank").public,
        "rows": ROWS,
        "columns": ("income", "debt"),
        "answers": "a" * 64,
        **changes,
    }
    return Expected(**facts)  # type: ignore[arg-type]


def received(folder: Path, keys: Path, **changes: object) -> Artifact:
    files = LocalStore(folder).get(PLACE)
    if files is None:
        raise ArtifactError("nothing is there")
    return open_artifact(files, expected(keys, **changes))


def test_what_was_sealed_is_what_is_read(published: Path, keys: Path) -> None:
    artifact = received(published, keys)
    assert integers(artifact.table, "income").tolist() == [i % 10 + 1 for i in range(ROWS)]
    assert artifact.document == {"note": "x"}
    assert artifact.manifest.losses == draft().losses
    assert artifact.size == sum(p.stat().st_size for p in (published / PLACE).iterdir())


def test_sealing_again_makes_the_same_bytes(published: Path, keys: Path) -> None:
    _, files = draft().seal(signer(keys, "bank"), "toy", RUN, "bank", False)
    assert files == LocalStore(published).get(PLACE)


@given(data=st.data())
@settings(max_examples=400, deadline=None)
def test_any_flipped_byte_on_disk_is_refused(
    published: Path, keys: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("tampered", numbered=True)
    shutil.copytree(published, folder, dirs_exist_ok=True)
    names = sorted(p.name for p in (folder / PLACE).iterdir())
    assert names == ["document.json", "manifest.json", "manifest.sig", "table.parquet"]
    path = folder / PLACE / data.draw(st.sampled_from(names))
    raw = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    with pytest.raises(ArtifactError):
        received(folder, keys)
    shutil.rmtree(folder)


def test_every_byte_of_manifest_and_signature(published: Path, keys: Path) -> None:
    """Not a sample: all of them, each with one bit turned."""
    files = LocalStore(published).get(PLACE)
    assert files is not None
    for name in (MANIFEST, SIGNATURE):
        for at in range(len(files[name])):
            raw = bytearray(files[name])
            raw[at] ^= 1 << (at % 8)
            with pytest.raises(ArtifactError):
                open_artifact({**files, name: bytes(raw)}, expected(keys))


@pytest.mark.parametrize("name", ["document.json", "manifest.json", "manifest.sig",
                                  "table.parquet"])  # fmt: skip
@pytest.mark.parametrize("how", ["removed", "emptied", "cut", "grown"])
def test_any_file_removed_cut_or_grown_is_refused(
    published: Path, keys: Path, tmp_path: Path, name: str, how: str
) -> None:
    shutil.copytree(published, tmp_path / "store")
    path = tmp_path / "store" / PLACE / name
    raw = path.read_bytes()
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes({"emptied": b"", "cut": raw[:-1], "grown": raw + b"\n"}[how])
    with pytest.raises(ArtifactError):
        received(tmp_path / "store", keys)


def test_a_file_that_is_not_listed_is_refused(published: Path, keys: Path, tmp_path: Path) -> None:
    shutil.copytree(published, tmp_path / "store")
    (tmp_path / "store" / PLACE / "more.parquet").write_bytes(b"x")
    with pytest.raises(ArtifactError, match="files are not those it lists"):
        received(tmp_path / "store", keys)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("federation", "other"),
        ("run", "f" * 16),
        ("kind", "holdout"),
        ("party", "shop"),
        ("about", "shop"),
        ("rows", ROWS + 1),
        ("columns", ("income",)),
        ("columns", ("debt", "income")),
        ("answers", "b" * 64),
    ],
)
def test_an_honest_artifact_for_another_place_is_refused(
    published: Path, keys: Path, name: str, value: object
) -> None:
    with pytest.raises(ArtifactError, match=rf"its {name} is not the expected one"):
        received(published, keys, **{name: value})


def test_an_artifact_of_another_signer_is_refused(published: Path, keys: Path) -> None:
    with pytest.raises(ArtifactError, match="not by the pinned key"):
        received(published, keys, key=signer(keys, "shop").public)
    for key in ("", "A" * 43 + "=", "not base64"):
        with pytest.raises(ArtifactError, match="not by the pinned key"):
            received(published, keys, key=key)


def test_a_signed_lie_about_rows_is_refused(keys: Path) -> None:
    """The signer is right, the count in the manifest is not the table's."""
    from dataclasses import replace

    bank = signer(keys, "bank")
    _, files = replace(draft(), rows=ROWS + 1).seal(bank, "toy", RUN, "bank", False)
    with pytest.raises(ArtifactError, match="row count is off"):
        open_artifact(files, expected(keys, rows=None))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(more=1),
        lambda m: m.pop("rows"),
        lambda m: m.update(rows=-1),
        lambda m: m.update(run="../../escape"),
        lambda m: m.update(kind="scores"),
    ],
)
def test_a_signed_manifest_that_breaks_its_schema_is_refused(
    published: Path, keys: Path, change: object
) -> None:
    files = LocalStore(published).get(PLACE)
    assert files is not None
    data = json.loads(files[MANIFEST])
    change(data)  # type: ignore[operator]
    raw = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    signed = {**files, MANIFEST: raw, SIGNATURE: signer(keys, "bank").sign(raw)}
    with pytest.raises(ArtifactError, match="damaged"):
        open_artifact(signed, expected(keys))


def test_a_signed_manifest_in_another_form_is_refused(published: Path, keys: Path) -> None:
    files = LocalStore(published).get(PLACE)
    assert files is not None
    raw = json.dumps(json.loads(files[MANIFEST]), indent=1).encode()
    signed = {**files, MANIFEST: raw, SIGNATURE: signer(keys, "bank").sign(raw)}
    with pytest.raises(ArtifactError, match="canonical"):
        open_artifact(signed, expected(keys))


def test_another_format_version_says_so(published: Path) -> None:
    files = LocalStore(published).get(PLACE)
    assert files is not None
    data = {**json.loads(files[MANIFEST]), "version": 2}
    with pytest.raises(ArtifactError, match="format version 2"):
        parse_manifest(json.dumps(data).encode(), "x")


def test_a_manifest_has_no_time_and_a_stable_digest(published: Path) -> None:
    files = LocalStore(published).get(PLACE)
    assert files is not None
    manifest = parse_manifest(files[MANIFEST], PLACE)
    assert not any("time" in name or "date" in name for name in Manifest.model_fields)
    assert manifest.to_bytes() == files[MANIFEST]


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=50))
def test_smallest_integers_keep_their_values(values: list[int]) -> None:
    array = smallest_integers(np.array(values))
    assert array.to_pylist() == values
    smallest = next(bits for bits in (8, 16, 32, 64) if max(values) < 2**bits)
    assert array.type.bit_width == smallest
