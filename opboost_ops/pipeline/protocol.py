"""The protocol: the phases and steps of a run, each declared once.

DAGs, tasks, their dependencies, the code that runs, descriptions, and the table in
docs/architecture.md are derived from the two tables here and from `exchange.kinds.KINDS`.

An Airflow task costs a process, a slot and a reading of the plan, while most steps take less than a
second. So a task runs a chain of steps of one party. A chain ends where a person may have to
inspect, clear or repeat something: each data-quality check is a separate task.

Imports are light, because DAG files are parsed often.
"""

from collections.abc import Callable

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.kinds import EVERY, HORIZONTAL, QUERIED, RELEASED, ROUTED, TRAIN, RunType
from opboost_ops.pipeline.step_types import Disclosure, Phase, Step

_SCORE: tuple[RunType, ...] = (
    "score_local", "score_desensitised", "score_routed", "score_horizontal"
)  # fmt: skip


def _rows(federation: Federation) -> str:
    # In private training the sums disclose the number of rows with noise.
    return "how many rows this party trains on" if federation.training.private is None else ""


def _scored(federation: Federation) -> str:
    # In other modes it is redacted: the number of common people is private.
    return "how many new rows were scored" if federation.scoring.mode == "local" else ""


def _metrics(federation: Federation) -> str:
    private = federation.training.private
    if private is None:
        return (
            "metrics of the model, and by how much it is better than another, with an interval: "
            "functions of the held-out rows and their labels"
        )
    if private.metrics_epsilon is not None:
        return "how many rows this party holds out"
    return "metrics of the model: exact functions of this party's held-out rows and their labels"


def _champion(federation: Federation) -> str:
    private = federation.training.private
    if private is not None and private.metrics_epsilon is not None:
        return ""
    return "whether the model became champion, a function of the held-out rows"


def _sums(topic: str) -> Callable[[Federation], str]:
    def text(federation: Federation) -> str:
        from opboost_ops.learning.federboost.declared import disclosures  # Slow to import.

        return disclosures(federation).get(topic, "")

    return text


#: All phases, in order; each begins when the one before has ended everywhere.
PHASES = (
    Phase(
        "open",
        "open run",
        "Publishes the plan, checks its own table, computes person keys.",
        ("label_holder", "active"),
        EVERY,
    ),
    Phase("own", "own table", "Checks its own table.", ("passive",), HORIZONTAL, beside=True),
    Phase(
        "release",
        "protected release",
        "Checks and randomises the party's whole table on its own site.",
        ("feature_holder",),
        QUERIED,
        beside=True,
    ),
    Phase(
        "psi",
        "private set intersection",
        "Publishes each person's sealed row and answers the label holder's blinded points. The "
        "party learns how many points there are, and no ID.",
        ("feature_holder",),
        QUERIED,
    ),
    Phase(
        "train",
        "training",
        "Opens common rows, joins labels, trains, requests split values.",
        ("label_holder",),
        TRAIN,
    ),
    Phase(
        "answer",
        "split values",
        "Returns the randomised values of the ranks that trees use.",
        ("feature_holder",),
        TRAIN,
    ),
    Phase(
        "publish",
        "model",
        "Replaces ranks by values, checks the model, evaluates and registers it.",
        ("label_holder",),
        TRAIN,
    ),
    Phase(
        "route",
        "routes",
        "Returns on which side of the model's thresholds each row lies.",
        ("feature_holder",),
        ("train_routed",),
    ),
    Phase(
        "register",
        "evaluation",
        "Evaluates the model in the scoring mode and registers it.",
        ("label_holder",),
        ("train_routed",),
    ),
    Phase(
        "learn",
        "joint training",
        "Trains with all parties at the same time by masked sums, then checks, evaluates and "
        "registers the common model on its own site.",
        ("active", "passive"),
        ("train_horizontal",),
    ),
    Phase(
        "announce",
        "announcement",
        "Announces a new champion.",
        ("active",),
        ("train_horizontal",),
    ),
    Phase(
        "score",
        "scores",
        "Scores the new rows, checks the scores and writes them.",
        ("label_holder", "active", "passive"),
        _SCORE,
    ),
)

#: All steps, in execution order within a phase. `open_run`, which is in no phase, runs first.
_STEPS = (
    Step(
        "check_table",
        "Checks the raw table against its declaration. Details stay in the home folder.",
        tasks=("open.check_table", "own.check_table", "release.check_table"),
        discloses=(
            Disclosure(
                "whether this run could use the party's table, and if not, in which task it "
                "stopped",
                "failure",
            ),
        ),
        problem="The table of {} cannot be used in this run.",
        checks=("raw_table", "new_rows"),
        module="checks",
    ),
    Step(
        "check_drift",
        "Compares the table with the champion's training table. The result stays in the home "
        "folder.",
        tasks=("open.check_table", "own.check_table", "release.check_table"),
        checks=("drift",),
    ),
    Step(
        "digest_ids",
        "Computes person keys, which stay in the home folder; with several feature holders each "
        "publishes shares.",
        tasks=("open.psi_query", "release.desensitize"),
        runs=QUERIED,
        publishes=("shares",),
    ),
    Step(
        "psi_query",
        "Sends every feature holder the blinded IDs that are new this month.",
        tasks=("open.psi_query",),
        runs=QUERIED,
        publishes=("psi_query",),
    ),
    Step(
        "preprocess",
        "Maps raw values to integers of the declared domain.",
        tasks=("release.desensitize",),
        checks=("preprocessed_table",),
    ),
    Step(
        "desensitize",
        "Randomises the integers by the declared mechanism and charges the ledger.",
        tasks=("release.desensitize",),
    ),
    Step(
        "rank",
        "Replaces randomised values by dense ranks; the table from rank to value stays at home.",
        tasks=("release.desensitize",),
        runs=TRAIN,
    ),
    Step(
        "check_release",
        "Checks the release before anything is published.",
        tasks=("release.check_release",),
        runs=RELEASED,
        checks=("release", "attacks"),
        module="checks",
    ),
    # Only steps that need the query: earlier tasks do what a feature holder can compute before.
    Step(
        "seal",
        "Seals each row, and publishes ranks, or values of new rows, as a signed artifact.",
        tasks=("psi.psi_answer",),
        runs=RELEASED,
        publishes=("ranks", "values"),
    ),
    Step(
        "psi_answer",
        "Raises blinded points to the party's own exponent, within its policy.",
        tasks=("psi.psi_answer",),
        reads=("psi_query",),
        publishes=("psi_answer",),
    ),
    Step(
        "open_rows",
        "Verifies all releases, opens the common people's rows, sets order and holdout.",
        tasks=("train.assemble", "score.score"),
        runs=QUERIED,
        reads=("psi_answer", "shares", "ranks", "values", "routes"),
        discloses=(
            Disclosure(
                "whether this run had enough usable common rows, and if not, in which task it "
                "stopped",
                "failure",
            ),
        ),
        problem="This run does not have enough usable common rows at {}.",
    ),
    Step(
        "assemble",
        "Joins opened ranks, own features and labels into the training frame.",
        tasks=("train.assemble",),
    ),
    Step(
        "check_frame",
        "Checks the training frame.",
        tasks=("train.check_frame",),
        checks=("training_frame",),
        module="checks",
    ),
    Step("train", "Trains on ranks.", tasks=("train.train",), charges="model"),
    # A task of its own, because interrupted rounds are retried.
    Step(
        "encode_rows",
        "Maps raw values to integers of the declared domain; sets held-out rows aside.",
        tasks=("learn.encode_rows",),
        discloses=(Disclosure(_rows),),
    ),
    Step(
        "boost",
        "Trains with all parties at once by signed messages: each sends masked sums, the active "
        "party decides. Waits for the other parties and resumes where it stopped.",
        tasks=("learn.boost",),
        reads=("round_key", "masked", "decision"),
        publishes=("round_key", "masked", "decision"),
        discloses=(
            *(
                Disclosure(_sums(topic), "messages", topic, "label_holder")
                for topic in ("facts", "lookup", "histograms")
            ),
            Disclosure(_sums("model"), "messages", "model", "parties"),
        ),
        charges="model",
        approval="training of {federation} together with others",
    ),
    Step(
        "request_splits",
        "Requests the values of the ranks that trees use from each feature holder.",
        tasks=("train.train",),
        reads=("ranks",),
        publishes=("split_request",),
    ),
    Step(
        "answer_splits",
        "Returns randomised domain values, checked against policy and release.",
        tasks=("answer.answer_splits",),
        reads=("split_request",),
        publishes=("split_values",),
    ),
    Step(
        "materialise",
        "Replaces thresholds on ranks by thresholds on values.",
        tasks=("publish.materialise",),
        reads=("split_request", "split_values"),
    ),
    Step(
        "check_model",
        "Checks the materialised model.",
        tasks=("publish.check_model", "learn.check_model"),
        checks=("model",),
    ),
    Step(
        "request_routes",
        "Requests all comparisons with the model's thresholds from each feature holder.",
        tasks=("open.psi_query", "publish.request_routes"),
        runs=ROUTED,
        reads=("split_values",),
        publishes=("route_request",),
    ),
    Step(
        "answer_routes",
        "Returns every comparison of every row, within policy and ledger.",
        tasks=("psi.psi_answer", "route.answer_routes"),
        runs=ROUTED,
        reads=("route_request",),
        publishes=("routes",),
        approval="routed answer of {federation} to {receiver}",
    ),
    Step(
        "evaluate",
        "Evaluates the model on held-out rows; every metric names its mode.",
        tasks=("publish.register", "register.register"),
        reads=("routes",),
        charges="metrics",
    ),
    Step(
        "evaluate_own",
        "Evaluates the common model on this party's own held-out rows.",
        tasks=("learn.register",),
        discloses=(Disclosure(_metrics),),
        charges="metrics",
    ),
    Step(
        "register",
        "Writes model and model card to the registry.",
        tasks=("publish.register", "register.register", "learn.register"),
        reads=("ranks",),
        discloses=(Disclosure(_champion),),
    ),
    # Airflow learns of a new champion from this step alone: without one it is skipped.
    Step(
        "announce_champion",
        "Announces a new champion; skipped if the gate rejected the model.",
        tasks=(
            "publish.announce_champion",
            "register.announce_champion",
            "announce.announce_champion",
        ),
        discloses=(Disclosure("whether the model of this run became the champion"),),
        emits="champion",
    ),
    Step(
        "score",
        "Predicts for every new row that the mode can score.",
        tasks=("score.score",),
        discloses=(Disclosure(_scored),),
    ),
    Step(
        "check_scores",
        "Checks the scores.",
        tasks=("score.check_scores",),
        checks=("scores",),
        module="checks",
    ),
    Step(
        "write_scores",
        "Adds the scores to the label holder's folder; scoring again adds nothing.",
        tasks=("score.write_scores",),
        emits="scores",
    ),
)

#: Steps by name.
STEPS = {step.name: step for step in _STEPS}
