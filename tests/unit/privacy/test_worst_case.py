"""The public worst case against what single cells have released, over all small histories."""

import itertools

import numpy as np

from opboost_ops.privacy.worst_case import CellBound

VALUES, NIGHTS = 4, 4
CAPS = (1, 2, 3, None)

#: Every history of a cell: absent (-1) or one of the values each night, shape (people, nights).
EVERYBODY = np.array(list(itertools.product(range(-1, VALUES), repeat=NIGHTS)))


class Cells:
    """The plainest model of cell states: of everybody at once."""

    def __init__(self) -> None:
        self.seen = np.zeros((len(EVERYBODY), VALUES), dtype=bool)
        self.last = np.zeros(len(EVERYBODY), dtype=int)
        self.released = self.seen.copy()

    def night(self, night: int, most: int | None) -> None:
        value = EVERYBODY[:, night]
        here, rows = value >= 0, np.arange(len(value))
        new = ~self.seen[rows, value] & here
        held = new & (self.seen.sum(axis=1) >= (VALUES if most is None else most))
        out = np.where(held, self.last, value)
        self.last = np.where(here, out, self.last)
        self.seen[rows[here], out[here]] = True
        self.released[rows[here], out[here]] = True

    def most(self) -> int:
        return int(self.released.sum(axis=1).max())


def test_it_is_what_some_person_may_have_released_and_nobody_more() -> None:
    """625 people with every history of four nights: neither too small nor too large."""
    for caps in itertools.product(CAPS, repeat=NIGHTS):
        cells, worst = Cells(), CellBound()
        for night, most in enumerate(caps):
            cells.night(night, most)
            worst = worst.after_draw(most, VALUES)
            assert cells.most() == worst.values, caps
            assert worst.number == night + 1


def test_nobody_releases_more_after_a_state_was_lost() -> None:
    """The state after any night is put back after any later one, or none at all."""
    nights = itertools.combinations(range(NIGHTS + 1), 2)
    every = itertools.product(itertools.product(CAPS, repeat=NIGHTS), nights)
    for caps, (lost, kept) in every:
        cells, worst, states = Cells(), CellBound(), []
        for night, most in enumerate(caps):
            states.append((cells.seen.copy(), cells.last.copy()))
            if night == kept:
                cells.seen, cells.last = (part.copy() for part in states[lost])
                worst = worst.after_loss(most, int(cells.seen.sum(axis=1).max()), VALUES)
            cells.night(night, most)
            worst = worst.after_draw(most, VALUES)
            assert cells.most() <= worst.values <= VALUES, caps


def test_a_raised_cap_lets_it_grow_and_a_lowered_one_does_not() -> None:
    worst = CellBound()
    told = []
    for most in (2, 2, 2, 1, 3, 3, None, None, 2):
        worst = worst.after_draw(most, 5)
        told.append(worst.values)
    assert told == [1, 2, 2, 2, 3, 3, 4, 5, 5]
    assert worst.steps_left(2, 5) == 0
    assert CellBound(2).steps_left(4, 10) == 2
    assert CellBound(2).steps_left(None, 10) == 8


def test_the_sum_of_a_lost_state_is_its_base_and_the_cap() -> None:
    worst = CellBound(2, 0, 365).after_loss(2, 0, 10)
    assert (worst.values, worst.base) == (4, 2)
    # The cap is raised: cells of the new state may grow, and the account grows with them.
    assert worst.after_draw(4, 10).values == 5
    assert worst.after_draw(2, 10).values == 4


def test_a_bit_never_costs_more_than_twice() -> None:
    worst = CellBound()
    for _ in range(9):
        worst = worst.after_draw(None, 2)
    assert worst.values == 2
    # Taken over from a ledger that had charged more: it stays, and does not grow.
    assert CellBound(7, 0, 1).after_draw(None, 2).values == 7
