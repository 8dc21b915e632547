"""What four people ask of the pages, and the way that each of them goes to the answer."""

from dataclasses import dataclass

from tests.federation import FIRST_RUN, SCORING_RUN
from tests.unit.pages.airflow_runs import TRAIN
from tests.unit.pages.long_history import run_of

OPERATOR = "the operator"
OFFICER = "the privacy officer"
SCIENTIST = "the data scientist"
MONTHLY = "who looks once a month"

#: Where one begins: the page that **OpBoost** opens, and the tab to which a message leads.
STATUS = "status"
FAILED = f"run?dag={TRAIN}&run=failed"
RUNNING = f"run?dag={TRAIN}&run=running"

#: Where an answer stands that is in no table and no figure with a name.
BOX = "the box"


@dataclass(frozen=True)
class Click:
    """A link.

    Attributes:
        words: What it says.
        row: A text of the table's row in which it is, where there are several.
        told: What the document calls it; what it says when empty.
    """

    words: str
    row: str = ""
    told: str = ""


@dataclass(frozen=True)
class Question:
    """A way to an answer.

    Attributes:
        who: Who asks.
        asks: What.
        history: Of which of the named histories.
        answer: What is read there, as a regular expression.
        where: What the answer's place is called on its page: a figure's name, a table's title, or
            `BOX` for the first coloured one.
        begins: Path of the page on which one begins.
        clicks: What is clicked.
        row: A text of the row that answers, which is what must be in sight.
    """

    who: str
    asks: str
    history: str
    answer: str
    where: str = BOX
    begins: str = STATUS
    clicks: tuple[Click, ...] = ()
    row: str = ""


LEDGER, STATEMENT, MODELS = Click("Privacy ledger"), Click("Statement"), Click("Models")
QUALITY, MONTH = Click("Data quality"), Click("Statement")
_VERSION = Click(FIRST_RUN, told="the version")
_TOLD = "Disclosed exactly, with no epsilon"
_PERIOD_COST = "What each feature has cost in the period"
_DECIDED = "What was decided"
_COST = "What it has cost in privacy, and what is left"

QUESTIONS = (
    Question(OPERATOR, "what failed?", "failed", r"^bank: check_table has failed\.", begins=FAILED),
    Question(OPERATOR, "why?", "failed", r"income is out of bounds\.", begins=FAILED),
    Question(OPERATOR, "what now?", "failed", r"Fix the table, then start", begins=FAILED),
    Question(
        OPERATOR,
        "what failed last, why, and what now?",
        "failed",
        r"training failed, \d+ min ago.*bank: check_table.*out of bounds.*Fix the table",
    ),
    Question(
        OPERATOR,
        "how far is a run, and on whom does it wait?",
        "running",
        r"1 of 3 tasks have ended.*bank: desensitize waits for a worker of the queue bank"
        r".*credit: train: running, \d+ min: 120 of 400 trees, about 1 min more",
        begins=RUNNING,
    ),
    Question(
        OPERATOR,
        "is something stuck, and since when?",
        "waiting",
        r"bank: desensitize.*, \d+ h \d+ min",
    ),
    Question(
        OPERATOR,
        "when did it last succeed, and when is the next run?",
        "failed",
        "none",
        "Next run",
    ),
    Question(
        OPERATOR,
        "has a table drifted, and in what?",
        "drifted",
        r"income",
        "Drift by feature",
        clicks=(QUALITY, Click("drifted", row=SCORING_RUN)),
    ),
    Question(
        OFFICER,
        "what is left?",
        "capped",
        r"4\s+bank: 4 more runs on changed data within budget_whole of income",
        "Retrainings left",
    ),
    Question(
        OFFICER,
        "until when?",
        "capped",
        r"^Retrainings left\s+4\s+4 more runs .* so far 4 nights, until about 2026-01-14",
        "Retrainings left",
        clicks=(LEDGER,),
    ),
    Question(
        OFFICER,
        "what was refused, and why?",
        "refused",
        r"No budget is left",
        "Refused releases",
        clicks=(LEDGER,),
    ),
    Question(
        OFFICER,
        "what was disclosed exactly?",
        "one",
        r"for each person queried, whether all parties have them",
        _TOLD,
        clicks=(LEDGER, Click(_TOLD)),
    ),
    Question(
        OFFICER,
        "what left in the last thirty days, and what did it cost?",
        "one",
        r"income",
        _PERIOD_COST,
        clicks=(STATEMENT, Click(_PERIOD_COST)),
        row="income",
    ),
    Question(
        OFFICER,
        "who agreed, approved or refused what?",
        "refused",
        r"refused",
        _DECIDED,
        clicks=(STATEMENT, Click(_DECIDED)),
        row="refused",
    ),
    Question(
        OFFICER,
        "is the audit log unbroken?",
        "one",
        r"unbroken",
        "Audit log",
        clicks=(Click("Exchange"),),
    ),
    Question(
        SCIENTIST,
        "is the newest version better, and by how much?",
        "twelve",
        rf"The newest version is {run_of(12)}: rejected.*auc \d\.\d{{4}}.*[+-]\d\.\d{{4}} \(95 %: ",
        clicks=(MODELS,),
    ),
    Question(
        SCIENTIST,
        "what changed between two versions?",
        "twelve",
        r"trees\s+4\s+8\s+differs",
        "Parameters",
        clicks=(MODELS, Click("compare", row=run_of(10))),
        row="trees",
    ),
    Question(
        SCIENTIST,
        "with what was a version trained?",
        "one",
        rf"{FIRST_RUN}.*4 trees, depth 3",
        "Versions",
        clicks=(MODELS,),
        row=FIRST_RUN,
    ),
    Question(
        SCIENTIST,
        "which features does a version go by?",
        "one",
        r"bank.balance",
        "Importance",
        clicks=(MODELS, _VERSION),
    ),
    Question(
        SCIENTIST,
        "how do its scores lie, and have they moved?",
        "scored",
        r"held-out rows.*\d{4}-\d\d-\d\d",
        "Distribution of scores",
        clicks=(MODELS, _VERSION, Click("Distribution of scores")),
    ),
    Question(MONTHLY, "is it on?", "failed", r"by hand", "Is training on", clicks=(MONTH,)),
    Question(
        MONTHLY,
        "is it worth it?",
        "failed",
        r"[+-]\d\.\d{3}\s+95 %: ",
        "Gain over alone",
        clicks=(MONTH,),
    ),
    Question(
        MONTHLY,
        "what does each party bring?",
        "failed",
        r"bank \d\d\.\d %.*credit \d\d\.\d %, shop \d\d\.\d %",
        "Columns that bring most",
        clicks=(MONTH,),
    ),
    Question(
        MONTHLY,
        "what has it cost in privacy, and what is left?",
        "failed",
        r"bank\s+\d",
        _COST,
        clicks=(MONTH,),
        row="bank",
    ),
    Question(
        MONTHLY,
        "what went wrong?",
        "failed",
        r"a run has failed.*bank: check_table: The table of bank does not keep its schema",
        "Incidents",
        clicks=(MONTH,),
    ),
)
