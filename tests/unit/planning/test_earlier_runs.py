"""What a label holder makes of releases that it has: priors and evidence, through the channels."""

from pathlib import Path

import numpy as np
import pytest

from opboost_ops.boosting.frame import Frame
from opboost_ops.config.columns import released_channels
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import parse_federation
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms import Designed
from opboost_ops.planning.earlier_runs import EarlierRun, evidence_from, prior_from
from opboost_ops.privacy.design import design
from opboost_ops.privacy.division import Divider
from opboost_ops.privacy.planner import Caps
from tests.federation import Workspace

COLUMNS = ("income", "balance", "overdrafts")


def federation(trained_once: Workspace, **mechanism: object) -> Federation:
    """The bank alone, with three columns that one mechanism releases."""
    data = trained_once.declared.model_dump(mode="json")
    del data["parties"]["shop"]
    bank = data["parties"]["bank"]
    bank["features"] = {
        name: {**bank["features"][name], "mechanism": mechanism, "epsilons": []} for name in COLUMNS
    }
    return parse_federation(data, "federation.yaml")


def run(found: Federation, rows: int, shares: np.ndarray) -> EarlierRun:
    """A run whose first column is a label's only cause; values are drawn by shares."""
    random = np.random.default_rng(11)
    codes = random.choice(len(shares), size=(rows, len(COLUMNS)), p=shares)
    label = (codes[:, 0] + random.normal(0, 1, rows) > 4.5).astype(float)
    columns = []
    for j, name in enumerate(COLUMNS):
        law = released_channels(found)[f"bank.{name}"].probabilities()
        steps = law.cumsum(axis=1)[codes[:, j]]
        out = (random.random(rows)[:, None] > steps[:, :-1]).sum(axis=1)
        columns.append(out + 1.0)
    names = tuple(f"bank.{name}" for name in COLUMNS)
    frame = Frame(names, np.asfortranarray(np.column_stack(columns)), (), names)
    return EarlierRun(found, "0" * 16, frame, label, 2, Path())


def test_the_prior_is_that_of_the_values_and_not_of_what_was_released(
    trained_once: Workspace,
) -> None:
    shares = np.array([0.02, 0.03, 0.05, 0.1, 0.3, 0.3, 0.1, 0.05, 0.03, 0.02])
    found = run(federation(trained_once, name="geometric", epsilon=1.0), 40_000, shares)
    prior = prior_from(found, "bank.income")
    seen = np.bincount(found.frame.matrix[:, 0].astype(int) - 1, minlength=10) / 40_000
    assert np.abs(prior - shares).max() < 0.03
    assert np.abs(prior - shares).sum() < 0.5 * np.abs(seen - shares).sum()
    assert (prior_from(found, "bank.income") == prior).all()
    # A channel that is made for it has a lower cost under it than one for even values.
    even, fitted = (design(Domain(1, 10), 0.8, 3.0, prior=p) for p in (None, prior.tolist()))
    assert even is not None and fitted is not None
    distance = np.abs(np.subtract.outer(np.arange(10), np.arange(10)))

    def cost(mechanism: Designed) -> float:
        channel = mechanism.channel(Domain(1, 10))
        used = distance[:, channel.outputs - 1]
        return float(shares @ (channel.probabilities() * used).sum(axis=1))

    assert cost(fitted.mechanism) < cost(even.mechanism)


def test_an_output_that_nobody_had_is_one_message(trained_once: Workspace) -> None:
    found = run(federation(trained_once, name="geometric", epsilon=8.0), 300, np.eye(10)[4])
    with pytest.raises(ConfigError, match=r"Of bank\.income run 0{16} does not show which value"):
        prior_from(found, "bank.income")
    with pytest.raises(ConfigError, match=r"bank\.balance"):
        evidence_from(found, "bank", COLUMNS)


@pytest.mark.slow
def test_the_column_that_the_label_goes_with_is_proposed(trained_once: Workspace) -> None:
    """Also of a channel with fewer outputs than values."""
    made = design(Domain(1, 10), 0.3, 1.0)
    assert made is not None
    table = made.mechanism.model_dump(mode="json")
    assert len(table["table"]["outputs"]) < 10
    for mechanism in ({"name": "geometric", "epsilon": 0.3}, table):
        found = run(federation(trained_once, **mechanism), 4000, np.full(10, 0.1))
        evidence = evidence_from(found, "bank", COLUMNS)
        assert evidence.names == COLUMNS
        divider = Divider(evidence, Domain(1, 10), Caps(step=1.0))
        assert divider.best(divider.units).shares == {"income": divider.units}
