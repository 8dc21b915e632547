"""Writes the files of a whole federation into one folder, for experiments and the demo."""

import hashlib
import secrets
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from opboost_ops.config.federation import Scoring
from opboost_ops.config.loading import load_federation, load_site, parse_federation
from opboost_ops.config.policy import ADMIN_ACTIONS
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.encryption import new_encryption_key, write_private
from opboost_ops.exchange.signing import new_signing_key
from opboost_ops.exchange.store.store import THROWAWAY
from opboost_ops.extras.datasets.tables import ID, Dataset
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.party.agreement import MADE_UP, agree
from opboost_ops.pipeline.party.local_party import SEEDED
from opboost_ops.privacy.consent.compliance import limits
from opboost_ops.tables.spill.files import replace_text

_NAMESPACE = uuid.UUID("6f1d3a52-6f0e-4d0a-9f5e-0e7a3f1c9b11")


def write_workspace(
    dataset: Dataset,
    folder: Path,
    *,
    epsilon: float | None = None,
    lower: int | None = None,
    upper: int | None = None,
    seed: int | None = None,
    training: Mapping[str, Any] | None = None,
    scoring: Mapping[str, Any] | None = None,
    capped: bool = True,
) -> Path:
    """Write a federation file, and each party's site, policy, keys, tables and agreement.

    Args:
        dataset: The tables.
        folder: Target folder, empty or missing.
        epsilon: Epsilon of all protected features. Default: the dataset's.
        lower: L of the domain. Default: the dataset's.
        upper: R of the domain. Default: the dataset's.
        seed: Makes split and secrets reproducible, and marks the store as one of experiments.
        training: Other entries of ``training``.
        scoring: Entries of ``scoring``, which the policies allow.
        capped: Whether policies cap each feature at the loss of its declared mechanism.

    Returns:
        The path of ``federation.yaml``.

    Raises:
        ConfigError: The folder is not empty, or the federation is invalid.
    """
    require_empty(folder)
    public = {
        party: write_keys(folder / party / "keys", seeded_secret(seed, dataset.name, party))
        for party in dataset.tables
    }
    key = seeded_secret(seed, dataset.name, "alignment") or secrets.token_bytes(32)
    data = _federation(dataset, public, epsilon, lower, upper)
    if scoring:
        data["scoring"] = dict(scoring)
    data["training"] = {"holdout": dataset.holdout, **(training or {})}
    parse_federation(data, "federation.yaml")
    for party, table in dataset.tables.items():
        # One person acts for all parties.
        policy = policy_data(party, data, capped, _queries(dataset))
        policy["acts"] = list(ADMIN_ACTIONS)
        # With the same seed the same people are held out.
        keyed = key if party == dataset.label_holder else None
        new = dataset.new_rows.get(party)
        write_site(folder / party, dataset.name, policy, table, new, keyed)
    return write_federation(folder, data, throwaway=seed is not None)


def require_empty(folder: Path) -> None:
    """Reject a folder that is not empty.

    Raises:
        ConfigError: The folder is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"The folder {folder.name} is not empty.", "Name another one.")


def write_site(
    folder: Path,
    federation: str,
    policy: Mapping[str, Any],
    table: pl.DataFrame,
    new_rows: pl.DataFrame | None,
    alignment_key: bytes | None = None,
) -> None:
    """Write a party's tables, policy and site beside its keys, readable by its own user only.

    Args:
        folder: The party's folder.
        federation: Name of the federation.
        policy: Content of ``policy.yaml``.
        table: Its training table.
        new_rows: Its table to score, if any.
        alignment_key: Key of the IDs; None for a fresh one per run.
    """
    site = site_data(folder.name, federation, Path("tables/train.parquet"))
    (folder / "tables").mkdir()
    table.write_parquet(folder / "tables" / "train.parquet")
    if new_rows is not None:
        new_rows.write_parquet(folder / "tables" / "score.parquet")
        site["tables"][federation]["score"] = "tables/score.parquet"
    if alignment_key is not None:
        write_private(folder / "keys" / "alignment.key", alignment_key)
        site["alignment_key"] = "keys/alignment.key"
    dump(folder / "site.yaml", site)
    dump(folder / "policy.yaml", policy)
    make_private(folder)


def write_federation(folder: Path, data: Any, *, throwaway: bool) -> Path:
    """Write the federation file beside its parties' folders, the store, and all agreements.

    Args:
        folder: Folder of the federation.
        data: Content of the file.
        throwaway: Whether to mark the store as one of experiments, which allows seeded secrets.

    Returns:
        The path of ``federation.yaml``.
    """
    (folder / "exchange").mkdir()
    if throwaway:
        (folder / "exchange" / THROWAWAY).touch(0o600)
    path = folder / "federation.yaml"
    dump(path, data)
    agree_for_all(path)
    return path


def agree_for_all(file: Path, keep: Collection[str] = ()) -> None:
    """Agree to a federation file on behalf of all its generated parties.

    Args:
        file: ``federation.yaml``, with a folder for each party beside it.
        keep: Versions that may still be scored under the agreement of their training.

    Raises:
        ConfigError: The file or a party's site has faults.
    """
    federation = load_federation(file)
    for party in federation.parties:
        path = file.parent / party / "site.yaml"
        site = load_site(path)
        path.with_name(MADE_UP).touch(0o600)
        agree(site, federation, keep)


def write_keys(folder: Path, seed: bytes | None = None) -> dict[str, str]:
    """Make a party's noise secret, signing key and encryption key.

    Args:
        folder: Target folder, created if missing.
        seed: 32 bytes that determine all keys, for experiments. Default: fresh randomness.

    Returns:
        The public keys as the federation file names them: ``signing_key``, ``encryption_key``.
    """
    secret = (
        secrets.token_bytes(noise.SECRET_BYTES)
        if seed is None
        else SEEDED + seed[: 32 - len(SEEDED)]
    )
    private, public = new_signing_key(seed)
    write_private(folder / "noise.secret", secret)
    write_private(folder / "signing.key", private.encode())
    return {"signing_key": public, "encryption_key": write_encryption_key(folder, seed)}


def write_encryption_key(folder: Path, seed: bytes | None = None) -> str:
    """Make only a party's encryption key.

    Args:
        folder: Target folder, created if missing.
        seed: 32 bytes that determine the key, for experiments. Default: fresh randomness.

    Returns:
        The public key, base64.
    """
    private, public = new_encryption_key(seed)
    write_private(folder / "encryption.key", private.encode())
    return public


def site_data(party: str, federation: str, table: Path, store: str = "../exchange") -> Any:
    """Return the content of a ``site.yaml``."""
    return {
        "version": 1,
        "party": party,
        "home": "home",
        "store": store,
        "ledger": "sqlite:///ledger.sqlite",
        "models": "models",
        "secret": "keys/noise.secret",
        "signing_key": "keys/signing.key",
        "encryption_key": "keys/encryption.key",
        "tables": {federation: {"train": str(table)}},
    }


def _queries(dataset: Dataset) -> int:
    """Return twice the number of rows in the label holder's tables."""
    tables = (dataset.tables, dataset.new_rows)
    return 2 * sum(frames[dataset.label_holder].height for frames in tables
                   if dataset.label_holder in frames)  # fmt: skip


def policy_data(
    party: str, federation: Mapping[str, Any], capped: bool = True, queries: int = 1_000_000
) -> Any:
    """Return the content of a ``policy.yaml`` that allows only what the federation file declares.

    Args:
        party: The policy's party.
        federation: Content of the federation file.
        capped: Whether its features are capped at the losses of their mechanisms.
        queries: Maximum people that the label holder may query per month; a tenth of the maximum
            in total.
    """
    spec = federation["parties"][party]
    data: dict[str, Any] = {"version": 1, "party": party, "require_encryption": True}
    if spec["role"] == "feature_holder":
        holder = next(n for n, p in federation["parties"].items() if p["role"] == "label_holder")
        key = federation["parties"][holder]["signing_key"]
        data["receivers"] = {holder: {"signing_key": key}}
        data["alignment"] = {
            "seal_everybody": True,
            "max_new_queries": queries,
            "max_queries_total": 10 * queries,
        }
        scoring = Scoring(**federation.get("scoring", {}))
        routed = "routed" in scoring.modes
        data["features"] = {
            name: _rule(feature, routed) for name, feature in spec["features"].items()
        }
        for name, feature in spec["features"].items() if capped else ():
            data["features"][name] |= limits(feature, federation["domain"])
        if routed:
            data["scoring"] = list(scoring.modes)
    return data


def _rule(feature: Mapping[str, Any], routed: bool) -> dict[str, Any]:
    rule: dict[str, Any] = {"mechanisms": _mechanisms(feature)}
    if routed:
        rule["routed"] = "once"
    return rule


def _mechanisms(feature: Mapping[str, Any]) -> list[str]:
    missing = feature.get("missing")
    bit = isinstance(missing, Mapping) and "bit" in missing
    return [feature["mechanism"]["name"], *(["missing_bit"] if bit else [])]


def column_uuid(federation: str, party: str, feature: str) -> str:
    """Return the UUID of a dataset's column."""
    return str(uuid.uuid5(_NAMESPACE, f"{federation}/{party}/{feature}"))


def federation_uuid(federation: str) -> str:
    """Return the UUID of a generated federation."""
    return str(uuid.uuid5(_NAMESPACE, federation))


def federation_terms(purpose: str) -> dict[str, Any]:
    """Return the terms of a generated federation, which allow many runs per month.

    Args:
        purpose: Purpose of the federation.
    """
    return {
        "purpose": purpose,
        "until": "2099-12-31",
        "retention_days": 365,
        "runs_per_month": {"train": 1000, "score": 1000},
    }


def _federation(
    dataset: Dataset,
    public: Mapping[str, Mapping[str, str]],
    epsilon: float | None,
    lower: int | None,
    upper: int | None,
) -> dict[str, Any]:
    mechanism = {"name": "global_map", "epsilon": dataset.epsilon if epsilon is None else epsilon}
    bounds = dataset.domain
    domain = {
        "lower": bounds[0] if lower is None else lower,
        "upper": bounds[1] if upper is None else upper,
    }
    most = domain["upper"] - domain["lower"]
    parties: dict[str, Any] = {}
    for party in dataset.tables:
        holder = party == dataset.label_holder
        entry: dict[str, Any] = {"role": "label_holder" if holder else "feature_holder"}
        entry |= public[party]
        if holder:
            entry["label"] = dict(dataset.label)
        entry["features"] = {
            name: {
                "uuid": column_uuid(dataset.name, party, name),
                **_with_edges(feature, most),
                **({} if holder else {"mechanism": _mechanism(feature, mechanism)}),
            }
            for name, feature in dataset.features[party].items()
        }
        parties[party] = entry
    return {
        "version": 1,
        "name": dataset.name,
        "uuid": federation_uuid(dataset.name),
        "terms": federation_terms(f"Demonstrate training on {dataset.name}"),
        "learning": "vertical",
        "id": {"column": ID, "type": "string"},
        "domain": domain,
        "parties": parties,
    }


def _with_edges(feature: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Return the feature with at most as many edges as a smaller domain takes, evenly chosen."""
    scale = feature.get("scale")
    if not isinstance(scale, Mapping) or not 0 < most < len(edges := scale["edges"]):
        return dict(feature)
    picked = [edges[(2 * at + 1) * len(edges) // (2 * most)] for at in range(most)]
    return {**feature, "scale": {"edges": picked}}


def _mechanism(feature: Mapping[str, Any], mechanism: Mapping[str, Any]) -> dict[str, Any]:
    if "mechanism" in feature:
        return dict(feature["mechanism"])
    if feature.get("type") == "nominal":
        return {"name": "unary", "epsilon": mechanism["epsilon"]}
    return dict(mechanism)


def seeded_secret(seed: int | None, federation: str, what: str) -> bytes | None:
    """Derive 32 bytes for one use from a seed; return None without a seed."""
    if seed is None:
        return None
    return hashlib.sha256(f"{seed}/{federation}/{what}".encode()).digest()


def make_private(folder: Path) -> None:
    """Make a site folder and its files accessible to their own user only."""
    folder.chmod(0o700)
    for path in folder.iterdir():
        path.chmod(0o700 if path.is_dir() else 0o600)


def dump(path: Path, data: Any) -> None:
    """Write YAML, with keys in their order."""
    replace_text(path, yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
