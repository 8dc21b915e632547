"""Planted errors: each is one that a careful person could make, and the suite finds each.

A mutant is a replacement in the source text, made in a copy of the package and the tests. Named
tests of the suite must then fail by their assertions, and pass in a copy without it. A source
that has moved on fails here with the text that is no longer found.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = "tests/unit/mechanisms"


@dataclass(frozen=True)
class Mutant:
    """What is replaced in a file, and tests of which every one must fail then."""

    file: str
    changes: dict[str, str]
    found_by: tuple[str, ...]


MUTANTS = {
    "half of epsilon forgotten": Mutant(
        "mechanisms/parameters.py",
        {"-epsilon / 2 * distance": "-epsilon * distance"},
        (f"{UNIT}/test_exact_channels.py::test_global_map_at_every_distance[5]",),
    ),
    "partitions anchored at 0": Mutant(
        "mechanisms/parameters.py",
        {
            "return cls(domain, tuple(range(domain.lower, domain.upper + 1, theta)))": (
                "cuts = [v for v in range(domain.lower + 1, domain.upper + 1) if v % theta == 0]\n"
                "        return cls(domain, (domain.lower, *cuts))"
            )
        },
        (
            f"{UNIT}/test_exact_channels.py::"
            "test_the_table_that_is_sampled_is_the_channel_and_keeps_its_bound[7]",
            f"{UNIT}/test_exact_channels.py::test_adj_map_against_its_definition",
        ),
    ),
    "a partition ends one value early": Mutant(
        "mechanisms/parameters.py",
        {
            "ends = (*self.starts[1:], self.domain.upper + 1)": (
                "ends = (*self.starts[1:], self.domain.upper)"
            )
        },
        (f"{UNIT}/test_exact_channels.py::test_uneven_partitions",),
    ),
    "an edge belongs to the partition before it": Mutant(
        "mechanisms/parameters.py",
        {"bisect_right(self.starts, value) - 1": "bisect_right(self.starts, value - 1) - 1"},
        (f"{UNIT}/test_exact_channels.py::test_uneven_partitions",),
    ),
    "an edge belongs to the cell after it": Mutant(
        "domain.py",
        {'inside, side="left")': 'inside, side="right")'},
        ("tests/unit/test_domain.py::test_log1p_and_edges_by_hand",),
    ),
    "a stream for all columns": Mutant(
        "mechanisms/noise.py",
        {'b"seeded:" + hashlib.sha256(place.encode()).digest()': 'b"seeded:"'},
        (f"{UNIT}/test_noise.py::test_a_seeded_stream_follows_from_seed_and_place_alone",),
    ),
    "bounds read off the data": Mutant(
        "domain.py",
        {
            "lower, upper = self.bounds\n        inside": (
                "lower, upper = values.min(), values.max()\n        inside"
            )
        },
        (f"{UNIT}/test_errata.py::test_bounds_of_the_data_move_everybody",),
    ),
    "columns chosen by multiplication": Mutant(
        "mechanisms/channel.py",
        {
            "columns = 2**bits": "columns = len(counts[0])",
            "column = (words >> rest_bits).astype(np.int64)": (
                "n = np.uint64(self.threshold.shape[1])\n"
                "        low, high = words & np.uint64(2**32 - 1), words >> np.uint64(32)\n"
                "        column = (high * n + (low * n >> np.uint64(32)) >> np.uint64(32))"
                ".astype(np.int64)"
            ),
            "rest = words & np.uint64((1 << (64 - self.bits)) - 1)": "rest = words * n // n",
            "rows.astype(np.int64) * (1 << self.bits)": (
                "rows.astype(np.int64) * self.threshold.shape[1]"
            ),
            "capacity = TOTAL >> self.bits": "capacity = TOTAL // self.threshold.shape[1]",
        },
        (
            f"{UNIT}/test_exact_channels.py::"
            "test_the_table_that_is_sampled_is_the_channel_and_keeps_its_bound[7]",
        ),
    ),
    "ranks that break ties": Mutant(
        "pipeline/steps/rank.py",
        {
            "smallest_integers(dense_ranks(released, present, scratch), scratch)": (
                "smallest_integers(1 + np.argsort(np.argsort(released)))"
            )
        },
        ("tests/mutants/test_ties.py::test_equal_values_share_a_rank",),
    ),
    "a key that every draw shares": Mutant(
        "mechanisms/noise.py",
        {"return cls(os.urandom(32))": "return cls(bytes(32))"},
        (
            f"{UNIT}/test_noise.py::test_a_stream_goes_on_and_no_two_fresh_ones_are_equal",
            f"{UNIT}/test_noise.py::test_two_draws_are_independent",
        ),
    ),
    "else uniformly one of all buckets": Mutant(
        "mechanisms/randomised_response.py",
        {
            "[stay if b == own else Decimal(1) for b in range(buckets)]": (
                "[(stay if b == own else 0) + Decimal(buckets - 1) / buckets"
                " for b in range(buckets)]"
            )
        },
        (
            f"{UNIT}/test_exact_channels.py::"
            "test_the_table_that_is_sampled_is_the_channel_and_keeps_its_bound[7]",
            "tests/statistical/test_triple.py::"
            "test_the_claimed_scale_is_accepted_and_30_percent_off_is_rejected"
            "[Bucketed randomised response, epsilon 1, 4 buckets, 10 values, x = 4]",
        ),
    ),
    "words that are used twice": Mutant(
        "mechanisms/noise.py",
        {
            "self._stream.update(bytes(8 * count))": (
                "Words.__init__(self, self.key) or self._stream.update(bytes(8 * count))"
            ),
            "        self._stream = Cip": "        self.key = key\n        self._stream = Cip",
        },
        (
            f"{UNIT}/test_noise.py::test_a_stream_goes_on_and_no_two_fresh_ones_are_equal",
            f"{UNIT}/test_noise.py::test_chunks_share_one_stream",
        ),
    ),
    "tails that round to zero": Mutant(
        "mechanisms/channel.py",
        {"counts[i] = FLOOR": "counts[i] = 0"},
        (
            f"{UNIT}/test_exact_channels.py::"
            "test_the_table_that_is_sampled_is_the_channel_and_keeps_its_bound[64]",
        ),
    ),
    "half of epsilon unused": Mutant(
        "mechanisms/geometric.py",
        {"(-Decimal(self.epsilon)).exp()": "(-Decimal(self.epsilon) / 2).exp()"},
        (
            f"{UNIT}/test_exact_channels.py::"
            "test_the_table_that_is_sampled_is_the_channel_and_keeps_its_bound[7]",
            f"{UNIT}/test_geometric.py::test_the_loss_is_epsilon_a_step_to_nine_digits[10-1.0]",
        ),
    ),
    "a certificate that is not looked at": Mutant(
        "mechanisms/channel.py",
        {"max(a, b) << _BITS <=": "min(a, b) << _BITS <="},
        (f"{UNIT}/test_geometric.py::test_one_count_too_many_is_not_certified",),
    ),
    "two bits of a category cost epsilon each": Mutant(
        "mechanisms/randomised_response.py",
        {
            "[Decimal(self.epsilon).exp(), unit], [unit, unit]": (
                "[(2 * Decimal(self.epsilon)).exp(), unit], [unit, unit]"
            )
        },
        (f"{UNIT}/test_exact_channels.py::test_bits_have_their_closed_forms[1.0]",),
    ),
    "no words drawn where every value is the least": Mutant(
        "mechanisms/release.py",
        {
            "words.take(len(inputs))": "(words.take(len(inputs)) if inputs.max() > 0 else "
            "inputs.view(np.uint64))"
        },
        (f"{UNIT}/test_operations.py::test_the_same_operations_whatever_the_value",),
    ),
}


def copy_of_the_project(folder: Path) -> Path:
    """The package, the tests, and the documents that they read, as they are now."""
    for name in ("opboost_ops", "docs", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def run(folder: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run tests in a copy, without the plugins and fixtures that they have no need of."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "COLUMNS": "1000",  # so that the summary has the errors in full
    }
    options = ("-p", "no:cacheprovider", "--noconftest", "--tb=no", "-rf")
    command = [sys.executable, "-m", "pytest", *options, *tests]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_without_a_mutant_all_of_them_pass(tmp_path: Path) -> None:
    tests = {test for mutant in MUTANTS.values() for test in mutant.found_by}
    done = run(copy_of_the_project(tmp_path), tuple(sorted(tests)))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    source = copy_of_the_project(tmp_path) / "opboost_ops" / mutant.file
    text = source.read_text()
    for old, new in mutant.changes.items():
        assert text.count(old) == 1, f"{mutant.file} has no single {old!r}: adapt the mutant"
        text = text.replace(old, new)
    source.write_text(text)
    done = run(tmp_path, mutant.found_by)
    assert done.returncode == 1, done.stdout + done.stderr
    for test in mutant.found_by:
        failed = rf"^FAILED {re.escape(test)}(\[.*?\])? - (assert |AssertionError)"
        assert re.search(failed, done.stdout, re.M), done.stdout
