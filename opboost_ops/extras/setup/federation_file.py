"""``federation.yaml`` from the parties' offers, written by `opboost federate`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from opboost_ops.config.agreement import inline_tables
from opboost_ops.config.documents import read_yaml
from opboost_ops.config.federation import Federation, Offer
from opboost_ops.config.loading import load_federation, load_offer, load_party, load_site
from opboost_ops.config.public_keys import fingerprint
from opboost_ops.errors import ConfigError, Fault, require_none
from opboost_ops.extras.datasets.workspace import dump
from opboost_ops.extras.setup.bounds import DOMAIN, TEMPLATE, FilledIn, fill_in, is_wanted
from opboost_ops.extras.setup.offers import allow, offer_file
from opboost_ops.pipeline.party import clock
from opboost_ops.pipeline.party.party_sites import federation_file
from opboost_ops.pipeline.party.private_edges import PrivateEdges, draw_edges, numeric_features
from opboost_ops.pipeline.stage import Home, PartyContext

#: Keys that a party's entry keeps from an existing file, because offers do not have them.
_RETAINED_KEYS = ("queue", "signing_key_from", "signing_key_expires",
         "former_keys", "revoked_keys")  # fmt: skip


#: Default days of the agreement's term, and of receivers' retention.
_TERM = 365


@dataclass(frozen=True)
class Federated:
    """The result of `federate`.

    Attributes:
        file: The ``federation.yaml``.
        label_holder: The party with the label.
        fingerprints: Fingerprint of each party's public keys.
        joined: Parties that were not in the previous file.
        left: Parties that were only in the previous file.
    """

    file: Path
    label_holder: str
    fingerprints: Mapping[str, str]
    joined: tuple[str, ...]
    left: tuple[str, ...]


def federate(offers: Sequence[Path], file: Path) -> Federated:
    """Write a federation file from the parties' offers.

    An existing file keeps entries that offers do not have, such as training, scoring, schedule,
    queues and renewed keys; its parties are replaced by those of the offers.

    Args:
        offers: The parties' offers, or folders of local parties. Blank entries of their offers
            are filled in from their ``bounds.csv``.
        file: The ``federation.yaml``.

    Raises:
        ConfigError: Lists all faults of the offers, or of the resulting federation; nothing was
            written.
    """
    offers = [_offer_in(path) for path in offers]
    offered = [load_offer(path) for path in offers]
    contents = {offer.party: read_yaml(path) for offer, path in zip(offered, offers, strict=True)}
    faults = list(_faults(offered))
    before: dict[str, Any] = read_yaml(file) if file.exists() else {}
    if before and before.get("name") != offered[0].federation:
        problem = f"is {before.get('name')}, but the offers are for {offered[0].federation}"
        faults.append(Fault(f"{file.name}, name", problem, "name another file by --out"))
    require_none(faults, "offers", effect="; nothing was written")
    holder, label = next((o, o.label) for o in offered if o.label is not None)
    types = set.intersection(*(set(offer.id.types) for offer in offered))
    former: Mapping[str, Any] = before.get("parties", {})
    data = {
        "version": 1,
        "name": holder.federation,
        "uuid": str(uuid4()),
        "terms": {
            "purpose": f"Predict {label.column} for {holder.party}",
            "until": (clock.today() + timedelta(days=_TERM)).isoformat(),
            "retention_days": _TERM,
            "runs_per_month": {"train": 31, "score": 310},
        },
        "learning": "vertical",
        "id": _id_entry(before.get("id", {}), holder.id.entry(types)),
        "domain": dict(DOMAIN),
        "training": {"trees": 80, "learning_rate": 0.1, "depth": 3, "holdout": 0.2},
        **{key: value for key, value in before.items() if key not in ("id", "parties")},
        "parties": {
            party: _party_entry(content, former.get(party, {}))
            for party, content in contents.items()
        },
    }
    load_federation(file, data)
    dump(file, data)
    return Federated(
        file,
        holder.party,
        {
            party: fingerprint(entry["signing_key"], entry["encryption_key"])
            for party, entry in data["parties"].items()
        },
        tuple(party for party in contents if party not in former),
        tuple(party for party in former if party not in contents),
    )


def _offer_in(path: Path) -> Path:
    """Return the path of an offer; given a folder, first fill the offer in from bounds.csv."""
    if not path.is_dir():
        return path
    offers = sorted(path.glob("*-offer.yaml"))
    if len(offers) != 1:
        there = f"has {len(offers)} offers" if offers else "has no offer"
        raise ConfigError(f"The folder {path} {there}.", "Name the file: <party>-offer.yaml.")
    table = path / TEMPLATE
    if table.is_file() and is_wanted(table, offers[0]):
        fill_in_bounds(path)
    return offers[0]


def _faults(offers: Sequence[Offer]) -> Iterator[Fault]:
    parties = [offer.party for offer in offers]
    if len(set(parties)) < max(2, len(parties)):
        needs = "name one offer of each party, and at least two parties"
        yield Fault("party", f"the offers are of {', '.join(parties)}", needs)
    names = sorted({offer.federation for offer in offers})
    if len(names) > 1:
        needs = "agree on one name, and give it to `opboost init` by --name"
        yield Fault("federation", f"the offers are for {' and '.join(names)}", needs)
    holders = [offer.party for offer in offers if offer.label is not None]
    if len(holders) != 1:
        problem = f"{' and '.join(holders)} offer one" if holders else "no offer has one"
        needs = "one party names its column to `opboost init` by --label"
        yield Fault("label", problem, needs)
    if len({len(offer.id.columns) for offer in offers}) > 1:
        needs = "name the same number of columns to `opboost init --id` at all parties"
        yield Fault("id", "is made of more columns in one table than in another", needs)
    if not set.intersection(*(set(offer.id.types) for offer in offers)):
        needs = "convert one of them; all parties need the same type"
        yield Fault("id", "it is an integer in one table and a string in another", needs)


def _id_entry(before: Mapping[str, Any], offered: dict[str, Any]) -> dict[str, Any]:
    """Return the ``id`` entry: that of the previous file if it has several columns."""
    if before.get("columns"):
        return dict(before)
    return offered | {key: before[key] for key in ("normalise",) if key in before}


def _party_entry(offer: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Join a party's offer with the entries of its previous one that offers do not have."""
    entry: dict[str, Any] = {
        "role": "label_holder" if "label" in offer else "feature_holder",
        "signing_key": offer["signing_key"],
        "encryption_key": offer["encryption_key"],
        **{key: before[key] for key in _RETAINED_KEYS if key in before},
    }
    replaced = {former["key"] for former in before.get("former_keys", ())}
    replaced |= set(before.get("revoked_keys", ()))
    for use in ("signing_key", "encryption_key"):
        if entry[use] in replaced:
            entry[use] = before[use]
    if "label" in offer:
        entry["label"] = offer["label"]
    return {**entry, "features": offer.get("features", {})}


@dataclass(frozen=True)
class EdgesWritten:
    """The result of `write_private_edges`.

    Attributes:
        file: The file with the edges.
        party: The party from whose table they were drawn.
        federation: The federation with these edges.
        columns: The edges by feature.
    """

    file: Path
    party: str
    federation: Federation
    columns: Mapping[str, PrivateEdges]


def write_private_edges(
    folder: Path,
    epsilon: float,
    columns: Mapping[str, int] | None = None,
    federation: Path | None = None,
    number: int = 1,
) -> EdgesWritten:
    """Draw edges from a party's table, and write them where its columns are declared.

    Args:
        folder: Folder of the party's ``site.yaml``.
        epsilon: Epsilon of each column.
        columns: Number of cells by feature. Default: the number of values of the domain for every
            numeric column that is not declared boolean.
        federation: The ``federation.yaml``. Default: the party's offer, or without an offer the
            file beside its folder.
        number: Number of the draw, from 1.

    Raises:
        OpBoostError: See `pipeline.party.private_edges.draw_edges`; nothing was drawn or written.
    """
    site, policy = load_party(folder / "site.yaml")
    file, declared = _declared(folder, site.party, federation)
    context = PartyContext(declared, "", site.party, site, policy, Home(site.home))
    if site.party not in declared.parties:
        raise ConfigError(f"{site.party} is not a party of {declared.name}.")
    data = read_yaml(file)
    features = data.get("features") if "parties" not in data else None
    if features is None:
        features = data["parties"][site.party]["features"]
    if columns is None:
        numbers = [n for n in numeric_features(context) if features[n].get("type") != "boolean"]
        declared_features = declared.parties[site.party].features
        columns = {
            name: declared_features[name].domain_in(declared.domain.to_domain()).size
            for name in numbers
        }
    drawn = draw_edges(context, columns, epsilon, number)
    for name, edges in drawn.items():
        features[name]["scale"] = edges.scale
    if "parties" in data:
        load_federation(file, data)
    dump(file, data)
    return EdgesWritten(file, site.party, _declared(folder, site.party, file)[1], drawn)


def fill_in_bounds(folder: Path) -> FilledIn:
    """Write a party's filled-in ``bounds.csv`` into its offer, and draw the requested edges.

    Args:
        folder: Folder of the party's ``site.yaml``.

    Raises:
        OpBoostError: The table has faults, or edges are refused. Edges of another epsilon may
            already be drawn; drawn again, they are the same and cost nothing.
    """
    offer = offer_file(folder, load_site(folder / "site.yaml").party)

    def update_policy(features: Mapping[str, Any], few: Sequence[str]) -> None:
        # Before the offer: if only the offer were written, the next call would find no change.
        if few:
            allow(folder, features, few)

    filled = fill_in(folder / TEMPLATE, offer, update_policy)
    for epsilon in dict.fromkeys(filled.private.values()):
        cells = DOMAIN["upper"] - DOMAIN["lower"] + 1
        columns = {name: cells for name, own in filled.private.items() if own == epsilon}
        write_private_edges(folder, epsilon, columns)
    return filled


def _declared(folder: Path, party: str, named: Path | None) -> tuple[Path, Federation]:
    offer = offer_file(folder, party)
    if named in (None, offer) and offer.is_file():
        return offer, _of_offer(offer)
    file = federation_file(named or folder.resolve().parent)
    if not file.is_file():
        raise ConfigError(
            f"{folder} has no {offer.name}, and {file} does not exist.",
            "Name the federation file by --federation.",
        )
    return file, load_federation(file)


def _of_offer(path: Path) -> Federation:
    """Return a federation with the offer's party only, to draw its edges."""
    offer = load_offer(path)
    party: dict[str, Any] = {
        "role": "feature_holder" if offer.label is None else "label_holder",
        "signing_key": offer.signing_key,
        "encryption_key": offer.encryption_key,
        "features": read_yaml(path)["features"],
    }
    inline_tables({"parties": {offer.party: party}}, path.parent)
    return Federation.model_validate(
        {
            "version": 1,
            # `federate` determines these; no edge depends on them.
            "uuid": str(UUID(int=0)),
            "terms": {
                "purpose": "Draw private edges",
                "until": clock.today().isoformat(),
                "retention_days": 1,
                "runs_per_month": {"train": 1, "score": 1},
            },
            "name": offer.federation,
            "id": offer.id.entry(offer.id.types),
            "domain": DOMAIN,
            "parties": {offer.party: party},
        }
    )
