"""Attacks that a party runs on its own release before it makes it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opboost_ops.config.loading import load_federation, load_party
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.store.store import open_store
from opboost_ops.extras.lab.leakage import Leakage
from opboost_ops.extras.lab.leakage import leakage as attack
from opboost_ops.extras.lab.leakage_report import leakage_report
from opboost_ops.extras.lab.ranking import feature_holder
from opboost_ops.pipeline.inputs.sources import borrowed
from opboost_ops.pipeline.party.party_sites import federation_file, party_site_file, site_variable
from opboost_ops.pipeline.stage import Context, Home


@dataclass(frozen=True)
class Attacked:
    """A release that was attacked, and never made.

    Attributes:
        party: The feature holder.
        found: All attacks.
        picture: An HTML page in the party's home.
    """

    party: str
    found: Leakage
    picture: Path

    def __repr__(self) -> str:
        name, worst = self.found.worst
        return f"Attacked({self.party}: {worst.name} on {name} gains {worst.gain:.3f})"

    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        return {"party": self.party, **self.found.to_json(), "picture": str(self.picture)}


def leakage(federation: str | Path, party: str | None = None) -> Attacked:
    """Attack the release that a party would make now; report and picture stay in its home.

    Args:
        federation: ``federation.yaml``, or its folder.
        party: The feature holder; the only one when absent.

    Raises:
        ConfigError: The party or its site is not known.
        ContractError: Its table does not keep its declaration.
    """
    file = federation_file(Path(federation))
    declared = load_federation(file)
    holder = feature_holder(declared, party)
    site_file = party_site_file(file, holder)
    if site_file is None:
        raise ConfigError(
            f"No site.yaml of {holder} is known.", f"Set {site_variable(holder)} to its path."
        )
    site, policy = load_party(site_file)
    home = Home(site.home / declared.name)
    store = open_store(site.store)
    context = Context(declared, "", holder, site, policy, home, store, "", timeout=0.0)
    with borrowed(context) as lent:
        found = attack(lent)
    home.write_json("leakage", found.to_json())
    picture = home.folder / "leakage.html"
    title = f"Attacks on the release of {holder} in {declared.name}"
    home.write(picture.name, leakage_report(title, found).encode())
    return Attacked(holder, found, picture)
