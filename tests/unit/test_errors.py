"""Messages are sentences, whatever they are made of."""

import pytest

from opboost_ops.errors import ConfigError, Fault


@pytest.mark.parametrize("remedy", ["", "Correct it."])
@pytest.mark.parametrize("faults", [(), (Fault("parties.bank", "is missing", "add it"),)])
def test_an_error_about_a_file_ends_with_a_full_stop(
    remedy: str, faults: tuple[Fault, ...]
) -> None:
    error = ConfigError("cannot be read", remedy, file="federation.yaml", faults=faults)
    assert error.problem.endswith(".")
    assert not error.problem.endswith("..")
    assert str(error).endswith(".")
