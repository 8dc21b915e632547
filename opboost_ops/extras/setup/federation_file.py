"""``federation.yaml`` from the parties' offers: what `opboost federate` writes."""

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

#: What a party's entry keeps from the file that is there, since no offer says it.
_KEPT = ("queue", "signing_key_from", "signing_key_expires",
         "former_keys", "revoked_keys")  # fmt: skip


#: Days for which parties agree, and receivers keep what they get, unless the file is changed.
_TERM = 365


@dataclass(frozen=True)
class Federated:
    """A federation file that has been written.

    Attributes:
        file: The ``federation.yaml``.
        label_holder: Who has the label.
        fingerprints: Of each party's public keys.
        joined: Parties that the file before it had not.
        left: Parties that have left.
    """

    file: Path
    label_holder: str
    fingerprints: Mapping[str, str]
    joined: tuple[str, ...]
    left: tuple[str, ...]


def federate(offers: Sequence[Path], file: Path) -> Federated:
    """Write a federation file of the parties that offer.

    A file that is there keeps what no offer says, such as training, scoring, schedule, queues and
    keys that were renewed since; its parties become those of the offers.

    Args:
        offers: The parties' offers, or the folders of parties that are here. What their offers
            still leave blank is taken from their ``bounds.csv``.
        file: The ``federation.yaml``.

    Raises:
        ConfigError: With all faults of the offers, or of the federation that they make; nothing
            was written.
    """
    offers = [_offer_in(path) for path in offers]
    offered = [load_offer(path) for path in offers]
    contents = {offer.party: read_yaml(path) for offer, path in zip(offered, offers, strict=True)}
    faults = list(_faults(offered))
    before: dict[str, Any] = read_yaml(file) if file.exists() else {}
    if before and before.get("name") != offered[0].federation:
        problem = f"is {before.get('name')}, and the offers are for {offered[0].federation}"
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
    """An offer, where it or the party's folder is named, whose bounds.csv it then takes in."""
    if not path.is_dir():
        return path
    offers = sorted(path.glob("*-offer.yaml"))
    if len(offers) != 1:
        there = f"has {len(offers)} offers" if offers else "has no offer"
        raise ConfigError(f"The folder {path} {there}.", "Name the file: <party>-offer.yaml.")
    table = path / TEMPLATE
    if table.is_file() and is_wanted(table, offers[0]):
        take_in(path)
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
        who = f"{' and '.join(holders)} offer one" if holders else "no offer has one"
        needs = "one party names its column to `opboost init` by --label"
        yield Fault("label", who, needs)
    if len({len(offer.id.columns) for offer in offers}) > 1:
        needs = "name as many columns to `opboost init --id` at all parties, in the same order"
        yield Fault("id", "is made of more columns in one table than in another", needs)
    if not set.intersection(*(set(offer.id.types) for offer in offers)):
        needs = "convert one of them; all parties need the same type"
        yield Fault("id", "it is an integer in one table and a string in another", needs)


def _id_entry(before: Mapping[str, Any], offered: dict[str, Any]) -> dict[str, Any]:
    """How persons are named: as offered, or by the recipe that is there."""
    if before.get("columns"):
        return dict(before)
    return offered | {key: before[key] for key in ("normalise",) if key in before}


def _party_entry(offer: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """A party's entry: what it offers, and of the one before what offers do not say."""
    entry: dict[str, Any] = {
        "role": "label_holder" if "label" in offer else "feature_holder",
        "signing_key": offer["signing_key"],
        "encryption_key": offer["encryption_key"],
        **{key: before[key] for key in _KEPT if key in before},
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
    """Private edges that stand in a declared file now.

    Attributes:
        file: The file.
        party: Whose table they were drawn from.
        federation: As it is declared with them.
        columns: By feature.
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
    """Draw edges from a party's table and write them where its columns are declared.

    Args:
        folder: Of the party's ``site.yaml``.
        epsilon: Of each column.
        columns: How many cells, by feature; when absent, as many as the domain has values for
            every numeric column that is not declared boolean.
        federation: The ``federation.yaml``; the party's offer when absent, and where it has none
            the file beside its folder.
        number: Of the draw, from 1.

    Raises:
        OpBoostError: As `pipeline.party.private_edges.draw_edges`; nothing was drawn or written.
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


def take_in(folder: Path) -> FilledIn:
    """Write a party's filled-in ``bounds.csv`` into its offer, and draw the edges that it asks for.

    Args:
        folder: Of the party's ``site.yaml``.

    Raises:
        OpBoostError: The table has faults; or edges are refused. Those of another epsilon may be
            drawn by then: asked for again, they are the same and cost nothing.
    """
    offer = offer_file(folder, load_site(folder / "site.yaml").party)

    def written_first(features: Mapping[str, Any], few: Sequence[str]) -> None:
        # The policy: a change of the offer alone would be none the next time.
        if few:
            allow(folder, features, few)

    filled = fill_in(folder / TEMPLATE, offer, written_first)
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
            f"{folder} has no {offer.name}, and {file} is not there.",
            "Name the federation file by --federation.",
        )
    return file, load_federation(file)


def _of_offer(path: Path) -> Federation:
    """An offer's declarations, as the federation that it will be part of sees them."""
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
            # Made by `federate`; no edge depends on them.
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
