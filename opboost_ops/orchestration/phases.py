"""Which tasks a DAG has, and what people read about them. Light: read at every DAG parse.

The names are those of `opboost_ops.stages.catalogue`, whose import is too heavy for a DAG file;
a test compares the two.
"""

#: Stages of each phase, in order.
STAGES_OF = {
    "open": ("check_table", "digest_ids"),
    "ids": ("check_table", "digest_ids"),
    "align": ("align",),
    "release": ("preprocess", "desensitize", "rank", "check_release", "publish"),
    "train": ("accept", "assemble", "check_frame", "train", "request_splits"),
    "answer": ("answer_splits",),
    "publish": ("materialise", "check_model", "evaluate", "register"),
}

#: What a group is called, after its party's name, and its tooltip.
TITLES = {
    "open": ("opens the run", "Publishes the plan, checks its own table, digests its IDs."),
    "ids": ("identifiers", "Checks the raw table and sends keyed digests of its IDs."),
    "align": ("common rows", "Finds the common people, and who of them is held out."),
    "release": ("protected release", "Randomises its features and publishes their ranks, signed."),
    "train": ("training", "Accepts the releases, joins its labels, trains, asks for splits."),
    "answer": ("split values", "Answers the ranks that trees use with randomised values."),
    "publish": ("model", "Puts values for ranks, checks and evaluates the model, registers it."),
}

#: What each task does, in a sentence.
DESCRIPTIONS = {
    "open_run": "Resolves file and form, and publishes the signed plan that all later tasks read.",
    "check_table": "Checks the raw table against its declaration. Details stay in the home folder.",
    "digest_ids": "Makes person keys (they stay home) and keyed alignment digests.",
    "align": "Compares the digests: the common row order and the holdout.",
    "preprocess": "Maps raw values to integers of the declared domain.",
    "desensitize": "Randomises the integers by the declared mechanism and writes the ledger.",
    "rank": "Replaces randomised values by dense ranks; the table rank to value stays home.",
    "check_release": "Checks the ranks before anything is published.",
    "publish": "Publishes the ranks as a signed artifact.",
    "accept": "Verifies signature, digest, run, party and columns of every release.",
    "assemble": "Joins accepted ranks, own features and labels to the training frame.",
    "check_frame": "Checks the training frame.",
    "train": "Trains on ranks.",
    "request_splits": "Asks each feature holder for the values of the ranks that trees use.",
    "answer_splits": "Answers with randomised domain values, checked against policy and release.",
    "materialise": "Puts thresholds on values for thresholds on ranks.",
    "check_model": "Checks the materialised model.",
    "evaluate": "Evaluates the model on held-out rows; every metric names its mode.",
    "register": "Writes model and card to the registry.",
}
