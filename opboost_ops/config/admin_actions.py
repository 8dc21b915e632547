"""What a person may ask of one party through Airflow, and for which reasons."""

from typing import Literal, get_args

AdminAction = Literal["promote", "roll_back", "stop", "resume"]
ADMIN_ACTIONS: tuple[AdminAction, ...] = get_args(AdminAction)

#: Why it is asked, in public words: what is typed into a form lies in Airflow's database, where
#: anyone who sees the DAG reads it. In words of one's own it is said at home.
Reason = Literal[
    "better in use",
    "worse in use",
    "drift",
    "fault in the data",
    "privacy",
    "law or contract",
    "maintenance",
    "a trial",
    "told at home",
]
REASONS: tuple[Reason, ...] = get_args(Reason)
