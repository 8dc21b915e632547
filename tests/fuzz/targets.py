"""Readers of foreign bytes, each as a function of bytes that may only end well or be refused."""

import hashlib
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyrage

from opboost_ops.config.columns import canonical
from opboost_ops.config.documents import read_json
from opboost_ops.config.loading import load_federation, load_policy, load_site
from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.contents import opened
from opboost_ops.exchange.files import Files
from opboost_ops.exchange.manifest import File, parse_manifest
from opboost_ops.exchange.plan import read_plan
from opboost_ops.exchange.sealed import curve
from opboost_ops.extras.backup import archive
from opboost_ops.extras.serving import app, rows
from opboost_ops.pipeline.steps import answer_routes, answer_splits
from opboost_ops.tables.copies import content_fingerprint
from opboost_ops.tables.parquet import schema_of
from opboost_ops.verifier import InvalidPlaceError, verify

CORPUS = Path(__file__).with_name("corpus")

_IDENTITY = pyrage.x25519.Identity.generate()
_FEDERATION = CORPUS / "yaml" / "federation.yaml"


def canonical_form(raw: bytes) -> bytes:
    """Write JSON in canonical form, so that changes of a text get past the check of its form."""
    try:
        return canonical(json.loads(raw))
    except (ValueError, RecursionError):
        return raw


def manifest(raw: bytes) -> None:
    """A manifest from the store."""
    parse_manifest(canonical_form(raw), "a place")


def plan(raw: bytes) -> None:
    """A plan's document."""
    read_plan(canonical_form(raw), "a place")


def request(raw: bytes) -> None:
    """A split request or a route request."""
    try:
        document = read_json(raw)
    except (ValueError, RecursionError):
        return
    for parse in (answer_splits._parse, lambda found: answer_routes._parse(found, {})):
        try:
            parse(document)
        except OpBoostError:
            continue


def entries(raw: bytes) -> None:
    """Sealed rows, points and shares: a first byte chooses the kind, the rest is the file."""
    kinds = ("psi_query", "psi_answer", "shares", "ranks", "values", "routes")
    kind, content = kinds[(raw[:1] or b"\0")[0] % len(kinds)], raw[1:]
    document, split, points = content.partition(b"\n\n")
    files = {"entries.bin": points if split else content}
    if split:
        files["document.json"] = document
    listed = json.loads((CORPUS / "manifest" / "ranks.json").read_bytes())
    listed |= {"kind": kind, "encrypted_to": None, "columns": [], "losses": {}, "releases": {}}
    listed |= {"rows": max(len(files["entries.bin"]) // 32 - 1, 0), "files": {}}
    for name, value in files.items():
        file = File(size=len(value), sha256=hashlib.sha256(value).hexdigest())
        listed["files"][name] = file.model_dump(mode="json")
    text = json.dumps(listed, sort_keys=True, separators=(",", ":")).encode()
    stated = parse_manifest(text, "a place")
    whole = {"manifest.json": text, "manifest.sig": b"", **files}
    opened(stated, Files(whole, {}), None, "a place", load_federation(_FEDERATION))


def points(raw: bytes) -> None:
    """Points that another party sent."""
    pieces = [raw[at : at + 32] for at in range(0, len(raw) - 31, 32)]
    if pieces and curve.are_points(np.frombuffer(b"".join(pieces), np.uint8).reshape(-1, 32)):
        curve.multiply(b"\1" * 32, pieces)


def parquet(raw: bytes) -> None:
    """A party's table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.parquet")
        path.write_bytes(raw)
        # As a run reads it. Polars, with which commands read, aborts where a damaged page claims
        # more bytes than there can be.
        content_fingerprint([path], list(schema_of(path, "bank")), bytes(32))


def yaml(raw: bytes) -> None:
    """A declared file of another party, read as each of the three."""
    with tempfile.TemporaryDirectory() as folder:
        for name, load in (
            ("federation.yaml", load_federation),
            ("site.yaml", load_site),
            ("policy.yaml", load_policy),
        ):
            path = Path(folder, name)
            path.write_bytes(raw)
            try:
                load(path)
            except OpBoostError:
                continue


def backup(raw: bytes) -> None:
    """The archive in a backup that anybody may have encrypted."""
    with tempfile.TemporaryDirectory() as folder:
        path, inside = Path(folder, "backup.age"), Path(folder, "inside")
        inside.mkdir()
        with path.open("wb") as file:
            pyrage.encrypt_io(io.BytesIO(raw), file, [_IDENTITY.to_public()])
        archive.unpack(path, _IDENTITY, inside, lambda *_: None)


def http(raw: bytes) -> None:
    """The body of a request to the scoring endpoint."""
    try:
        asked, _, _ = app._parse_request(raw)
    except app._RequestError:
        return
    federation = load_federation(_FEDERATION)
    rows.frame_of(asked, federation, list(federation.parties["credit"].features))


def store(raw: bytes) -> None:
    """A manifest of a store that is verified."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "toy", "0" * 16, "plan", "credit")
        place.mkdir(parents=True)
        (place / "manifest.json").write_bytes(raw)
        (place / "document.json").write_bytes(raw)
        try:
            verify([folder])
        except InvalidPlaceError:
            return


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        *(manifest, plan, request, entries, points),
        *(parquet, yaml, backup, http, store),
    )
}
