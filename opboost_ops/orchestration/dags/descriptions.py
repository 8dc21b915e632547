"""Labels and descriptions of phases and tasks. Light: imported at every DAG parse."""

from opboost_ops.pipeline.phases import Chain

#: A group's label, after its party's name, and its tooltip.
TITLES = {
    "open": ("open run", "Publishes the plan, checks its own table, computes person keys."),
    "psi": (
        "private set intersection",
        "Publishes each person's sealed row and answers the label holder's blinded points. The "
        "party learns how many points there are, and no ID.",
    ),
    "release": (
        "protected release",
        "Checks and randomises the party's whole table on its own site.",
    ),
    "train": (
        "training",
        "Opens common rows, joins labels, trains, requests split values.",
    ),
    "answer": ("split values", "Returns the randomised values of the ranks that trees use."),
    "publish": ("model", "Replaces ranks by values, checks the model, evaluates and registers it."),
    "route": ("routes", "Returns on which side of the model's thresholds each row lies."),
    "register": ("evaluation", "Evaluates the model in the scoring mode and registers it."),
    "own": ("own table", "Checks its own table."),
    "learn": (
        "joint training",
        "Trains with all parties at the same time by masked sums, then checks, evaluates and "
        "registers the common model on its own site.",
    ),
    "announce": ("announcement", "Announces a new champion."),
    "score": ("scores", "Scores the new rows, checks the scores and writes them."),
}

#: A sentence for each stage.
DESCRIPTIONS = {
    "open_run": "Resolves federation file and trigger form and publishes the signed plan for all "
    "later tasks.",
    "check_table": "Checks the raw table against its declaration. Details stay in the home folder.",
    "check_drift": "Compares the table with the champion's training table. The result stays in "
    "the home folder.",
    "digest_ids": "Computes person keys, which stay in the home folder; with several feature "
    "holders each publishes shares.",
    "psi_query": "Sends every feature holder the blinded IDs that are new this month.",
    "psi_answer": "Raises blinded points to the party's own exponent, within its policy.",
    "preprocess": "Maps raw values to integers of the declared domain.",
    "desensitize": "Randomises the integers by the declared mechanism and charges the ledger.",
    "encode_rows": "Maps raw values to integers of the declared domain; sets held-out rows aside.",
    "boost": "Trains with all parties at once by signed messages: each sends masked sums, the "
    "active party decides. Waits for the other parties and resumes where it stopped.",
    "evaluate_own": "Evaluates the common model on this party's own held-out rows.",
    "rank": "Replaces randomised values by dense ranks; the table from rank to value stays at "
    "home.",
    "check_release": "Checks the release before anything is published.",
    "seal": "Seals each row, and publishes ranks, or values of new rows, as a signed artifact.",
    "open_rows": "Verifies all releases, opens the common people's rows, sets order and holdout.",
    "assemble": "Joins opened ranks, own features and labels into the training frame.",
    "check_frame": "Checks the training frame.",
    "train": "Trains on ranks.",
    "request_splits": "Requests the values of the ranks that trees use from each feature holder.",
    "answer_splits": "Returns randomised domain values, checked against policy and release.",
    "materialise": "Replaces thresholds on ranks by thresholds on values.",
    "check_model": "Checks the materialised model.",
    "evaluate": "Evaluates the model on held-out rows; every metric names its mode.",
    "request_routes": "Requests all comparisons with the model's thresholds from each feature "
    "holder.",
    "answer_routes": "Returns every comparison of every row, within policy and ledger.",
    "register": "Writes model and model card to the registry.",
    "announce_champion": "Announces a new champion; skipped if the gate rejected the model.",
    "score": "Predicts for every new row that the mode can score.",
    "check_scores": "Checks the scores.",
    "write_scores": "Adds the scores to the label holder's folder; scoring again adds nothing.",
}


def description(chain: Chain) -> str:
    """Describe a task in Markdown: a sentence, or one for each of its stages."""
    if len(chain.stages) == 1:
        return DESCRIPTIONS[chain.stages[0]]
    return "\n".join(f"- `{stage}`: {DESCRIPTIONS[stage]}" for stage in chain.stages)


#: The group in which a party joins a run that was opened in another Airflow.
JOINS = ("join run", "Verifies the plan that the label holder signed in another Airflow.")

#: Tasks that exist only where each party has its own Airflow.
OWN_AIRFLOW = {
    "look_for_runs": "Polls the store for a signed plan that names this Airflow's parties, and "
    "starts their part of its run. Holds no slot between polls.",
    "join_run": "Verifies the plan with the key that the party's policy pins, and records it.",
    "wait_for": "Polls the store for input from another Airflow: {}. Holds no slot between polls.",
}
