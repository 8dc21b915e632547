"""Opening of a run: federation file and trigger form become the signed plan."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from opboost_ops.config.agreement import PROTOCOL, digest_of, document
from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import load_federation, site_of
from opboost_ops.config.public_keys import PublicKeys
from opboost_ops.config.site import Site
from opboost_ops.errors import BudgetError, ConfigError, ContractError, OpBoostError
from opboost_ops.exchange.artifact import DOCUMENT, Draft
from opboost_ops.exchange.manifest import reference
from opboost_ops.exchange.party_state import agreements_of, reuse_open_state
from opboost_ops.exchange.plan import Plan, queries_people
from opboost_ops.exchange.sealed import month_keys
from opboost_ops.exchange.store.store import Store, open_store
from opboost_ops.learning import tuning
from opboost_ops.learning.boosters import dask_engine
from opboost_ops.learning.boosters.trainer import MODEL_FORMATS, format_of
from opboost_ops.learning.registry.registry import Registry, backend_in, federation_in
from opboost_ops.pipeline.evaluation.reference import maps, reference_of
from opboost_ops.pipeline.party import clock
from opboost_ops.pipeline.party.admission import Proposal
from opboost_ops.pipeline.party.form_values import asked_for, with_form
from opboost_ops.pipeline.party.inbox import Run, acceptance_of, home_of, keep, note_refused
from opboost_ops.pipeline.party.local_party import LocalParty
from opboost_ops.pipeline.party.trust import pin_store, require_known_store, scored_under
from opboost_ops.pipeline.runner import facts
from opboost_ops.pipeline.runner.preflight import require_ready, together
from opboost_ops.pipeline.runner.publication import publish, signer_of
from opboost_ops.pipeline.stage import SKIP


@reuse_open_state()
def open_run(
    federation_file: Path,
    run: str,
    form: Mapping[str, Any],
    purpose: Purpose = "train",
    also: Sequence[OpBoostError] = (),
) -> dict[str, Any]:
    """Resolve file and form, and publish the plan that all later stages read.

    Args:
        federation_file: Path of ``federation.yaml``.
        run: The run's ID.
        form: Values of the trigger form.
        purpose: The run's purpose.
        also: Other problems that block the run.

    Returns:
        A public summary under 2 KB.

    Raises:
        OpBoostError: Everything that blocks the run, in one error; nothing was published.
        ConfigError: File or form is invalid; lists all faults.
        PolicyError: The label holder has not agreed to the current file.
        ContractError: There is no model to score with, or it does not fit the federation file.
    """
    faults = list(also)
    try:
        party, resolution = resolved(federation_file, run, form, purpose, faults)
    except OpBoostError as error:
        raise together([*faults, error], f"run {run}") from None
    if isinstance(resolution, str):
        if faults:
            raise together(faults, f"run {run}")
        return {SKIP: resolution}
    plan, me, site, today = resolution, party.name, party.site, clock.today()
    declared, model = plan.federation, plan.model
    home = home_of(site, declared.name, run)
    try:
        proposal = Proposal(plan, run, plan.agreement, home, plan.day or today)
        require_ready(party, proposal, also=faults)
    except BudgetError as error:
        note_refused(site, Run(declared.name, run, me), "open_run", error)
        raise
    pin_store(site, party.store, declared.name, plan.agreement, run)
    signer = signer_of(site, plan.federation, me, plan.day or today, home)
    draft = Draft(
        kind="plan",
        about=me,
        document=plan.document(),
        rows=len(plan.federation.parties),
    )
    begin, processor = time.perf_counter(), time.process_time()
    (published,) = publish(party, plan.federation, run, signer, (draft,))
    acceptance = acceptance_of(party, Run(declared.name, run, me))
    acceptance.published(draft, published.digest)
    keep(acceptance, home)
    seconds = time.perf_counter() - begin
    processor = time.process_time() - processor
    facts.note(home, "open_run", {"seconds": seconds, "processor_seconds": processor})
    summary = {"run": run, "plan": published.digest[:16]}
    return summary if purpose == "train" else {**summary, "version": model}


def resolved(
    federation_file: Path,
    run: str,
    form: Mapping[str, Any],
    purpose: Purpose,
    faults: list[OpBoostError],
) -> tuple[LocalParty, Plan | str]:
    """Return the label holder, and the plan or the reason why there is nothing to do.

    Args:
        federation_file: Path of ``federation.yaml``.
        run: The run's ID.
        form: Values of the trigger form.
        purpose: The run's purpose.
        faults: Receives errors about software that is not installed.

    Raises:
        OpBoostError: File or form is invalid, or the model does not fit.
    """
    declared = load_federation(federation_file)
    me = declared.label_holder
    site, policy = site_of(me)
    party = LocalParty(me, site, policy, open_store(site.store))
    require_known_store(site, party.store, declared.name)
    values = asked_for(form, purpose)
    registry = Registry(site.models, declared.name)
    earlier = _planned_before(party.store, reference(declared.name, run, "plan", me))
    # A cleared run keeps the model that it was opened with.
    model = earlier["model"] if earlier else values.get("version") or registry.champion()
    compared = None
    if purpose == "train":
        federation = with_form(declared, values)
        compared = _compared(federation, registry, earlier, model)
    else:
        tables = site.tables.get(declared.name)
        if tables is None or tables.score is None:
            return party, f"site.yaml of {me} names no table of new rows (tables.*.score)"
        if model is None:
            # New rows may exist before the first model does.
            return party, f"{declared.name} has no champion to score with: train a model first"
        agreements = agreements_of(site)
        federation = for_model(
            declared,
            model,
            registry.files(model),
            lambda digest: scored_under(agreements, declared.name, digest, model) is not None,
        )
    file_names = [registry.names(version) for version in (model, compared) if version is not None]
    faults += not_installed(declared, purpose, site, frozenset().union(*file_names))
    named = digest_of(document(federation))
    epoch = _epoch(federation, purpose, earlier)
    day = _day(federation, earlier, clock.today())
    return party, Plan(federation, purpose, model, named, PROTOCOL, values, compared, epoch, day)


def _epoch(federation: Federation, purpose: Purpose, earlier: Any) -> str | None:
    """Return the current month, or for a cleared run the month in which it was opened."""
    if not queries_people(federation, purpose):
        return None
    month = earlier.get("epoch") if earlier else None
    return str(month) if month else month_keys.epoch_at(month_keys.now())


def _compared(
    federation: Federation, registry: Registry, earlier: Any, model: str | None
) -> str | None:
    """Return the version to compare with, or None if that is the champion."""
    if federation.learning == "horizontal":
        return None  # Each party selects its own.
    if earlier:
        version = earlier.get("reference")
        return str(version) if version else None
    version = reference_of(federation, registry)
    return None if version == model else version


def _day(federation: Federation, earlier: Any, today: date) -> date | None:
    """Return the date that decides on keys, if any key has dates; a cleared run keeps its date."""
    if earlier:
        # Another party may have written it: then publishing ours at this place is refused.
        with contextlib.suppress(TypeError, ValueError):
            return date.fromisoformat(earlier.get("day"))
        return None
    return today if any(spec.dated for spec in federation.parties.values()) else None


def for_model(
    declared: Federation, version: str, files: Mapping[str, bytes], stands: Callable[[str], bool]
) -> Federation:
    """Return the federation for scoring new rows with a version: its features, current queues.

    Features are those that the model was trained with, so that rows get the scores that its
    evaluation measured. Keys and the scoring mode are the current ones if that combination is
    agreed; otherwise everything is as in the agreement that the version was trained under.

    Args:
        declared: The current federation file.
        version: Name of the version.
        files: The version's files.
        stands: Returns True for the digest of an agreement in force.

    Raises:
        ContractError: Parties, their roles or keys have changed since, or the model was never
            evaluated in the scoring mode.
    """
    backend_in(files)
    trained = federation_in(files)
    remedy = (
        "Train a model with the federation file as it is now, roll back to an older version, or "
        "bring the file back."
    )
    for domain in trained.domains.values():
        if problem := domain.size_problem(trained.max_values):
            raise ContractError(f"A domain of model version {version} {problem}.", remedy)
    gone = sorted(set(trained.parties) - set(declared.parties))
    new = sorted(set(declared.parties) - set(trained.parties))
    if gone or new:
        changes = [f"{', '.join(gone)} has left since"] if gone else []
        changes += [f"{', '.join(new)} has joined since"] if new else []
        raise ContractError(
            f"Model version {version} was made by other parties: {'; '.join(changes)}.", remedy
        )
    if trained.label_holder != declared.label_holder:
        raise ContractError(f"Model version {version} has another label holder.", remedy)
    scored = _as_now(declared, trained)
    if scored is None or not stands(digest_of(document(scored))):
        before = _as_then(declared, trained)
        if scored is None or stands(digest_of(document(before))):
            scored = before
    changed = sorted(n for n in declared.parties if _keys(declared, n) != _keys(scored, n))
    if changed:
        raise ContractError(
            f"Model version {version} was trained under an agreement with other keys of "
            f"{', '.join(changed)}, and on other features, maps or IDs than the federation file "
            "declares now.",
            remedy,
        )
    mode = scored.scoring.mode
    evaluated = json.loads(files["evaluation.json"])["metrics"]
    if f"federated_{mode}" not in evaluated:
        raise ContractError(
            f"Model version {version} was never evaluated in mode {mode}.",
            f"Train a model with scoring.mode {mode}, or with {mode} in scoring.evaluate.",
        )
    return scored


def _as_now(declared: Federation, trained: Federation) -> Federation | None:
    """Return the current declaration with a version's features; None if columns or maps differ."""
    parties = {
        name: spec.model_copy(update={"features": trained.parties[name].features})
        for name, spec in declared.parties.items()
    }
    update = {"parties": parties, "domain": trained.domain}
    scored = declared.model_copy(update=update)
    same = trained.id == declared.id and maps(scored) == maps(declared)
    same = same and trained.alignment.overlap == declared.alignment.overlap
    return scored if same and _own(scored) == _own(declared) else None


def _as_then(declared: Federation, trained: Federation) -> Federation:
    """Return a version's own declaration, with current values for what needs no agreement."""
    free = ("queue",)
    parties = {
        name: spec.model_copy(update={key: getattr(declared.parties[name], key) for key in free})
        for name, spec in trained.parties.items()
    }
    return trained.model_copy(update={"parties": parties, "schedule": declared.schedule})


def _keys(federation: Federation, party: str) -> Any:
    return tuple(getattr(federation.parties[party], name) for name in PublicKeys.model_fields)


def not_installed(
    declared: Federation, purpose: Purpose, site: Site, files: frozenset[str] = frozenset()
) -> Iterator[OpBoostError]:
    """Yield errors for boosters and cluster clients that a run needs but that are not installed.

    A training run also needs the champion's booster, to compare both models on the same rows.

    Args:
        declared: The federation as declared.
        purpose: The run's purpose.
        site: The label holder's site.
        files: File names of the versions that the run compares or scores with.
    """
    # DPBoost writes LightGBM's model format; reversed order prefers LightGBM as its reader.
    readers = {backend.file: backend for backend in reversed(MODEL_FORMATS)}
    needed: list[Callable[[], None]] = [r.require for file, r in readers.items() if file in files]
    if purpose == "train":
        needed.append(format_of(declared.training.trainer).require)
        if site.dask and declared.trains_by_blocks:
            needed.append(dask_engine.require)
        if declared.training.tuning is not None:
            needed.append(tuning.require)
    for require in dict.fromkeys(needed):
        try:
            require()
        except ConfigError as error:
            yield error


def _own(federation: Federation) -> Any:
    return federation.parties[federation.label_holder].features


def _planned_before(store: Store, place: str) -> Any:
    files = store.get(place)
    return json.loads(files[DOCUMENT]) if files else None
