"""What people ask of the pages, and the way to each answer."""

from dataclasses import dataclass
from datetime import UTC, datetime

from tests.federation import FIRST_RUN, SECOND_RUN
from tests.unit.pages.airflow_runs import TRAIN
from tests.unit.pages.long_history import run_of

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
        asks: What.
        history: Of which of the named histories.
        answer: What is read there, as a regular expression.
        where: What the answer's place is called on its page: a figure's name, a table's title, or
            `BOX` for the first coloured one.
        begins: Path of the page on which one begins.
        clicks: What is clicked.
        row: A text of the row that answers, which is what must be in sight.
    """

    asks: str
    history: str
    answer: str
    where: str = BOX
    begins: str = STATUS
    clicks: tuple[Click, ...] = ()
    row: str = ""


LEDGER, MODELS, QUALITY = Click("Privacy ledger"), Click("Models"), Click("Data quality")
MONTH = Click(f"{datetime.now(UTC):%B %Y}", told="the month")
_VERSION = Click(FIRST_RUN, told="the version")
_TOLD = "Disclosed exactly, with no epsilon"
_PERIOD_COST = "What each column has cost in the period"
_DECIDED = "What was decided"

QUESTIONS = (
    Question(
        "what failed, why, and what now?",
        "failed",
        r"^bank: check_table has failed\..*income is out of bounds\..*Fix the table, then start",
        begins=FAILED,
    ),
    Question(
        "what failed last, why, and what now?",
        "failed",
        r"training failed, \d+ min ago.*bank: check_table.*out of bounds.*Fix the table",
    ),
    Question(
        "how far is a run, and what does it wait for?",
        "running",
        r"1 of 3 tasks have ended.*bank: desensitize waits for a worker of the queue bank"
        r".*credit: train: running, \d+ min: 120 of 400 trees, about 1 min more",
        begins=RUNNING,
    ),
    Question(
        "is something stuck, and since when?",
        "waiting",
        r"bank: desensitize.*, \d+ h \d+ min",
    ),
    Question(
        "when did it last succeed, and when is the next run?",
        "failed",
        "none",
        "Next run",
    ),
    Question(
        "which columns have drifted?",
        "drifted",
        r"income",
        "Drift by feature",
        clicks=(QUALITY, Click("drifted", row=SECOND_RUN)),
    ),
    Question(
        "how many releases are left?",
        "capped",
        r"\d\s+bank: income: [\d.]+ of 26 spent, one release costs",
        "Releases left",
    ),
    Question(
        "what was refused, and why?",
        "refused",
        r"No budget is left",
        "Refused releases",
        clicks=(LEDGER,),
    ),
    Question(
        "what was disclosed exactly?",
        "one",
        r"for each person queried, whether all parties have them",
        _TOLD,
        clicks=(LEDGER, Click(_TOLD)),
    ),
    Question(
        "what left in the last month, and what did it cost?",
        "one",
        r"income",
        _PERIOD_COST,
        clicks=(LEDGER, MONTH, Click(_PERIOD_COST)),
        row="income",
    ),
    Question(
        "who agreed, approved or refused what?",
        "refused",
        r"refused",
        _DECIDED,
        clicks=(LEDGER, MONTH, Click(_DECIDED)),
        row="refused",
    ),
    Question(
        "is the audit log unbroken?",
        "one",
        r"unbroken",
        "Audit log",
        clicks=(Click("Exchange"),),
    ),
    Question(
        "is the newest version better, and by how much?",
        "twelve",
        rf"The newest version is {run_of(12)}: rejected.*auc \d\.\d{{4}}.*[+-]\d\.\d{{4}} \(95 %: ",
        clicks=(MODELS,),
    ),
    Question(
        "what changed between two versions?",
        "twelve",
        r"trees\s+4\s+8\s+differs",
        "Parameters",
        clicks=(MODELS, Click("compare", row=run_of(10))),
        row="trees",
    ),
    Question(
        "with which parameters was a version trained?",
        "one",
        rf"{FIRST_RUN}.*4 trees, depth 3",
        "Versions",
        clicks=(MODELS,),
        row=FIRST_RUN,
    ),
    Question(
        "which features does a version use most?",
        "one",
        r"bank.balance",
        "Importance",
        clicks=(MODELS, _VERSION),
    ),
    Question(
        "how are its scores distributed, and have they moved?",
        "scored",
        r"held-out rows.*\d{4}-\d\d-\d\d",
        "Distribution of scores",
        clicks=(MODELS, _VERSION, Click("Distribution of scores")),
    ),
    Question(
        "is the federation worth it?",
        "one",
        r"over alone",
        "Versions",
        clicks=(MODELS,),
        row=FIRST_RUN,
    ),
    Question(
        "what does each party bring?",
        "one",
        r"bank.*shop",
        "Importance",
        clicks=(MODELS, _VERSION),
    ),
)
