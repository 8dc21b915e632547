"""Report changes of a party's table since the last look: assets do not watch files."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from opboost_ops.config.federation import IdColumn, Purpose
from opboost_ops.config.loading import site_of
from opboost_ops.config.source import Source
from opboost_ops.errors import ContractError, PolicyError
from opboost_ops.exchange.party_state import agreements_of, open_state
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.party import clock
from opboost_ops.pipeline.party.taking_part import require_taking_part
from opboost_ops.pipeline.runner.disclosures import enter, name_of
from opboost_ops.pipeline.stage import COPY, Home, table_of
from opboost_ops.tables.column_types import Expected
from opboost_ops.tables.content import content_fingerprint
from opboost_ops.tables.copies import copy
from opboost_ops.tables.parquet import files_of
from opboost_ops.tables.people import people_of
from opboost_ops.tables.spill.files import working_folder

_SEEN: dict[Purpose, str] = {"train": "table_version", "score": "new_rows_version"}

DISCLOSES = (
    "that other people are in the party's table than at the last look, or that another year has "
    "begun (a bit per look); of the label holder's table, also that a declared column has changed"
)


def changed(party: str, federation: str, look: str, purpose: Purpose = "train") -> bool:
    """Compare the table's keyed fingerprint with that of the last look.

    A feature holder's follows from its IDs and the calendar year alone, so that no value of a
    person decides when a run starts. Another party's follows from all columns that it has agreed
    to use. How, in which order and in how many files the table is written changes nothing.

    Args:
        party: Whose table.
        federation: Name of the federation.
        look: Name of this look: a retry of the same one gives the same answer.
        purpose: The training table, or that of new rows; where a party has none of the latter,
            it has not changed.

    Raises:
        ConfigError: ``site.yaml`` names no table for the federation.
        ContractError: The table cannot be read.
        PolicyError: The party has agreed to nothing in the federation, or has withdrawn it, or has
            stopped taking part.
    """
    site, policy = site_of(party)
    tables = site.tables.get(federation)
    if purpose == "score" and (tables is None or tables.score is None):
        return False
    agreed = agreements_of(site).newest(federation)
    if agreed is None:
        # Whether a table has changed is told too, and no plan is needed to ask.
        raise PolicyError(
            f"{party} has not agreed to {federation}.",
            "Its own people may: `opboost agree SITE FEDERATION`.",
        )
    require_taking_part(site, federation)
    key = noise.keyed_by(site.noise_secret(), ":table")
    identity, names = _compared_columns(agreed.content["federation"], party, purpose)
    wanted = [policy.raw_column(name, identity.column) for name in names]
    path = table_of(site, federation, identity, purpose)
    home = Home(site.home / federation)
    fingerprint: str | None = None
    if isinstance(path, Source):
        with working_folder(home.folder, ".look-") as folder:
            looked = folder / COPY
            people = people_of(site, policy, federation, identity)
            columns = {raw: Expected(name, "text") for name, raw in people.parts.items()}
            copy(path, party, looked, columns, people)
            fingerprint = content_fingerprint((looked,), wanted, key)
    else:
        with suppress(OSError):
            if files := files_of(path):
                fingerprint = content_fingerprint(files, wanted, key)
    if fingerprint is None:
        raise ContractError(
            f"The table of {party} cannot be read.",
            "Check tables in its site.yaml, and the job that writes what it names.",
        )
    if agreed.content["federation"]["parties"][party]["role"] == "feature_holder":
        fingerprint = f"{clock.today().year}:{fingerprint}"
    name = _SEEN[purpose]
    last = home.json(name) if home.has(name) else {}
    if last.get("fingerprint") == fingerprint:
        return bool(last.get("look") == look)
    with open_state(site) as state:
        artifact_name = name_of(f"{federation}/{party}/{look}/{name}")
        enter(state, party, federation, "look_at_table", artifact_name, DISCLOSES)
    home.write_json(name, {"fingerprint": fingerprint, "look": look})
    return True


def _compared_columns(
    declared: Mapping[str, Any], party: str, purpose: Purpose
) -> tuple[IdColumn, list[str]]:
    """The ID, and the declared names of the columns that are compared."""
    own = declared["parties"].get(party, {})
    identity = IdColumn.model_validate(declared["id"])
    if own.get("role") == "feature_holder":
        return identity, [identity.column]
    names = [identity.column, *own.get("features", ())]
    if purpose == "train":
        label = own.get("label")
        names += [str(label["column"])] if label else []
    return identity, list(dict.fromkeys(names))
