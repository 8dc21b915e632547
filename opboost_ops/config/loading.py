"""Reads the declared files, and reports all their faults at once, with places and suggestions."""

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from opboost_ops.config.agreement import inline_tables
from opboost_ops.config.documents import read_yaml
from opboost_ops.config.faults.federation import federation_faults, policy_faults
from opboost_ops.config.faults.validation import entry_faults, location_in, merge_similar
from opboost_ops.config.federation import Federation, Offer
from opboost_ops.config.key_sources import AIRFLOW, is_file_entry
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.config.source import Source, below
from opboost_ops.errors import ConfigError, Fault, OpBoostError, require_none

POLICY = "policy.yaml"

#: Sites that override the environment in this context.
_SITES: ContextVar[Mapping[str, str] | None] = ContextVar("opboost sites", default=None)

_Model = TypeVar("_Model", bound=BaseModel)


def load_federation(path: Path, content: Any = None) -> Federation:
    """Read ``federation.yaml``.

    Args:
        path: The file.
        content: Content that is about to be written to it; not modified. By default the file's.

    Raises:
        ConfigError: Lists all its faults.
    """
    data = read_yaml(path) if content is None else copy.deepcopy(content)
    return parse_federation(data, path.name, earlier=inline_tables(data, path.parent))


def parse_federation(data: Any, file: str, *, earlier: Sequence[Fault] = ()) -> Federation:
    """Validate a federation file's content.

    Args:
        data: Content parsed from YAML or JSON.
        file: Name of the file, for errors.
        earlier: Known faults, to be reported with the others.

    Raises:
        ConfigError: Lists all its faults.
    """
    return _parse(Federation, data, file, _federation_faults, earlier).with_shared_features()


def _federation_faults(federation: Federation) -> Iterator[Fault]:
    for where, domain in federation.domains.items():
        if problem := domain.size_problem(federation.max_values):
            yield Fault(where, problem, "reduce the domain, or move it closer to zero")
    yield from federation_faults(federation)


def load_site(path: Path, folder: Path | None = None) -> Site:
    """Read ``site.yaml``; relative paths are resolved against its folder.

    Args:
        path: The file.
        folder: Resolve relative paths against this folder, for a file that will be moved there.

    Raises:
        ConfigError: Lists all its faults.
    """
    site = _parse(Site, read_yaml(path), path.name, lambda _: iter(()))
    folder = (folder or path.parent).resolve()
    keys = ("secret", "signing_key", "encryption_key", "alignment_key", "serve_token")
    paths = ("home", "pins", "models", "scores", *keys)
    update: dict[str, Any] = {
        name: folder / getattr(site, name) for name in paths if is_file_entry(getattr(site, name))
    }
    update["ledger"] = below(folder, site.ledger)
    update["store"] = site.store if site.store.startswith(AIRFLOW) else below(folder, site.store)
    update["tables"] = {
        name: tables.model_copy(
            update={
                "train": _below(folder, tables.train),
                "score": tables.score and _below(folder, tables.score),
                "scores_to": tables.scores_to and tables.scores_to.below(folder),
                "models_to": tables.models_to and tables.models_to.below(folder),
            }
        )
        for name, tables in site.tables.items()
    }
    return site.model_copy(update=update)


def _below(folder: Path, table: Path | Source) -> Path | Source:
    return table.below(folder) if isinstance(table, Source) else folder / table


def load_policy(path: Path) -> Policy:
    """Read ``policy.yaml``.

    Raises:
        ConfigError: Lists all its faults.
    """
    return _parse(Policy, read_yaml(path), path.name, policy_faults)


def load_offer(path: Path) -> Offer:
    """Read a party's offer.

    Raises:
        ConfigError: Lists all its faults.
    """
    return _parse(Offer, read_yaml(path), path.name, lambda _: iter(()))


@contextmanager
def use_sites(files: Mapping[str, Path]) -> Iterator[None]:
    """Use these sites in this context, instead of those that the environment names.

    Lets one process run parties with equal names in several federations.

    Args:
        files: ``site.yaml`` by party.
    """
    token = _SITES.set({_variable(party): str(path) for party, path in files.items()})
    try:
        yield
    finally:
        _SITES.reset(token)


def load_party(site_file: Path) -> tuple[Site, Policy]:
    """Read a party's ``site.yaml``, and the ``policy.yaml`` next to it.

    Raises:
        ConfigError: Lists all faults of one of them.
    """
    return load_site(site_file), load_policy(site_file.parent / POLICY)


def site_of(party: str, environ: Mapping[str, str] | None = None) -> tuple[Site, Policy]:
    """Return a party's site and policy from the file that the environment names.

    Args:
        party: Name of the party.
        environ: Mapping with ``OPBOOST_SITE_<PARTY>``; by default the sites of `use_sites`, or else
            the process's environment.

    Raises:
        ConfigError: This process does not belong to the party.
    """
    path = site_file(party, environ)
    site, policy = load_party(path)
    for owner, file in ((site.party, path.name), (policy.party, POLICY)):
        if owner != party:
            raise ConfigError(
                f"{_variable(party)} names a {file} of {owner}, not of {party}.",
                "Point the variable at the right file.",
            )
    return site, policy


def site_file(party: str, environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of a party's ``site.yaml`` from the environment.

    Args:
        party: Name of the party.
        environ: As for `site_of`.

    Raises:
        ConfigError: This process does not belong to the party.
    """
    variable = _variable(party)
    if environ is None:
        sites = _SITES.get()
        environ = os.environ if sites is None else sites
    if not environ.get(variable):
        raise ConfigError(
            f"{variable} is not set: this process does not belong to {party}.",
            "Set it to the path of that party's site.yaml, on that party's workers only.",
        )
    return Path(environ[variable])


def _variable(party: str) -> str:
    return f"OPBOOST_SITE_{party.upper()}"


def _parse(
    model: type[_Model],
    data: Any,
    file: str,
    more: Callable[[_Model], Iterator[Fault]],
    earlier: Sequence[Fault] = (),
) -> _Model:
    faults: list[Fault] = []
    parsed: _Model | None = None
    if not isinstance(data, dict):
        faults.append(Fault("", "the file is not a mapping of keys to values"))
    elif isinstance(data.get("version"), bool):
        # In Python, True equals 1.
        faults.append(Fault("version", "is true or false, where a number is needed", "write 1"))
    else:
        parsed, faults = _validated(model, data)
        if parsed is None and model is Federation and isinstance(data.get("training"), dict):
            faults += _faults_outside_training(data, faults)
    if parsed is not None:
        faults += more(parsed)
    places = {fault.where for fault in earlier}
    faults = [*earlier, *(fault for fault in faults if fault.where not in places)]
    require_none(merge_similar(dict.fromkeys(faults)), file)
    assert parsed is not None
    return parsed


def _validated(model: type[_Model], data: dict[str, Any]) -> tuple[_Model | None, list[Fault]]:
    """Validate the known entries, and report the faults of all.

    Unknown entries are removed and validation is repeated, so that all faults are reported at once.
    """
    faults: list[Fault] = []
    while True:
        try:
            return model.model_validate(data), faults
        except ValidationError as error:
            errors = error.errors(include_url=False)
        except OpBoostError as error:
            return None, [*faults, Fault("", error.problem, error.remedy)]
        unknown = [entry for entry in errors if entry["type"] == "extra_forbidden"]
        if not unknown:
            return None, [*faults, *entry_faults(model, data, errors)]
        # Other faults are found again in the next round.
        faults += entry_faults(model, data, unknown)
        for entry in unknown:
            data = _without(data, [*location_in(data, entry)])


def _faults_outside_training(data: dict[str, Any], faults: Sequence[Fault]) -> list[Fault]:
    """Return further faults of a federation in which only ``training`` is malformed."""
    trainer = data["training"].get("trainer", "lightgbm")
    minimal: dict[str, Any] = {"trainer": trainer}
    minimal |= {"dpboost": {"private": {"epsilon": 1.0}}}.get(str(trainer), {})
    if any(not fault.where.startswith("training") for fault in faults):
        return []
    parsed, _ = _validated(Federation, {**data, "training": minimal})
    others = federation_faults(parsed) if parsed is not None else ()
    return [fault for fault in others if not fault.where.startswith("training")]


def _without(data: Any, steps: list[Any]) -> Any:
    first, *rest = steps
    if isinstance(data, list):
        return [_without(v, rest) if at == first else v for at, v in enumerate(data)]
    if rest:
        return {**data, first: _without(data[first], rest)}
    return {name: value for name, value in data.items() if name != first}
