"""`opboost stop` and `opboost resume`: whether a party takes part in a federation's runs."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import typer

from opboost_ops.cli.arguments import Site

Federation = Annotated[str, typer.Argument(help="The federation's name.")]
Because = Annotated[str, typer.Option(help="The reason, for the party's audit log.")]


def stop(site: Site, federation: Federation, because: Because) -> None:
    """Stop taking part in a federation's runs, including the current one, until `resume`."""
    party = _do(site, federation, "stop", because)
    print(
        f"{party} takes part in no run of {federation} from now on; others see that it refuses. "
        f'`opboost resume {quote(str(site))} {federation} --because "..."` ends that.'
    )


def resume(site: Site, federation: Federation, because: Because) -> None:
    """Take part in a federation's runs again."""
    party = _do(site, federation, "resume", because)
    print(
        f"{party} takes part in runs of {federation} again. Where its DAGs were paused in "
        "Airflow, let them go on there."
    )


def _do(site: Path, federation: str, act: Literal["stop", "resume"], because: str) -> str:
    import getpass

    from opboost_ops.config.loading import load_site
    from opboost_ops.errors import ConfigError
    from opboost_ops.pipeline.party.admin_actions import ActionRequest, do

    if not because.strip():
        raise ConfigError("A reason is required.", "Give it with --because.")
    mine = load_site(site / "site.yaml")
    do(mine, federation, ActionRequest(act, because.strip(), getpass.getuser()))
    return mine.party
