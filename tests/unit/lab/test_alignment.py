"""The measurement of alignment runs real parties, and its attack works where it must."""

import pytest

from opboost_ops.errors import ConfigError
from opboost_ops.lab import alignment


def test_a_dictionary_finds_everybody_by_a_shared_key_and_nobody_without_one() -> None:
    found = alignment.dictionary(200)
    assert found["keyed"] == 1
    assert found["private"] == 0
    # Half of the twenty that it asked about are customers, of whom there are a hundred.
    assert found["private_asked_about_a_tenth"] == 0.1


@pytest.mark.slow
def test_both_ways_are_measured_by_real_stages() -> None:
    found = alignment.measure(40, 3)
    assert set(found["ways"]["keyed"]["stages"]["label_holder"]) == {"digest_ids", "align"}
    private = found["ways"]["private"]
    assert set(private["stages"]["label_holder"]) == {"digest_ids", "psi_query", "align"}
    assert set(private["stages"]["feature_holder"]) == {"digest_ids", "psi_answer"}
    assert set(private["bytes_a_person"]) == {"digests", "psi_query", "psi_answer", "alignment"}


@pytest.mark.parametrize(("people", "parties"), [(10, 3), (100, 1), (100, 33)])
def test_what_makes_no_sense_is_refused(people: int, parties: int) -> None:
    with pytest.raises(ConfigError, match="are not measured"):
        alignment.measure(people, parties)
