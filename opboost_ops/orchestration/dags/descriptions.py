"""Labels and descriptions of tasks. Light: imported at every DAG parse."""

from opboost_ops.pipeline.protocol import STEPS, Chain

#: Of the task that opens a run.
OPENS = (
    "Resolves federation file and trigger form and publishes the signed plan for all later tasks."
)


def description(chain: Chain) -> str:
    """Describe a task in Markdown: a sentence, or one for each of its stages."""
    if len(chain.stages) == 1:
        return STEPS[chain.stages[0]].does
    return "\n".join(f"- `{stage}`: {STEPS[stage].does}" for stage in chain.stages)


#: The group in which a party joins a run that was opened in another Airflow.
JOINS = ("join run", "Verifies the plan that the label holder signed in another Airflow.")

#: Tasks that exist only where each party has its own Airflow.
OWN_AIRFLOW = {
    "look_for_runs": "Polls the store for a signed plan that names this Airflow's parties, and "
    "starts their part of its run. Holds no slot between polls.",
    "join_run": "Verifies the plan with the key that the party's policy pins, and records it.",
    "wait_for": "Polls the store for input from another Airflow: {}. Holds no slot between polls.",
}
