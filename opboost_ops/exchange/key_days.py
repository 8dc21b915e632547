"""Which day decides about a run's keys, and whether one was good on it."""

from datetime import date, timedelta

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.rejection import Rejected

#: For so many days what a run makes is judged by the day on which it was opened: a run ends within
#: a week (`Schedule.timeout_hours`), and clocks differ by less than a day.
RUN_DAYS = 8


def require_recent(day: date, today: date, what: str) -> None:
    """Refuse a plan of another time: its day would make expired keys valid.

    Args:
        day: On which it says that it was opened.
        today: By this party's clock.
        what: Name of its place, for the error.

    Raises:
        Rejected: It lies ahead, or too long ago.
    """
    if not -1 <= (today - day).days <= RUN_DAYS:
        raise Rejected(
            "wrong_day", f"{what}: it states {day} as its day, but today is {today} here."
        )


def judged_by(opened: date | None, today: date) -> date:
    """The day by which a run's keys are judged.

    Args:
        opened: When it was opened, as its plan or this party's own memory says.
        today: By this party's clock.
    """
    if opened is None or today - opened > timedelta(days=RUN_DAYS):
        return today
    return opened


def require_good(federation: Federation, sender: str, key: str, day: date, what: str) -> None:
    """Refuse what is signed by a key that is not good on a day.

    Args:
        federation: The plan's.
        sender: Who signed.
        key: With which of its keys.
        day: As of when.
        what: Name of the artifact's place, for the error.

    Raises:
        Rejected: Its time has passed, or has not come.
    """
    if fault := federation.parties[sender].fault_on(key, day):
        raise Rejected("expired_key", f"{what}: the signing key of {sender} {fault}.")
