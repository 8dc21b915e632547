"""Random histories of a party: tables, runs and agreements that change, and what goes wrong."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

#: What somebody may have declared; each alters one thing that a declaration must tell apart.
DECLARATIONS = ("first", "id", "raw_id", "map", "channel", "missing", "once", "yearly", "every_run")

#: Values of the domain; a person whose value is 0 is in the table without one.
VALUES = (0, 1, 2, 3)

#: What people or accidents do.
Kind = Literal["forget", "end", "lose", "restore"]
KINDS: tuple[Kind, ...] = get_args(Kind)

#: A table: the value of each person who is in it.
Table = Mapping[str, int]


@dataclass(frozen=True)
class Run:
    """A run, which reads a table, takes its releases and publishes them.

    Attributes:
        name: The run's id; the same one again is a retry.
        declared: Which declaration it has.
        receiver: To whom.
        year: Of the plan's day.
        table: What it reads.
        beside: Another run that reads its table before this one takes its releases, and takes and
            publishes them afterwards.
        crash: At which of its writes the process dies first; it is then tried again.
        between: What people do between its reading and its taking.
    """

    name: str
    declared: str
    receiver: str
    year: int
    table: Table
    beside: "Run | None" = None
    crash: int | None = None
    between: "Act | None" = None


@dataclass(frozen=True)
class Act:
    """What people or accidents do between two runs.

    Attributes:
        kind: Whose pins are removed (``forget``); all releases end (``end``); the newest pin file
            is gone (``lose``); folder and database are as they once were (``restore``), after which
            the party recovers.
        person: Who is forgotten.
    """

    kind: Kind
    person: str = ""


Event = Run | Act


def history(seed: int, agreed: Sequence[str] = (), length: int = 8) -> list[Event]:
    """A random history.

    Args:
        seed: Of the choices.
        agreed: The declarations in it; up to three at random without any.
        length: How many events.
    """
    choose = random.Random(seed)
    people = [f"person {number}" for number in range(choose.randint(1, 3))]
    declared = agreed or choose.sample(DECLARATIONS, choose.choice([1, 1, 2, 3]))
    receivers = choose.choice([["bank"], ["bank"], ["bank", "shop"]])
    year = 2026
    values = {person: choose.choice(VALUES) for person in people}
    events: list[Event] = []
    runs: list[Run] = []

    def run(name: str) -> Run:
        table = {p: v for p, v in values.items() if choose.random() < 0.8}
        crash = choose.randint(1, 12) if choose.random() < 0.2 else None
        return Run(
            name, choose.choice(declared), choose.choice(receivers), year, table, None, crash
        )

    def act() -> Act:
        kind = choose.choice(KINDS)
        return Act(kind, choose.choice(people) if kind == "forget" else "")

    for number in range(length):
        for person in people:
            if choose.random() < 0.4:
                values[person] = choose.choice(VALUES)
        if choose.random() < 0.15:
            year += 1
        kind = choose.random()
        if kind < 0.15 and number:
            events.append(act())
        elif kind < 0.25 and runs:
            # A retry of an earlier run, in which all but the table is as it was.
            events.append(replace(choose.choice(runs), beside=None, crash=None, between=None))
        else:
            new = run(f"{number:016x}")
            if choose.random() < 0.25:
                new = replace(new, beside=replace(run(f"{number:015x}b"), crash=None))
            elif choose.random() < 0.1:
                new = replace(new, between=act())
            events.append(new)
            runs.append(new)
    return events
