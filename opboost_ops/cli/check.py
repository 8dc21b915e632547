"""`opboost check`: is everything right, and what will leave, to whom, under which mechanism."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opboost_ops.errors import ConfigError, Fault, OpBoostError

if TYPE_CHECKING:
    from opboost_ops.config.federation import Federation
    from opboost_ops.config.policy import Policy
    from opboost_ops.config.site import Site
    from opboost_ops.stages.stage import Context


def command(
    folder: Annotated[Path, typer.Argument(help="Folder of federation.yaml, or the file.")],
) -> None:
    """Validate federation, sites, policies, keys and tables; print what will leave each party.

    It ends with 1 if a party has not agreed to the federation file as it is.
    """
    from rich.console import Console
    from rich.table import Table

    from opboost_ops.cli.key_faults import key_dates
    from opboost_ops.cli.table_faults import scorers, scoring_parties
    from opboost_ops.config.loading import POLICY, load_federation, load_policy
    from opboost_ops.privacy.left_open import left_open
    from opboost_ops.run.changes import leaving
    from opboost_ops.run.party_sites import site_files
    from opboost_ops.run.readiness import require_agreed

    path = folder / "federation.yaml" if folder.is_dir() else folder
    federation = load_federation(path)
    faults, contexts = found_faults(path, federation)
    if faults:
        raise ConfigError(f"{len(faults)} at the parties' sites", file=path.name, faults=faults)
    console = Console()
    policies = {
        party: load_policy(file.parent / POLICY)
        for party, file in site_files(path, federation).items()
    }
    domain = federation.domain.to_domain()
    receiver = federation.label_holder
    for party in federation.feature_holders:
        table = Table(title=f"{party} sends to {receiver}, randomised on [{domain.lower}, "
                      f"{domain.upper}]")  # fmt: skip
        for head in (
            "feature",
            "mechanism",
            "loss(1)",
            "loss(R-L)",
            "loss(t) <= t epsilon",
            "loss(R-L), all nights",
        ):
            table.add_column(head)
        for release in leaving(federation, party):
            curve = release.curve
            ends = (f"{v:.3f}" if v != "inf" else v for v in (curve.loss[0], curve.loss[-1]))
            holds = "holds" if curve.certificate else "does not hold"
            most = _most(policies.get(party), release.charge, len(curve.loss) + 1)
            # The public worst case ends there, however many draws there are (privacy.worst).
            every = "no max_changes" if most is None else f"at most {most} x {curve.loss[-1]}"
            table.add_row(release.charge, curve.mechanism, *ends, holds, every)
        console.print(table)
    if federation.learning == "horizontal":
        from opboost_ops.run import mailboxes
        from opboost_ops.stages.boost import private_of

        if (budget := private_of(federation)) is not None:
            count = len(federation.parties)
            console.print(
                f"Sums have noise: (epsilon {budget.epsilon:g}, delta {budget.delta:g}) for a row "
                f"added or removed, where {budget.honest} of {count} parties add theirs as they "
                f"should. Each adds 1 / {budget.honest} of what one would need, so a sum has "
                f"{count / budget.honest:.2f} times that variance.",
                soft_wrap=True,
            )
            console.print(_drop_out(federation), soft_wrap=True)
        console.print("Sent in a run, exact, with no epsilon:")
        for party in federation.parties:
            for _, to, discloses in mailboxes.disclosures(party, federation):
                console.print(f"  {party} to {to}: {discloses}", soft_wrap=True)
    else:
        console.print("Also sent, exact, with no epsilon:")
    from opboost_ops.stages import list_shards, request_splits
    from opboost_ops.stages.alignments import alignment_of

    if federation.learning == "vertical":
        for sender, to, discloses in alignment_of(federation.alignment_mode).disclosures(
            federation
        ):
            console.print(f"  {sender} to {to}: {discloses}", soft_wrap=True)
    for party in federation.feature_holders:
        if federation.parties[party].shards:
            console.print(f"  {party} to everyone who sees the run: {list_shards.DISCLOSES}")
        if not federation.has_decoys:
            console.print(f"  {receiver} to {party}: {request_splits.DISCLOSES}")
    for party, file in site_files(path, federation).items():
        for line in left_open(load_policy(file.parent / POLICY)):
            console.print(f"{party}/{POLICY}: {line}", style="red", markup=False, soft_wrap=True)
    for line in key_dates(federation):
        console.print(f"Keys of {line}.", markup=False, soft_wrap=True)
    if not scoring_parties(federation, contexts):
        who = ", ".join(scorers(federation))
        console.print(
            f"No table of new rows is named: `opboost score` needs tables.{federation.name}.score "
            f"in site.yaml of {who}.",
            soft_wrap=True,
        )
    require_agreed(path, federation, named=True)
    console.print(
        f"{path.name}, {len(federation.parties)} sites, policies, keys, tables and agreements: "
        "right."
    )


def found_faults(
    path: Path, federation: "Federation"
) -> "tuple[list[Fault], dict[str, tuple[Context, Path]]]":
    """All that is wrong at the parties' sites and in their tables.

    Args:
        path: ``federation.yaml``.
        federation: What it says.

    Returns:
        The faults, and each readable party's context with the folder of its site.
    """
    from opboost_ops.cli.table_faults import table_faults
    from opboost_ops.run.party_sites import site_files

    faults: list[Fault] = []
    contexts: dict[str, tuple[Context, Path]] = {}
    for party, file in site_files(path, federation).items():
        found, context = _faults(federation, party, file)
        faults += found
        if context is not None:
            contexts[party] = (context, file.parent)
    return [*faults, *table_faults(federation, contexts)], contexts


def _drop_out(federation: "Federation") -> str:
    """What becomes of a session of noisy sums when a party is missing."""
    from opboost_ops.config.private_faults import may_drop_out, patience_minutes_of

    private, count = federation.training.private, len(federation.parties)
    if private is None or not may_drop_out(federation):
        why = ", and of 3 all have to remain" if count == 3 else ""
        return f"No party may drop out{why}: a missing one ends the session, charged in full."
    remain, kappa = private.remain or count, private.colluding or 1
    patience = patience_minutes_of(federation)
    return (
        f"{count - remain} of {count} parties may drop out, but for {federation.label_holder}: who "
        f"sends nothing for {patience:g} minutes is gone for the session and stays charged; with "
        f"fewer than {remain} left it is closed. Up to {kappa} parties that pool what they know "
        f"learn sums alone; {2 * remain - count} that cheat, or {remain} that do not, learn "
        "another party's own."
    )


def _most(policy: "Policy | None", charge: str, inputs: int) -> int | None:
    """How many different values a cell may release, with the cap in force; None without one."""
    rule = policy.features.get(charge.partition("=")[0]) if policy is not None else None
    return None if rule is None or rule.max_changes is None else min(rule.max_changes, inputs)


def _lost(party: str, site: "Site") -> list[Fault]:
    from opboost_ops.exchange.books import open_books
    from opboost_ops.privacy.database import has_tables
    from opboost_ops.privacy.lost import lost_states

    if not has_tables(site.ledger_url()):
        return []
    with open_books(site) as books:
        lost = lost_states(books.ledger.releases(), books.cells)
    return [
        Fault(
            f"{party}/cells",
            f"the state of {state.last.feature} is lost or older than the ledger",
            "put the newest one back, or see `opboost ledger accept`",
        )
        for state in lost
    ]


def _faults(
    federation: "Federation", party: str, file: Path
) -> "tuple[list[Fault], Context | None]":
    from opboost_ops.cli.key_faults import key_faults
    from opboost_ops.config.loading import POLICY, load_policy, load_site
    from opboost_ops.exchange.store import open_store
    from opboost_ops.mechanisms import noise
    from opboost_ops.privacy.consent import require_consent
    from opboost_ops.run import mailboxes
    from opboost_ops.stages.stage import Context, Home

    faults: list[Fault] = []
    try:
        site = load_site(file)
        policy = load_policy(file.parent / POLICY)
    except ConfigError as error:
        inner = error.faults or (Fault("", error.problem, error.remedy),)
        return [
            Fault(f"{party}/{error.file}:{f.where}", f.problem, f.suggestion) for f in inner
        ], None
    try:
        site.noise_secret()
    except OpBoostError as error:
        faults.append(Fault(f"{party}/site.yaml:secret", error.problem, error.remedy))
    if federation.learning == "vertical":
        try:
            if federation.alignment_mode == "keyed" or site.alignment_key.is_file():
                noise.read_secret(site.alignment_key)
        except OpBoostError as error:
            faults.append(Fault(f"{party}/site.yaml:alignment_key", error.problem, error.remedy))
    else:
        try:
            own = federation.parties[party].signing_key
            mailboxes.pinned_keys(party, policy, federation, own)
        except OpBoostError as error:
            faults.append(Fault(f"{party}/policy.yaml:receivers", error.problem, error.remedy))
    faults += key_faults(federation, party, site)
    try:
        require_consent(policy, federation, party)
    except OpBoostError as error:
        faults.append(Fault(f"{party}/policy.yaml", error.problem, error.remedy))
    faults += _lost(party, site)
    try:
        store = open_store(site.store)
    except OpBoostError as error:
        return [*faults, Fault(f"{party}/site.yaml:store", error.problem, error.remedy)], None
    home = Home(site.home)
    return faults, Context(federation, "", party, site, policy, home, store, "", 0.0)
