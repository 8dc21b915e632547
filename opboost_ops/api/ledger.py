"""What a party has released, and what it cost."""

from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from opboost_ops.config.loading import load_party
from opboost_ops.exchange.party_state import open_state
from opboost_ops.privacy import statement
from opboost_ops.privacy.model_account import ModelAccount, account_of


@dataclass(frozen=True, repr=False)
class Statement:
    """What a party has released, and what it cost.

    Attributes:
        party: Whose.
        columns: A row for each charged column: ``feature``, ``column`` (its UUID), ``mechanism``,
            ``releases``, the public worst case ``loss_1`` and ``loss_whole``, and
            ``retrainings_left``, null where they never end.
        exact: A row for each kind of release that has no epsilon: ``receiver``, ``kind``,
            ``times`` and what it ``discloses``.
        models: What all private models have cost together.
    """

    party: str
    columns: pl.DataFrame
    exact: pl.DataFrame
    models: ModelAccount

    def __repr__(self) -> str:
        return f"Statement({self.party}: {self.columns.height} columns charged)"


def ledger(site: str | Path) -> Statement:
    """Read what a party has released from its ledger.

    Args:
        site: Folder of the party's ``site.yaml``.

    Raises:
        ConfigError: The site or its database cannot be read.
    """
    folder = Path(site)
    declared, policy = load_party(folder / "site.yaml")
    with open_state(declared) as state:
        releases, accounts = state.ledger.releases(), state.ledger.accounts()
    words = statement.protections(releases)
    columns = [
        {
            "feature": found.feature,
            "column": str(uuid),
            "mechanism": words.get(uuid),
            "releases": found.account.releases,
            "loss_1": float(found.account.step),
            "loss_whole": float(found.account.whole),
            "retrainings_left": found.retrainings,
        }
        for uuid, found in statement.forecasts(accounts, policy).items()
    ]
    exact = [asdict(line) for line in statement.exact_lines(releases)]
    return Statement(
        party=declared.party,
        columns=pl.DataFrame(columns, infer_schema_length=None),
        exact=pl.DataFrame(exact, infer_schema_length=None),
        models=account_of(releases, policy.model_budget),
    )
