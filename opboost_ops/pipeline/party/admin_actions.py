"""Admin actions of a person at one party: promote, roll back, stop taking part, resume.

Each action is an entry in the party's audit log with the person, the time and the reason, whether
it was requested through Airflow or on the party's own machine ("at home"). The party cannot verify
the user that Airflow names, so its policy lists the actions allowed through Airflow. A stopped
party refuses every plan of the federation, including plans of current runs, until it resumes. A
stop made at home can only be ended at home.
"""

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from opboost_ops.config.loading import site_of
from opboost_ops.config.policy import ADMIN_ACTIONS, REASONS, AdminAction, Reason
from opboost_ops.config.schema import Record
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError, ContractError, OpBoostError, PolicyError
from opboost_ops.exchange.audit import Action, Entry
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.learning.registry.tracking import record_champion
from opboost_ops.pipeline.party.agreement import THROUGH_AIRFLOW, stopped
from opboost_ops.pipeline.runner.disclosures import enter
from opboost_ops.pipeline.stage import SKIP

_ACTIONS: dict[AdminAction, Action] = {
    "promote": "promoted",
    "roll_back": "rolled_back",
    "stop": "stopped",
    "resume": "resumed",
}

#: The disclosure that each action records; a promotion at home discloses nothing.
_TELLS: dict[Action, str] = {
    "promoted": "which version is champion, and that a person decided it",
    "rolled_back": "which version is champion, and that a person decided it",
    "stopped": "that the party takes part in no run of the federation from now on",
    "resumed": "that the party takes part in runs of the federation again",
}

_REFUSED: Action = "act_refused"

#: Maximum characters of a user name from Airflow.
_LONGEST = 100


class Form(Record):
    """A request from an Airflow trigger form.

    Attributes:
        act: The action.
        version: Model version, for actions that need one.
        reason: One of the fixed reasons.
    """

    act: AdminAction
    version: str | None = None
    reason: Reason


@dataclass(frozen=True)
class ActionRequest:
    """A person's request for an admin action.

    Attributes:
        act: The action.
        why: The reason.
        who: The person, as far as known.
        version: Model version, for actions that need one.
        run: OpBoost's ID of the Airflow run that carries the request; empty at home.
    """

    act: AdminAction
    why: str
    who: str
    version: str | None = None
    run: str = ""


def from_airflow(
    party: str, federation: str, run: str, who: str | None, entries: Mapping[str, Any]
) -> dict[str, str]:
    """Perform the action that an Airflow form requests, at most once per run.

    Whether the run has already acted or was refused is read from the party's audit log alone. The
    task of such a run is skipped: it does not act twice, does not succeed without acting, and
    clearing a refused run does not repeat the request in the name of the user who triggered it.

    Args:
        party: The party that acts.
        federation: Name of the federation.
        run: OpBoost's ID of the run.
        who: The user who triggered the run, according to Airflow.
        entries: The form's fields; see `Form`.

    Returns:
        A public summary, without the reason. It has the key ``skip`` if the run has acted before.

    Raises:
        ConfigError: The form is invalid.
        PolicyError: The party's policy does not allow this action through Airflow.
        ContractError: The version does not exist or cannot become champion.
    """
    site, policy = site_of(party)
    form = _form(party, entries)
    named = "".join(c for c in who or "" if c.isprintable())[:_LONGEST] or "somebody"
    request = ActionRequest(
        form.act, form.reason, f"{named}{THROUGH_AIRFLOW}", form.version or None, run
    )
    with open_state(site) as state:
        before = _before(state, federation, request)
    if before is not None:
        what = "was refused" if before.action == _REFUSED else before.action.replace("_", " ")
        return {SKIP: f"this run {what} already, at {before.at}; trigger a new one"}
    do(site, federation, request, policy.acts)
    version = {"version": request.version} if request.version else {}
    return {"act": form.act, "party": party, "run": run, **version}


def do(
    site: Site, federation: str, request: ActionRequest, allowed: Collection[str] | None = None
) -> str:
    """Perform a requested action and log it; log a refused request too.

    Args:
        site: The party's site.
        federation: Name of the federation.
        request: The request.
        allowed: Allowed actions; all if None.

    Returns:
        The version that is now champion; empty for actions without a version.

    Raises:
        ConfigError: The version is missing, or the party is not in the federation.
        PolicyError: The policy does not allow the action.
        ContractError: The version does not exist or cannot become champion.
    """
    place = _place(federation, request)
    try:
        if allowed is not None and request.act not in allowed:
            raise PolicyError(
                f"The policy of {site.party} does not allow {request.act} through Airflow.",
                "The party can do it at home, or allow it with `acts` in policy.yaml.",
            )
        # One transaction: no action without its log entry.
        with open_state(site) as state, state.transaction():
            version = _done(state, site, federation, request)
            action = _ACTIONS[request.act]
            named = f"version {version}: " if version else ""
            detail = f"{request.who}: {named}{request.why}"
            # The entry's position in the hash chain is a unique name.
            name = state.audit.add(action, place, site.party, detail=detail)
            if request.run or not version:
                enter(state, site.party, federation, action, name, _TELLS[action])
    except OpBoostError as error:
        detail = (
            f"{request.who}: {request.act} {request.version or ''}: {request.why}: {error.problem}"
        )
        with open_state(site) as state:
            state.audit.add(_REFUSED, place, site.party, detail=detail)
        raise
    if version:
        record_champion(site, federation)
    return version


def _form(party: str, entries: Mapping[str, Any]) -> Form:
    with contextlib.suppress(ValidationError):
        return Form.model_validate(entries)
    # The typed text may contain a person's own words: do not repeat it.
    raise ConfigError(
        f"The request to {party} is invalid; nothing was done.",
        f"An action is one of {', '.join(ADMIN_ACTIONS)}; a reason one of: {', '.join(REASONS)}.",
    )


def _place(federation: str, request: ActionRequest) -> str:
    return f"{federation}/{request.run or 'home'}/act"


def _before(state: PartyState, federation: str, request: ActionRequest) -> Entry | None:
    place = _place(federation, request)
    entries = state.audit.of(*_ACTIONS.values(), _REFUSED)
    return next((entry for entry in entries if entry.place == place), None)


def _done(state: PartyState, site: Site, federation: str, request: ActionRequest) -> str:
    if request.act in ("promote", "roll_back"):
        return _put_into_use(site, federation, request)
    if federation not in site.tables:
        names = ", ".join(sorted(site.tables)) or "none"
        raise ConfigError(
            f"{site.party} has no part in {federation}.", f"Its federations are: {names}."
        )
    stop = stopped(state, federation)
    if request.act == "resume" and stop is None:
        raise ConfigError(f"{site.party} has not stopped taking part in {federation}.")
    if request.act == "resume" and request.run and stop is not None and stop.at_home:
        raise PolicyError(
            f"{site.party} stopped taking part in {federation} at home.",
            "It resumes at home: `opboost resume SITE FEDERATION`.",
        )
    # A stop at home overrides one through Airflow, and then ends at home only.
    if request.act == "stop" and stop is not None and (request.run or stop.at_home):
        raise ConfigError(
            f"{site.party} had already stopped taking part in {federation}, at {stop.at}.",
            "`opboost resume SITE FEDERATION` lets it take part again.",
        )
    return ""


def _put_into_use(site: Site, federation: str, request: ActionRequest) -> str:
    if not (site.models / federation).is_dir():
        raise ContractError(
            f"{site.party} keeps no models of {federation}.",
            "Act at the label holder, or at a party of horizontal learning.",
        )
    registry = Registry(site.models, federation)
    if request.version is not None:
        if request.version not in registry.versions():
            was = any(entry.version == request.version for entry in registry.history())
            raise ContractError(
                f"{site.party} {'no longer keeps' if was else 'has no'} model version "
                f"{request.version} of {federation}.",
                "The models page and `opboost models list` show those that it keeps.",
            )
        # Raises if the version's files are damaged.
        registry.files(request.version)
    elif request.run or request.act == "promote":
        raise ConfigError("No version is named.", "Name one: the models page shows all.")
    if request.act == "promote":
        assert request.version is not None
        registry.promote(request.version, request.why)
        return request.version
    return registry.rollback(request.why, request.version)
