"""Checks in several threads: each is of its own table."""

import threading

import pyarrow as pa

from opboost_ops.domain import Domain
from opboost_ops.quality import suites
from opboost_ops.quality.checks import run_suite
from opboost_ops.quality.suites import Suite

THREADS, TIMES = 8, 4


def suite(at: int) -> Suite:
    return suites.preprocessed_table({f"c{at}": Domain(at, at + 9)}, 10 + at)


def test_each_thread_s_check_is_of_its_own_table() -> None:
    wrong: list[str] = []
    together = threading.Barrier(THREADS)

    def checked(at: int) -> None:
        table = pa.table({f"c{at}": [at + row % 10 for row in range(10 + at)]})
        together.wait()
        for _ in range(TIMES):
            try:
                report = run_suite(suite(at), table)
            except Exception as error:
                wrong.append(f"{at}: {error}")
                continue
            if not report.passed or report.profile[0]["rows"] != 10 + at:
                wrong.append(f"{at}: another table's result")

    threads = [threading.Thread(target=checked, args=(at,)) for at in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
