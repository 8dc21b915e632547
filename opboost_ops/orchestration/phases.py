"""What people read about phases and tasks. Light: read at every DAG parse."""

from opboost_ops.run.phases import Chain

#: What a group is called, after its party's name, and its tooltip.
TITLES = {
    "open": ("opens the run", "Publishes the plan, checks its own table, digests its IDs."),
    "psi": (
        "answers who is common",
        "Publishes each person's row, sealed, and answers the label holder's blinded points. It "
        "learns how many there are, and nobody's ID.",
    ),
    "release": (
        "protected release",
        "Checks and randomises its whole table, at home.",
    ),
    "train": (
        "training",
        "Opens common rows, joins its labels, trains, asks for splits.",
    ),
    "answer": ("split values", "Answers the ranks that trees use with randomised values."),
    "publish": ("model", "Puts values for ranks, checks the model and, if it can, registers it."),
    "route": ("comparisons", "Answers on which side of the model's thresholds each row lies."),
    "register": ("verdict", "Evaluates the model in the mode of scoring, and registers it."),
    "own": ("own table", "Checks its own table."),
    "learn": (
        "training together",
        "Adds up masked sums with the other parties, running at the same time; then checks, "
        "evaluates and registers the common model at home.",
    ),
    "announce": ("verdict", "Says that there is a new champion."),
    "score": ("scores", "Scores the new rows, checks the scores and keeps them."),
}

#: What each stage does, in a sentence.
DESCRIPTIONS = {
    "open_run": "Resolves file and form, and publishes the signed plan that all later tasks read.",
    "check_table": "Checks the raw table against its declaration. Details stay in the home folder.",
    "check_drift": "Compares the table with the one of the champion's training. Told at home.",
    "digest_ids": "Makes person keys, which stay home; several feature holders publish shares.",
    "psi_query": "Asks every feature holder about blinded IDs that are new this month.",
    "psi_answer": "Answers blinded points with its own exponent, once its policy was asked.",
    "preprocess": "Maps raw values to integers of the declared domain.",
    "desensitize": "Randomises the integers by the declared mechanism and writes the ledger.",
    "encode_rows": "Maps raw values to integers of the declared domain; sets held-out rows aside.",
    "boost": "Trains with all parties at once, by signed messages: each sends masked sums, the "
    "active party decides. It waits for the others and goes on where it stopped.",
    "evaluate_own": "Evaluates the common model on this party's own held-out rows.",
    "rank": "Replaces randomised values by dense ranks; the table rank to value stays home.",
    "check_release": "Checks what is released before anything is published.",
    "seal": "Seals each row, and publishes ranks, or values of new rows, as a signed artifact.",
    "open_rows": "Verifies all releases and opens the common people's rows: order and holdout.",
    "assemble": "Joins opened ranks, own features and labels to the training frame.",
    "check_frame": "Checks the training frame.",
    "train": "Trains on ranks.",
    "request_splits": "Asks each feature holder for the values of the ranks that trees use.",
    "answer_splits": "Answers with randomised domain values, checked against policy and release.",
    "materialise": "Puts thresholds on values for thresholds on ranks.",
    "check_model": "Checks the materialised model.",
    "evaluate": "Evaluates the model on held-out rows; every metric names its mode.",
    "request_routes": "Asks each feature holder for all comparisons with the model's thresholds.",
    "answer_routes": "Answers every comparison of every row, after policy and ledger were asked.",
    "register": "Writes model and card to the registry.",
    "announce_champion": "Announces a new champion; skipped if the gate rejected the model.",
    "score": "Predicts for every new row that the mode can score.",
    "check_scores": "Checks the scores.",
    "write_scores": "Adds the scores to the label holder's folder; scored again adds nothing.",
}


def description(chain: Chain) -> str:
    """What a task does, in Markdown: a sentence, or one for each of its stages.

    Args:
        chain: Its stages.
    """
    if len(chain.stages) == 1:
        return DESCRIPTIONS[chain.stages[0]]
    return "\n".join(f"- `{stage}`: {DESCRIPTIONS[stage]}" for stage in chain.stages)


#: The group in which a party joins a run that was opened in another Airflow.
JOINS = ("joins the run", "Verifies the plan that the label holder has signed in another Airflow.")

#: What the tasks do that only a half has.
IN_HALVES = {
    "look_for_runs": "Looks in the store for a signed plan that waits for this Airflow's parties. "
    "Its slot is free between two looks.",
    "start_run": "Starts this Airflow's half of the run that was found.",
    "join_run": "Verifies the plan by the key that the party's policy pins, and remembers it.",
    "wait_for": "Looks in the store for what comes from another Airflow: {}. Its slot is free "
    "between two looks.",
}
