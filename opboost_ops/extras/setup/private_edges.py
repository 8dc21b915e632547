"""Private edges in a declared file: a party's offer, or the federation file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from opboost_ops.config.channel_files import read_tables
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import load_federation, load_offer, load_party, load_site
from opboost_ops.config.yaml_text import read_yaml
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.store.store import open_store
from opboost_ops.extras.datasets.workspace import dump
from opboost_ops.extras.setup.bounds import DOMAIN, TEMPLATE, FilledIn, fill_in
from opboost_ops.extras.setup.offers import allow, offer_file
from opboost_ops.pipeline.party import clock
from opboost_ops.pipeline.party.party_sites import federation_file
from opboost_ops.pipeline.party.private_edges import PrivateEdges, draw_edges, numeric_features
from opboost_ops.pipeline.stage import Context, Home


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
    store, home = open_store(site.store), Home(site.home)
    context = Context(declared, "", site.party, site, policy, home, store, "", 0.0)
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
    read_tables({"parties": {offer.party: party}}, path.parent)
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
