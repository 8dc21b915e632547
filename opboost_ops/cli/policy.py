"""`opboost policy`: a party's own file of what it allows."""

import typer

from opboost_ops.cli.arguments import AsJson, FederationFile, Site

app = typer.Typer(help="What a party allows.", no_args_is_help=True)


@app.callback()
def _commands() -> None:
    """Commands are always named, also while there is only one."""


@app.command("pin")
def pin(
    site: Site,
    federation: FederationFile,
    as_json: AsJson = False,
) -> None:
    """Pin the UUID of each column that the policy allows; the rest of the file stays as it is."""
    import json

    from opboost_ops.config.loading import POLICY, load_federation
    from opboost_ops.run.party_sites import federation_file
    from opboost_ops.setup.policy_file import pin_columns

    pinned = pin_columns(site, load_federation(federation_file(federation)))
    if as_json:
        print(json.dumps({"pinned": {name: str(uuid) for name, uuid in pinned.items()}}))
        return
    for name, uuid in pinned.items():
        print(f"{name}: column {uuid} is pinned now in {POLICY}.")
    if not pinned:
        print(f"All columns are pinned already in {POLICY}.")
