"""Admin actions of a person at one party: promote, roll back, stop taking part, resume.

Each is an entry of the party's own audit log with who, when and why; asked through Airflow or at
home, it is the same. Who asked is what Airflow says, which the party cannot verify: its policy
decides what may be asked that way. A party that has stopped refuses every plan of the federation,
also of runs under way, until it resumes. What was stopped at home is resumed at home only.
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

#: What others learn of it; a promotion at home tells nobody anything.
_TELLS: dict[Action, str] = {
    "promoted": "which version is champion, and that a person decided it",
    "rolled_back": "which version is champion, and that a person decided it",
    "stopped": "that the party takes part in no run of the federation from now on",
    "resumed": "that the party takes part in runs of the federation again",
}

_REFUSED: Action = "act_refused"

#: Most letters of a name that Airflow gives.
_LONGEST = 100


class Form(Record):
    """A request by a form of Airflow's to a party.

    Attributes:
        act: What.
        version: Which version, for those acts that need one.
        reason: Why.
    """

    act: AdminAction
    version: str | None = None
    reason: Reason


@dataclass(frozen=True)
class ActionRequest:
    """A request to a party.

    Attributes:
        act: What.
        why: The reason.
        who: The person, as far as it is known.
        version: Which version, for those acts that need one.
        run: OpBoost's id of the run of Airflow's by which it is asked; empty at home.
    """

    act: AdminAction
    why: str
    who: str
    version: str | None = None
    run: str = ""


def from_airflow(
    party: str, federation: str, run: str, who: str | None, entries: Mapping[str, Any]
) -> dict[str, str]:
    """Do what a form of Airflow's asks of a party, once for each run.

    That the run acted or was refused before is read from the party's audit log alone. The task of
    such a run is skipped: it neither acts a second time nor succeeds without acting, and whoever
    clears a refused run does not act in the name of the person who triggered it.

    Args:
        party: Whose.
        federation: Name of the federation.
        run: OpBoost's id of the run that asks.
        who: The user who has triggered it, as Airflow says.
        entries: The form's fields; see `Form`.

    Returns:
        A summary that anybody may see; the reason is not in it. ``skip`` where the run has acted
        before.

    Raises:
        ConfigError: The form asks for what there is not.
        PolicyError: The party's policy allows no such act through Airflow.
        ContractError: There is no such version, or it cannot be put into use.
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
    """Do what was requested, and log it, or that it was refused, in the party's state.

    Args:
        site: The party's.
        federation: Name of the federation.
        request: What.
        allowed: What may be asked; everything when absent.

    Returns:
        The version that is champion now; empty where none was asked for.

    Raises:
        ConfigError: A version is missing, or the party has no part in the federation.
        PolicyError: It is not allowed.
        ContractError: There is no such version, or it cannot be put into use.
    """
    place = _place(federation, request)
    try:
        if allowed is not None and request.act not in allowed:
            raise PolicyError(
                f"The policy of {site.party} does not allow {request.act} through Airflow.",
                "The party can do it at home, or allow it with `acts` in policy.yaml.",
            )
        # Nobody else writes meanwhile: nothing is done that the log does not get.
        with open_state(site) as state, state.together():
            version = _done(state, site, federation, request)
            action = _ACTIONS[request.act]
            named = f"version {version}: " if version else ""
            detail = f"{request.who}: {named}{request.why}"
            # Its place in the chain is a name that nothing else has.
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
    # What was typed may be a reason in somebody's own words: it is not repeated.
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
    # A stop at home outranks one through Airflow: from then on it ends at home only.
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
        # A damaged one is not put into use.
        registry.files(request.version)
    elif request.run or request.act == "promote":
        raise ConfigError("No version is named.", "Name one: the models page shows all.")
    if request.act == "promote":
        assert request.version is not None
        registry.promote(request.version, request.why)
        return request.version
    return registry.rollback(request.why, request.version)
