"""`opboost check`: faults of a federation, and all releases with receiver and mechanism."""

import json
from pathlib import Path

import typer

from opboost_ops.cli.arguments import AsJson, FederationFile
from opboost_ops.errors import ConfigError


def command(federation: FederationFile, as_json: AsJson = False) -> None:
    """Validate federation, sites, policies, keys and tables; print what will leave each party.

    Reads each site beside the file or in OPBOOST_SITE_<PARTY>, and names the parties without one.
    Exits with 1 if a party has not agreed to this federation file.
    """
    from opboost_ops.cli.output import (
        print_fillings,
        print_line,
        print_people,
        print_scales,
        print_table,
    )
    from opboost_ops.config.loading import POLICY, load_federation, load_policy
    from opboost_ops.extras.lab.advice import scales_of
    from opboost_ops.pipeline.inputs.rehearsal import table_warnings
    from opboost_ops.pipeline.party.own_table import (
        category_notes,
        domain_fillings,
        few_held_out,
        small_table,
    )
    from opboost_ops.pipeline.party.party_sites import federation_file, site_files, site_variable
    from opboost_ops.pipeline.party.site_faults import (
        key_dates,
        scorers,
        scoring_parties,
        site_faults,
    )
    from opboost_ops.pipeline.runner.exact_disclosures import exact_disclosures_of_run
    from opboost_ops.pipeline.runner.opening import not_installed
    from opboost_ops.pipeline.runner.preflight import together
    from opboost_ops.pipeline.runner.readiness import require_agreed
    from opboost_ops.privacy.consent.changes import leaving

    if as_json:
        _print_json(federation)
        return
    path = federation_file(federation)
    declared = load_federation(path)
    faults, contexts, people = site_faults(path, declared)
    for party, tables in people.items():
        for purpose, facts in tables.items():
            print_people(party, purpose, declared.id.normalise, facts)
    if faults:
        raise ConfigError("the parties' sites have faults", file=path.name, faults=faults)
    if declared.label_holder in contexts:
        site = contexts[declared.label_holder][0].site
        if missing := list(not_installed(declared, "train", site)):
            raise together(missing, f"training {declared.name} here")
    receiver = declared.label_holder
    for party in declared.feature_holders:
        rows = []
        for release in leaving(declared, party):
            curve = release.curve
            ends = (f"{v:.3f}" if v != "inf" else v for v in (curve.loss[0], curve.loss[-1]))
            holds = "holds" if curve.certificate else "does not hold"
            values = str(len(curve.loss) + 1)
            rows.append((release.charge, values, curve.mechanism, *ends, holds))
        print_table(
            f"{party} sends to {receiver}, randomised",
            ("feature", "values", "mechanism", "loss(1)", "loss(R-L)", "loss(t) <= t epsilon"),
            rows,
        )  # fmt: skip
        for name, lines in scales_of(declared, party).items():
            print_scales(name, lines)
        if party in contexts:
            print_fillings(party, domain_fillings(contexts[party][0]))
    for party, (context, folder) in contexts.items():
        for note in category_notes(context):
            print_line(f"{party}.{note}")
        for line in table_warnings(context, folder):
            print_line(line, "yellow")
    if declared.learning == "horizontal":
        from opboost_ops.learning.federboost.declared import sum_guarantee

        if guarantee := sum_guarantee(declared):
            print(f"Sums have noise: {guarantee}.")
    if (warning := small_table(declared, contexts)) is not None:
        print_line(warning, "yellow")
    for warning in few_held_out(declared, contexts):
        print_line(warning, "yellow")
    print("Disclosed exactly, with no epsilon unless the line names one:")
    for sender, to, discloses in exact_disclosures_of_run(declared):
        print_line(f"  {sender} to {to}: {discloses}")
    sites = site_files(path, declared, every=False)
    for party, file in sites.items():
        for name, rule in load_policy(file.parent / POLICY).features.items():
            if rule.mechanisms and rule.budget is None:
                print_line(f"{party}/{POLICY}: features.{name} has no budget", "red")
    for line in key_dates(declared):
        print(f"Keys of {line}.")
    lacking = [party for party in scorers(declared) if party in contexts]
    if lacking and not scoring_parties(declared, contexts):
        print(
            f"No table of new rows is named: `opboost score` needs tables.{declared.name}.score "
            f"in site.yaml of {', '.join(lacking)}."
        )
    require_agreed(path, declared, named=True)
    if elsewhere := [f"{p} ({site_variable(p)})" for p in declared.parties if p not in sites]:
        print_line(f"Not checked, as no site.yaml is known here: {', '.join(elsewhere)}.", "yellow")
    print(f"{path.name}, {len(sites)} sites, policies, keys, tables and agreements: OK.")


def _print_json(federation: Path) -> None:
    from opboost_ops import api

    checked = api.check(federation)
    print(json.dumps(checked.document()))
    if checked.faults or checked.lacking:
        raise typer.Exit(1)
