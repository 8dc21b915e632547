"""`opboost agree`, `approve`, `stop`, `resume`: a party's consent."""

import json
import re
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from opboost_ops.cli.arguments import SiteFolder
from opboost_ops.errors import ConfigError

if TYPE_CHECKING:
    from opboost_ops.api import Consent
    from opboost_ops.config.federation import Federation
    from opboost_ops.config.site import Site
    from opboost_ops.privacy.consent.agreements import Agreements


_DIGEST = re.compile(r"[0-9a-f]{64}")

#: Maximum number of former versions that are listed.
_MAX_LISTED = 8

FederationName = Annotated[str, typer.Argument(help="The federation's name.")]
Because = Annotated[str, typer.Option(help="The reason, for the party's audit log.")]


class YesWithDigest(TyperCommand):
    """Accepts ``--yes DIGEST`` as well as ``--yes``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite ``--yes DIGEST`` as ``--digest DIGEST``."""
        rewritten: list[str] = []
        for argument in args:
            value = argument.removeprefix("--yes=")
            if value != argument:
                rewritten += ["--digest", value]
            elif rewritten[-1:] == ["--yes"] and _DIGEST.fullmatch(argument):
                rewritten[-1:] = ["--digest", argument]
            else:
                rewritten.append(argument)
        return super().parse_args(ctx, rewritten)


def agree_command(
    site: Annotated[
        Path,
        typer.Argument(
            help="Folder of the party's site.yaml, or of federation.yaml to ask all parties in it."
        ),
    ],
    federation: Annotated[
        Path | None, typer.Argument(help="federation.yaml; without it, agreements are listed.")
    ] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Agree to exactly this DIGEST; optional for generated parties.",
        ),
    ] = False,
    digest: Annotated[str | None, typer.Option("--digest", hidden=True)] = None,
    withdraw: Annotated[
        int | None, typer.Option(help="Number of the agreement to withdraw.")
    ] = None,
    keep_version: Annotated[
        list[str] | None,
        typer.Option(help="A version to keep scoring under its former agreement."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Digest, changes and sheet as one JSON line; agrees to nothing."
        ),
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write the consent sheet here, as a page to print.")
    ] = None,
    by: Annotated[str, typer.Option(help="Who agrees, for the audit log.")] = "",
    because: Annotated[str, typer.Option(help="The reason, for the audit log.")] = "",
) -> None:
    """Show what will leave the party and what is new since the last agreement, then ask.

    Reads only the party's own files and the federation file.
    """
    if federation is None and (members := _local_sites(site)):
        if as_json or html or withdraw is not None:
            options = "--json, --html and --withdraw"
            raise ConfigError(f"{options} are for one party.", "Name its folder.")
        for folder, file in members:
            agree_command(folder, file, yes, digest, None, keep_version, False, None, by, because)
        return
    from opboost_ops import api
    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.party_state import agreements_of
    from opboost_ops.extras.setup.keys import pin
    from opboost_ops.pipeline.party import agreement
    from opboost_ops.pipeline.party.party_sites import federation_file
    from opboost_ops.reports import consent_words
    from opboost_ops.reports.display.html import document_html

    site = site.parent if site.is_file() else site
    mine = load_site(site / "site.yaml")
    if withdraw is not None:
        if federation is not None or yes or digest or keep_version or as_json or html:
            raise ConfigError("--withdraw goes with SITE alone.", "Nothing was changed.")
        _withdraw(mine, withdraw)
        return
    if federation is None:
        if yes or digest or keep_version or html:
            raise ConfigError("--yes and --html need a federation file.", "Nothing was agreed to.")
        _list_agreements(agreements_of(mine), as_json)
        return
    consent = api.agree(site, federation)
    declared, current, sheet = consent.federation, consent.digest, consent.sheet
    if html is not None:
        lead = f"Digest of what is agreed to: {sheet.digest}"
        signed = [*consent_words.blocks(sheet), *consent_words.signature(declared)]
        page = document_html(consent_words.title(sheet), lead, signed)
        html.write_text(page, encoding="utf-8")
        print(f"Wrote the consent sheet: {html}", file=sys.stderr)
    if as_json:
        new = [vars(change) for change in consent.changes]
        document = {"digest": current, "changes": new}
        print(json.dumps({**document, "sheet": sheet.document()}))
        return
    if digest is not None and digest != current:
        raise ConfigError(
            f"--yes {digest} is not the digest of {federation_file(federation).name}, which is "
            f"now {current}.",
            "Nothing was agreed to. Read the changes (--json), and pass the new digest.",
        )
    if yes:
        _require_generated(mine, site)
    agreements = agreements_of(mine)
    newest = agreements.newest(declared.name)
    if newest is not None and consent.number and not keep_version:
        print(f"{mine.party} has agreed to {declared.name} as it is: number {newest.number}, "
              f"{newest.at}, {current}.")  # fmt: skip
        _show_queries(mine, consent)
        return
    _show_sheet(consent, agreements)
    _show_queries(mine, consent)
    _show_retired(mine, declared, keep_version or [])
    print(f"Digest: {current}")
    if not yes and digest is None:
        try:
            agreed = typer.confirm(f"Does {mine.party} agree?", default=False)
        except typer.Abort:
            agreed = False
        if not agreed:
            raise ConfigError(
                f"{mine.party} has not agreed to {declared.name}.",
                "Nothing was changed. Without a terminal, --yes DIGEST agrees.",
            )
    for pinned in pin(site, declared):
        print(f"Pinned in policy.yaml: {pinned}.")
    record = agreement.agree(mine, declared, keep_version or (), by=by, because=because)
    print(f"{mine.party} agrees: number {record.number}, {record.at}.")


def _local_sites(folder: Path) -> list[tuple[Path, Path]]:
    """Return the folders of the parties next to a federation file, each with that file."""
    from opboost_ops.config.loading import load_federation
    from opboost_ops.pipeline.party.party_sites import federation_file, site_files

    file = federation_file(folder)
    if (folder / "site.yaml").is_file() or file.name == "site.yaml" or not file.is_file():
        return []
    sites = site_files(file, load_federation(file), every=False)
    return [(path.parent, file) for path in sites.values()]


def _withdraw(site: "Site", number: int) -> None:
    from opboost_ops.pipeline.party import agreement

    for withdrawn in agreement.withdraw(site, number):
        print(
            f"{site.party}: agreement {withdrawn.number} with {withdrawn.federation} is "
            "withdrawn. Plans under it are refused, and new rows for versions trained under it."
        )


def _list_agreements(agreements: "Agreements", as_json: bool) -> None:
    if as_json:
        lines = [a.model_dump(mode="json", exclude={"content"}) for a in agreements.agreements]
        print(json.dumps({"party": agreements.party, "agreements": lines}))
        return
    if not agreements.agreements:
        print(f"{agreements.party} has agreed to nothing.")
    for entry in agreements.agreements:
        state = "superseded"
        if entry.withdrawn:
            state = f"withdrawn {entry.withdrawn}"
        elif entry == agreements.newest(entry.federation):
            state = "in force"
        print(f"{entry.number}  {entry.federation}  {entry.at}  {entry.digest[:16]}  {state}")


def _show_queries(mine: "Site", consent: "Consent") -> None:
    """Print how many people the label holder has queried so far."""
    from opboost_ops.cli.output import print_blocks
    from opboost_ops.exchange.party_state import open_state
    from opboost_ops.reports.ledger import queries

    with open_state(mine) as state:
        blocks = queries(state, consent.policy.alignment, (consent.federation.name,))
    print_blocks(blocks)


def _show_retired(mine: "Site", declared: "Federation", keep: list[str]) -> None:
    """Print the versions that the agreement retires, and what the label holder may request."""
    from opboost_ops.config.agreement import digest_of, document
    from opboost_ops.exchange.party_state import open_state
    from opboost_ops.pipeline.party import agreement

    with open_state(mine) as state:
        trained = agreement.trained_under(state, declared.name)
    digest = digest_of(document(declared))
    former = {version: entry for version, entry in trained.items() if entry.digest != digest}
    if not former:
        return
    print(
        "Versions trained under a former agreement can no longer be scored, unless they are kept:"
    )
    for version in list(former)[:_MAX_LISTED]:
        entry = former[version]
        content = entry.content["federation"]
        features = (
            ", ".join(content["parties"].get(mine.party, {}).get("features", {})) or "nothing"
        )
        mode = content.get("scoring", {}).get("mode", "desensitised")
        action = "kept" if version in keep else f"--keep-version {version}"
        print(f"  {version}, agreement {entry.number}, may ask for {features} ({mode}): {action}")
    if len(former) > _MAX_LISTED:
        print(f"  and {len(former) - _MAX_LISTED} earlier ones")


def _require_generated(mine: "Site", folder: Path) -> None:
    from opboost_ops.exchange.store.store import open_store
    from opboost_ops.pipeline.party.agreement import MADE_UP

    if (folder / MADE_UP).is_file() or open_store(mine.store).throwaway:
        return
    raise ConfigError(
        f"{mine.party} is not a generated party: --yes needs the digest that you have read.",
        "Nothing was agreed to. --json prints it with all that is new.",
    )


def _show_sheet(consent: "Consent", agreements: "Agreements") -> None:
    from opboost_ops.cli.output import print_blocks, print_line
    from opboost_ops.config.public_keys import fingerprint
    from opboost_ops.errors import OpBoostError
    from opboost_ops.privacy.consent.compliance import require_consent
    from opboost_ops.reports import consent_words
    from opboost_ops.reports.display.blocks import Heading

    sheet, declared = consent.sheet, consent.federation
    print_blocks([Heading(consent_words.title(sheet)), *consent_words.blocks(sheet)])
    earlier = agreements.of(declared.name)
    since = f"since number {earlier[-1].number} of {earlier[-1].at}" if earlier else "(all of it)"
    print(f"New in {declared.name} {since}:")
    for change in consent.changes:
        was = "" if change.before is None else f"{_short(change.before)} -> "
        now = "gone" if change.after is None else _short(change.after)
        print_line(f"  {change.field}: {was}{now}")
        print_line(f"    {change.means}", "dim")
    try:
        require_consent(consent.policy, declared, sheet.party)
    except OpBoostError as error:
        for line in error.problem.splitlines():
            print_line(line, "red")
    print("Fingerprints of the keys; compare each with what its party reads out to you:")
    for party, spec in declared.parties.items():
        own = " (your own)" if party == sheet.party else ""
        fingerprint_text = fingerprint(spec.signing_key, spec.encryption_key)
        print(f"  {party}: {fingerprint_text}{own}")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 160 else f"{text[:157]}..."


def approve_command(
    site: SiteFolder,
    run: Annotated[str, typer.Argument(help="The run ID that the waiting task prints.")],
    answer: Annotated[
        bool | None,
        typer.Option("--yes/--no", help="The decision; without it, the request is shown."),
    ] = None,
    plan: Annotated[
        str, typer.Option(help="With --yes or --no: the plan's digest, as shown.")
    ] = "",
    because: Annotated[str, typer.Option(help="The reason, for the audit log.")] = "",
) -> None:
    """Show why a release waits for approval; with --yes or --no, decide it permanently."""
    import getpass

    from opboost_ops.config.loading import load_site
    from opboost_ops.pipeline.party import approval

    loaded = load_site(site / "site.yaml")
    if answer is None:
        for request, decision in approval.waiting(loaded, run):
            federation, digest = (
                request.place.split("/")[0],
                request.artifact[: approval.PLAN_DIGITS],
            )
            print(f"Run {run} of {federation}, plan {digest}, asked {request.at} (UTC): "
                  f"{request.detail}.")  # fmt: skip
            if decision is not None:
                print(f"It was {decision.action} at {decision.at}: {decision.detail}.")
                continue
            print("Not answered yet. What attacks gain on a release: `opboost leakage`.")
            folder = quote(str(site))
            print(f"Answer: opboost approve {folder} {run} --plan {digest} --yes --because '...'"
                  "   (or --no)")  # fmt: skip
        return
    if not because.strip():
        raise ConfigError("A decision needs a reason.", "Give it with --because.")
    request = approval.answer(loaded, run, plan, answer, getpass.getuser(), because.strip())
    federation, done = request.place.split("/")[0], "approved" if answer else "declined"
    print(f"Run {run} of {federation} is {done}; its task goes on by itself.")


def stop(site: SiteFolder, federation: FederationName, because: Because) -> None:
    """Stop taking part in a federation's runs, including the current one, until `resume`."""
    party = _change_participation(site, federation, "stop", because)
    print(
        f"{party} takes part in no run of {federation} from now on; others see that it refuses. "
        f'`opboost resume {quote(str(site))} {federation} --because "..."` ends that.'
    )


def resume(site: SiteFolder, federation: FederationName, because: Because) -> None:
    """Take part in a federation's runs again."""
    party = _change_participation(site, federation, "resume", because)
    print(
        f"{party} takes part in runs of {federation} again. Where its DAGs were paused in "
        "Airflow, let them go on there."
    )


def _change_participation(
    site: Path, federation: str, act: Literal["stop", "resume"], because: str
) -> str:
    import getpass

    from opboost_ops.config.loading import load_site
    from opboost_ops.pipeline.party.admin_actions import ActionRequest, do

    if not because.strip():
        raise ConfigError("A reason is required.", "Give it with --because.")
    mine = load_site(site / "site.yaml")
    do(mine, federation, ActionRequest(act, because.strip(), getpass.getuser()))
    return mine.party
