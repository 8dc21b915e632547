"""What a migration changes in the accounts of a party, for the one who runs it to read."""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from uuid import UUID

from opboost_ops.privacy.accountant import Account, Loss, accounts, exact
from opboost_ops.privacy.events import Release


def spent_before(releases: Iterable[Release], version: int) -> dict[UUID, Loss]:
    """The loss(R - L) of each column as the former release counted it.

    Args:
        releases: The former release's entries.
        version: Of its state: 1 for 0.1.0, 2 for 0.2.0.
    """
    if version > 1:
        return {column: account.whole for column, account in accounts(releases).items()}
    # 0.1.0 charged each different draw of a column, and of its missing bit, once.
    losses: dict[tuple[UUID, str, str], Loss] = {}
    for release in releases:
        if release.account == "exact" or release.column is None or release.loss is None:
            continue
        bit = (release.feature or "").partition("=")[2]
        drawn = release.draws or release.artifact
        losses.setdefault((release.column, bit, drawn), exact(release.loss.loss[-1]))
    spent: dict[UUID, Loss] = {}
    for (column, _, _), loss in losses.items():
        spent[column] = spent.get(column, Fraction(0)) + loss
    return spent


def changes(
    party: str, before: Mapping[UUID, Loss], after: Mapping[UUID, Account]
) -> Iterator[str]:
    """A line for each account: what it has spent before and after the migration.

    Args:
        party: Whose accounts they are.
        before: By `spent_before`.
        after: The migrated accounts.
    """
    for column, account in after.items():
        was, now = f"{float(before.get(column, 0)):.4f}", f"{float(account.whole):.4f}"
        change = "as before the migration" if was == now else f"and was {was} before the migration"
        draws = "1 draw" if account.releases == 1 else f"{account.releases} draws"
        yield f"{party}: {account.feature}: loss(R - L) is {now}, {change} ({draws})."
