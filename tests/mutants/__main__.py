"""The mutation score of a part of the package: ``python -m tests.mutants PART --count 150``.

Mutants are drawn by a seed. Each runs in a process of its own, which compiles one module from a
changed syntax tree and leaves all files as they are, until the first of the part's tests fails:
first those that execute the changed lines, then all, for tests share fixtures and imports.
"""

import argparse
import importlib.abc
import importlib.util
import json
import math
import os
import random
import resource
import signal
import sys
import tempfile
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import NoReturn

import pytest

from tests.mutants.lines import Only, Recorder, Trace, traces_of
from tests.mutants.operators import Mutant, count_of, mutant_of

ROOT = Path(__file__).parents[2]

#: A mutant is killed by tests that take so many times the processor seconds of no mutant.
PATIENCE = 5

#: Seconds that tests may take for each processor second of theirs.
_WAITS = 20

#: What is imported once, and is there in every mutant's process.
_LIBRARIES = (
    *("numpy", "polars", "pyarrow.parquet", "pyarrow.feather", "pydantic", "sqlalchemy", "yaml"),
    *("cryptography.hazmat.primitives.ciphers.aead", "hypothesis", "lightgbm", "mpmath", "typer"),
)


@dataclass(frozen=True)
class Part:
    """Modules and the tests that must notice a change of them.

    Attributes:
        modules: Files or folders below the package.
        tests: Tests, the quickest first.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]


PARTS = {
    "mechanisms": Part(("mechanisms",), ("tests/unit/mechanisms",)),
    "privacy": Part(
        ("privacy",),
        (
            "tests/unit/privacy",
            "tests/unit/pipeline/test_agreement.py",
            "tests/unit/mechanisms/test_designed.py",
            "tests/integration/privacy",
            "tests/integration/cli/test_consent_sheet.py",
            "tests/integration/pipeline/party/test_rollback.py",
            "tests/integration/pipeline/steps/test_sealed_runs.py",
            "tests/adversary/test_second_night.py",
            "tests/adversary/test_routed_answers.py",
            "tests/e2e_local/test_private_edges.py",
            "tests/integration/pipeline/runner/test_preflight.py",
            "tests/oracle",
        ),
    ),
    "acceptance": Part(
        ("exchange/acceptance.py", "exchange/order.py", "exchange/contents.py"),
        (
            "tests/integration/exchange/test_acceptance.py",
            "tests/unit/exchange/test_artifact.py",
            "tests/unit/exchange/test_simulated_federations.py",
            "tests/unit/exchange/test_contents.py",
            "tests/unit/exchange/test_parts.py",
            "tests/unit/exchange/test_hostile_stores.py",
            "tests/unit/exchange/sealed/test_sealed_release.py",
            "tests/integration/orchestration/pages/test_exchange_page.py",
            "tests/integration/pipeline/steps/test_sealed_steps.py",
        ),
    ),
    "private": Part(
        ("learning/private",),
        (
            "tests/unit/learning/private",
            "tests/unit/learning/boosters/test_extras.py",
            "tests/statistical/test_model_noise.py",
            "tests/statistical/test_sum_noise.py",
            "tests/unit/learning/federboost/test_private_federboost.py",
        ),
    ),
}


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, and makes it from a syntax tree."""

    def __init__(self, path: Path, mutant: Mutant) -> None:
        names = path.relative_to(ROOT).with_suffix("").parts
        self._name = ".".join(names).removesuffix(".__init__")
        self.path, self.mutant = path, mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def create_module(self, spec: ModuleSpec) -> None:
        """The ordinary module object."""
        del spec

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the changed code."""
        exec(compile(self.mutant.tree, self.path, "exec"), module.__dict__)


def main() -> None:
    """Print the score of a part as JSON, with all survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    part = PARTS[chosen.part]
    every = [(path, at) for path in _files(part) for at in range(count_of(path.read_text()))]
    drawn = random.Random(chosen.seed).sample(every, min(chosen.count, len(every)))
    some = [_Mutated(path, mutant_of(path.read_text(), at)) for path, at in drawn]
    for name in _LIBRARIES:
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)
    with tempfile.TemporaryFile("w+") as table:
        if _outcome(part.tests, None, 0, Recorder(_files(part), table)) != 0:
            raise SystemExit("The tests fail without a mutant.")
        traces = traces_of(table)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = math.ceil(PATIENCE * (usage.ru_utime + usage.ru_stime)) + 10
    survivors = []
    for number, mutated in enumerate(some, 1):
        if _survives(part, mutated, seconds, traces):
            survivors.append(f"{mutated.path.relative_to(ROOT)}: {mutated.mutant.words}")
            sys.stderr.write(f"{survivors[-1]}\n")
        if number % 10 == 0:
            sys.stderr.write(f"{number} of {len(some)}: {len(survivors)} survive\n")
    killed = len(some) - len(survivors)
    low, high = _interval(killed, len(some))
    score = {
        "part": chosen.part,
        "mutants": len(every),
        "drawn": len(some),
        "killed": killed,
        "score": round(killed / len(some), 3),
        "interval": [round(low, 3), round(high, 3)],
        "survivors": survivors,
    }
    sys.stdout.write(f"{json.dumps(score, indent=1)}\n")


def _files(part: Part) -> Iterator[Path]:
    for name in part.modules:
        path = ROOT / "opboost_ops" / name
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def _survives(part: Part, mutated: _Mutated, seconds: int, traces: Sequence[Trace]) -> bool:
    meeting = [each.test for each in traces if each.meets(mutated.path, mutated.mutant.lines)]
    if meeting:
        only = Only(meeting)
        status = _outcome(only.files, mutated, seconds, only)
        # A mutant may rename a test's parameters: no test is then collected.
        if status not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            return False
    return _outcome(part.tests, mutated, seconds) == 0


def _outcome(
    tests: Sequence[str], mutated: _Mutated | None, seconds: int, plugin: object = None
) -> int:
    """The exit status of tests; not 0 if they took too long."""
    pid = os.fork()
    if not pid:
        _run(tests, mutated, seconds, plugin)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run(tests: Sequence[str], mutated: _Mutated | None, seconds: int, plugin: object) -> NoReturn:
    status = 1
    try:
        # Processor seconds, so that a busy machine kills no mutant; one that waits is killed later.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.alarm(_WAITS * seconds)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        if mutated:
            sys.meta_path.insert(0, mutated)
        options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly"]
        options += ["-m", "not deployment"]
        plugins = [plugin] if plugin else []
        status = int(pytest.main([*options, *(str(ROOT / test) for test in tests)], plugins))
    finally:
        os._exit(status)


def _interval(killed: int, drawn: int) -> tuple[float, float]:
    """Wilson's interval of a share, 95 %."""
    z, share = 1.96, killed / drawn
    middle = share + z * z / (2 * drawn)
    spread = z * math.sqrt(share * (1 - share) / drawn + z * z / (4 * drawn * drawn))
    return (middle - spread) / (1 + z * z / drawn), (middle + spread) / (1 + z * z / drawn)


if __name__ == "__main__":
    main()
