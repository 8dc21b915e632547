"""`opboost airflow`: install a federation into an Airflow, and find what is missing."""

from pathlib import Path
from typing import Annotated

import typer

from opboost_ops.cli.arguments import FederationFile
from opboost_ops.cli.demo import require_airflow
from opboost_ops.errors import OpBoostError

app = typer.Typer(help="Install into an existing Airflow.", no_args_is_help=True)


@app.command("check")
def check() -> None:
    """Check this Airflow, and print a fix for each problem.

    Exits with 1 if a problem blocks runs.
    """
    require_airflow("opboost airflow check")
    from opboost_ops.orchestration.deployment.doctor import examine

    findings = examine()
    for finding in findings:
        print(f"{finding.state.upper():<7} {finding.text}")
        if finding.fix:
            print(f"        {finding.fix}")
    blocking = sum(finding.state == "blocks" for finding in findings)
    if blocking:
        problems = "1 problem blocks" if blocking == 1 else f"{blocking} problems block"
        raise OpBoostError(f"{problems} runs in this Airflow.", "Fix what is named above.")
    print("Nothing blocks runs in this Airflow.")


@app.command("install")
def install(
    airflow_home: Annotated[Path, typer.Argument(help="The AIRFLOW_HOME.")],
    federation: FederationFile,
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking.")] = False,
) -> None:
    """Show a diff, then write DAG file, preloading and site paths into an Airflow home."""
    require_airflow("opboost airflow install")
    from opboost_ops.orchestration.deployment.installation import plan
    from opboost_ops.pipeline.party.party_sites import federation_file

    changes = plan(airflow_home, federation_file(federation))
    for change in changes:
        print(change.diff())
    if not changes:
        print("All of it is there already.")
        return
    if not yes and not typer.confirm("Write this?"):
        raise OpBoostError("Nothing was written.")
    for change in changes:
        change.write()
    print("Restart scheduler, DAG processor, API server and workers, then: opboost airflow check")
