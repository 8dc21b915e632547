"""Reading the three files: all faults at once, each with its place and a suggestion."""

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from opboost_ops.config.alignment_faults import new_alignment_faults
from opboost_ops.config.channel_files import read_tables
from opboost_ops.config.fault_groups import grouped
from opboost_ops.config.faults import federation_faults
from opboost_ops.config.federation import Federation
from opboost_ops.config.key_sources import AIRFLOW, in_a_file
from opboost_ops.config.offer import Offer
from opboost_ops.config.parameters import not_of_trainer
from opboost_ops.config.policy import Policy
from opboost_ops.config.policy_faults import policy_faults
from opboost_ops.config.removed_keys import split_removed
from opboost_ops.config.renamed_keys import with_new_names
from opboost_ops.config.site import Site
from opboost_ops.config.source import ENVIRONMENT, Source
from opboost_ops.config.yaml_text import read_yaml
from opboost_ops.errors import ConfigError, Fault, OpBoostError

POLICY = "policy.yaml"

#: Where a thread's parties have their sites, where it is not the environment that says so.
_KNOWN: ContextVar[Mapping[str, str] | None] = ContextVar("opboost sites", default=None)

_Model = TypeVar("_Model", bound=BaseModel)


def load_federation(path: Path) -> Federation:
    """Read ``federation.yaml``.

    Raises:
        ConfigError: With all its faults.
    """
    data = read_yaml(path)
    return parse_federation(data, path.name, known=read_tables(data, path.parent))


def parse_federation(
    data: Any, file: str, *, stored: bool = False, known: Sequence[Fault] = ()
) -> Federation:
    """Validate a federation file's content.

    Args:
        data: As read from YAML or JSON.
        file: Its name, for the error.
        stored: It lies with a model version or is only shown: nothing is released by it, so its
            domain may be larger than is allowed now.
        known: Faults that are known already, told with the others.

    Raises:
        ConfigError: With all its faults.
    """
    more = federation_faults if stored else _new_faults
    return _parse(Federation, data, file, more, known, stored).with_shared_features()


def _new_faults(federation: Federation) -> Iterator[Fault]:
    if excess := federation.domain.to_domain().excess(federation.most_values):
        yield Fault("domain", excess, "bring lower and upper nearer to each other and to zero")
    yield from new_alignment_faults(federation)
    yield from federation_faults(federation)


def load_site(path: Path, folder: Path | None = None) -> Site:
    """Read ``site.yaml``; its relative paths start at its own folder.

    Args:
        path: The file.
        folder: Where relative paths start instead, for a file that is on its way there.

    Raises:
        ConfigError: With all its faults.
    """
    site = _parse(Site, read_yaml(path), path.name, lambda _: iter(()))
    folder = (folder or path.parent).resolve()
    keys = ("secret", "signing_key", "encryption_key", "alignment_key", "serve_token")
    paths = ("home", "cells", "agreement", "models", "scores", *keys)
    update: dict[str, Any] = {
        name: folder / getattr(site, name) for name in paths if in_a_file(getattr(site, name))
    }
    if site.cells_key is not None:
        update["cells_key"] = folder / site.cells_key
    elsewhere = "://" in site.store or site.store.startswith((ENVIRONMENT, AIRFLOW))
    update["store"] = site.store if elsewhere else str(folder / site.store)
    prefix = "sqlite:///"
    if site.ledger.startswith(prefix) and not site.ledger.startswith(prefix + "/"):
        update["ledger"] = f"{prefix}{folder / site.ledger.removeprefix(prefix)}"
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
        ConfigError: With all its faults.
    """
    return _parse(Policy, read_yaml(path), path.name, policy_faults)


def load_offer(path: Path) -> Offer:
    """Read a party's offer.

    Raises:
        ConfigError: With all its faults.
    """
    return _parse(Offer, read_yaml(path), path.name, lambda _: iter(()))


@contextmanager
def sites_known(files: Mapping[str, Path]) -> Iterator[None]:
    """Let this thread know parties' sites, and no others, whatever the environment names.

    Parties of one name in several federations may so take part in one process.

    Args:
        files: ``site.yaml`` by party.
    """
    token = _KNOWN.set({_variable(party): str(path) for party, path in files.items()})
    try:
        yield
    finally:
        _KNOWN.reset(token)


def site_of(party: str, environ: Mapping[str, str] | None = None) -> tuple[Site, Policy]:
    """A party's site and policy, as this process's environment names them.

    Args:
        party: Its name.
        environ: Where ``OPBOOST_SITE_<PARTY>`` is looked up; what `sites_known` says, or else the
            process's environment, when absent.

    Raises:
        ConfigError: This process is not one of that party's.
    """
    path = site_file(party, environ)
    site, policy = load_site(path), load_policy(path.parent / POLICY)
    for found, file in ((site.party, path.name), (policy.party, POLICY)):
        if found != party:
            raise ConfigError(
                f"{file} found by {_variable(party)} is of {found}, not of {party}.",
                "Point the variable at the right file.",
            )
    return site, policy


def site_file(party: str, environ: Mapping[str, str] | None = None) -> Path:
    """Where a party's ``site.yaml`` lies, as this process's environment says.

    Args:
        party: Its name.
        environ: As of `site_of`.

    Raises:
        ConfigError: This process is not one of that party's.
    """
    variable = _variable(party)
    if environ is None:
        known = _KNOWN.get()
        environ = os.environ if known is None else known
    if not environ.get(variable):
        raise ConfigError(
            f"{variable} is not set: this worker is not one of {party}'s.",
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
    known: Sequence[Fault] = (),
    stored: bool = False,
) -> _Model:
    faults: list[Fault] = []
    parsed: _Model | None = None
    if not isinstance(data, dict):
        faults.append(Fault("", "the file holds no mapping of keys to values"))
    elif isinstance(data.get("version"), bool):
        # In Python, true is 1.
        faults.append(Fault("version", "is true or false, where a number is needed", "write 1"))
    else:
        data = with_new_names(model.__name__, data, file)
        data, removed = split_removed(model.__name__, data)
        parsed, faults = _validated(model, data, stored)
        if parsed is None and model is Federation and isinstance(data.get("training"), dict):
            faults += _beside_training(data, faults)
        faults += [] if stored else removed
    if parsed is not None:
        faults += more(parsed)
    places = {fault.where for fault in known}
    faults = [*known, *(fault for fault in faults if fault.where not in places)]
    if faults or parsed is None:
        unique = tuple(grouped(dict.fromkeys(faults)))
        count = "1 fault" if len(unique) == 1 else f"{len(unique)} faults"
        raise ConfigError(count, file=file, faults=unique)
    return parsed


def _validated(
    model: type[_Model], data: dict[str, Any], stored: bool
) -> tuple[_Model | None, list[Fault]]:
    """The model, where the entries that it knows make one, and what is wrong with the others.

    Entries that it does not know are taken out, so that what is wrong with the rest is named at
    once. What lies with a model version may have entries of an older release.
    """
    faults: list[Fault] = []
    while True:
        try:
            return model.model_validate(data), faults
        except ValidationError as error:
            found = error.errors(include_url=False)
        except OpBoostError as error:
            return None, [*faults, Fault("", error.problem, error.remedy)]
        unknown = [one for one in found if one["type"] == "extra_forbidden"]
        if not unknown:
            return None, [*faults, *_faults(model, data, found)]
        # Whatever else is wrong is found again without them.
        faults += [] if stored else _faults(model, data, unknown)
        for one in unknown:
            data = _without(data, [*_steps(data, one)])


def _beside_training(data: dict[str, Any], faults: Sequence[Fault]) -> list[Fault]:
    """What is wrong with the rest of a federation whose ``training`` alone has no right form."""
    trainer = data["training"].get("trainer", "lightgbm")
    least: dict[str, Any] = {"trainer": trainer}
    least |= {"dpboost": {"private": {"epsilon": 1.0}}}.get(str(trainer), {})
    if any(not fault.where.startswith("training") for fault in faults):
        return []
    parsed, _ = _validated(Federation, {**data, "training": least}, stored=True)
    found = federation_faults(parsed) if parsed is not None else ()
    return [fault for fault in found if not fault.where.startswith("training")]


def _without(data: Any, steps: list[Any]) -> Any:
    first, *rest = steps
    if isinstance(data, list):
        return [_without(v, rest) if at == first else v for at, v in enumerate(data)]
    if rest:
        return {**data, first: _without(data[first], rest)}
    return {name: value for name, value in data.items() if name != first}


def _faults(model: type[BaseModel], data: Any, errors: Sequence[Any]) -> list[Fault]:
    """One fault a place: of what might stand there, each has its own words for what does."""
    faults: dict[tuple[str, bool], Fault] = {}
    for one in errors:
        # A mapping where a word may stand, too: what is wrong inside it is named.
        if one["type"] == "literal_error" and isinstance(one["input"], dict) and len(errors) > 1:
            continue
        fault = _fault(model, data, one)
        kind = one["type"].endswith(("_type", "_parsing"))
        faults.setdefault((fault.where, kind) if kind else (str(fault), kind), fault)
    return list(faults.values())


def _steps(data: Any, error: Any) -> Iterator[Any]:
    """Where an error is: pydantic's places name union members too; only what is there is kept."""
    inside = data
    last = len(error["loc"]) - 1
    for at, step in enumerate(error["loc"]):
        absent = error["type"] == "missing" and at == last
        if isinstance(inside, dict) and (step in inside or absent):
            yield step
            inside = inside.get(step)
        elif isinstance(inside, list) and isinstance(step, int) and step < len(inside):
            yield step
            inside = inside[step]


def _fault(model: type[BaseModel], data: Any, error: Any) -> Fault:
    where = [str(step) for step in _steps(data, error)]
    problem = error["msg"].removeprefix("Value error, ")
    suggestion = ""
    if error["type"] == "extra_forbidden":
        problem = "is not a known key"
        known = _known_keys(model, error["loc"][:-1])
        if model is Federation and len(where) == 2 and where[0] == "training":
            trainer = str(error["loc"][1])
            return Fault(".".join(where), *not_of_trainer(trainer, where[1], known))
        if error["loc"][0] == "features" and where[-1] in ("mechanism", "epsilons", "bit"):
            return Fault(".".join(where), "is not for horizontal learning, where no cell leaves",
                         "take it out")  # fmt: skip
        near = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
        suggestion = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    elif error["type"] == "missing":
        problem = "is required"
    elif error["type"] == "string_pattern_mismatch":
        problem = f"does not have the form {error['ctx']['pattern']}"
    elif error["type"] in _NEEDS:
        problem, suggestion = _of_type(error["type"], error["input"])
    elif error["type"] == "literal_error" and isinstance(error["input"], str):
        suggestion = _closest(error["input"], error["ctx"]["expected"])
    elif error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        what = "trainer" if where == ["training"] else "mechanism"
        where.append("trainer" if what == "trainer" else "name")
        problem = "is required"
        if error["type"] == "union_tag_invalid":
            problem = f"names no {what}"
            suggestion = _closest(error["ctx"]["tag"], error["ctx"]["expected_tags"])
    return Fault(".".join(where), problem, suggestion)


_NEEDS = {
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "a text",
}


def _of_type(kind: str, found: Any) -> tuple[str, str]:
    """What stands where something of another type is needed, and what to write; not the value."""
    named = {bool: "true or false", int: "a number", float: "a number", str: "a text"}
    named |= {dict: "a mapping", list: "a list", type(None): "empty"}
    what, needed = named.get(type(found), "a date"), _NEEDS[kind]
    if isinstance(found, float) and kind == "int_type":
        return "must be a whole number", "without a point"
    problem = f"is {what}, where {needed} is needed"
    if isinstance(found, str) and re.fullmatch(r"[-+]?[0-9.]+[eE][-+]?[0-9]+", found):
        return problem, "in YAML such a number has a point and a sign: 1.0e-6"
    if isinstance(found, str):
        return problem, "write it without quotes"
    # YAML takes yes, no, on, off, 12 and 2020-01-01 without quotes for something else.
    quoted = kind == "string_type" and not isinstance(found, dict | list | None)
    return problem, "put it in quotes" if quoted else ""


def _known_keys(model: type[BaseModel], steps: tuple[Any, ...]) -> list[str]:
    models = [model]
    for step in steps:
        inner = [m.model_fields[step].annotation for m in models if step in m.model_fields]
        tagged = [m for m in models if _tag(m) == step]
        if inner:
            models = [m for annotation in inner for m in _models_in(annotation)]
        elif tagged:
            models = tagged
    return sorted({name for m in models for name in m.model_fields})


def _tag(model: type[BaseModel]) -> Any:
    named = model.model_fields.get("name") or model.model_fields.get("trainer")
    return next(iter(get_args(named.annotation)), None) if named else None


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for inner in get_args(annotation) for m in _models_in(inner)]


def _closest(given: str, expected: str) -> str:
    known = expected.replace("'", "").replace(" or ", ", ").split(", ")
    near = difflib.get_close_matches(given, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
