"""Several parties in threads, whose vectors are added up in the open."""

import threading

import numpy as np


class Table:
    """Where the parties of a test meet."""

    def __init__(self, parties):
        self.parties = parties
        self.names = []
        self._barrier = threading.Barrier(parties)
        self._vectors = {}
        self._decision = None

    def seat(self, number):
        return _Seat(self, number)

    def run(self, work):
        """Call ``work(rounds, number)`` for every party at once; what each returned."""
        found, errors = [None] * self.parties, []

        def one(number):
            try:
                found[number] = work(self.seat(number), number)
            except Exception as error:
                errors.append(error)
                self._barrier.abort()

        threads = [threading.Thread(target=one, args=(i,)) for i in range(self.parties)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return found


class _Seat:
    derives = True

    def __init__(self, table, number):
        self.parties = table.parties
        self._table, self._number = table, number

    def step(self, name, size, vector, decide, form, bounds=()):
        table = self._table
        mine = vector()
        assert mine.shape == (size,) and mine.dtype == np.int64
        table._vectors[self._number] = mine
        table._barrier.wait()
        if self._number == 0:
            table.names.append(str(name))
            made = decide(np.sum(list(table._vectors.values()), axis=0))
            table._decision = form.model_validate_json(made.model_dump_json())
        table._barrier.wait()
        return table._decision
