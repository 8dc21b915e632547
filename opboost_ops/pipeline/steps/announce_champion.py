"""Step: registered model -> announcement of a new champion, if it became one."""

from opboost_ops.learning.registry.tracking import record_champion
from opboost_ops.pipeline.stage import SKIP, Context, Outcome


def announce_champion(context: Context) -> Outcome:
    """Announce the run's model if it is the champion; otherwise skip the task and its asset."""
    registered = context.home.json("registered")["version"]
    champion = context.registry.champion()
    record_champion(context.site, context.federation.name)
    summary = {"version": registered, "champion": champion == registered}
    if champion != registered:
        summary[SKIP] = "the gate rejected the model, and the champion is unchanged"
    return Outcome(summary=summary)
