"""`opboost approve`: a person's answer to a release that waits for one."""

from shlex import quote
from typing import Annotated

import typer

from opboost_ops.cli.arguments import Site


def command(
    site: Site,
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
    from opboost_ops.errors import ConfigError
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
