"""Arrow: a registered model -> the word that there is a new champion, if it is one."""

from opboost_ops.learning.registry.tracking import record_champion
from opboost_ops.pipeline.stage import SKIP, Context, Outcome


def announce_champion(context: Context) -> Outcome:
    """Say whether the run's model is the champion; what it starts does not start otherwise."""
    registered = context.home.json("registered")["version"]
    champion = context.registry.champion()
    record_champion(context.site, context.federation.name)
    summary = {"version": registered, "champion": champion == registered}
    if champion != registered:
        summary[SKIP] = "the gate rejected the model, and the champion is unchanged"
    return Outcome(summary=summary)
