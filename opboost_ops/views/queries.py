"""How many people label holders have queried: each can test a guess of who is in the table."""

from collections.abc import Collection, Iterable

from opboost_ops.config.policy import AlignmentRules
from opboost_ops.display.blocks import Block, Note
from opboost_ops.exchange.party_state import PartyState
from opboost_ops.privacy.ledger import Dated


def queries(
    state: PartyState, rules: AlignmentRules, entries: Iterable[Dated], federations: Collection[str]
) -> list[Block]:
    """How many guesses have been possible so far, beside their caps; empty where nobody asked.

    Args:
        state: The party's.
        rules: Its policy's.
        entries: All of its ledger.
        federations: Names of those that are shown.
    """
    answers = [release for _, release in entries if release.kind == "psi_answer"]
    found = state.query_counts.answered(answers)
    said = tuple(
        f"{one.receiver} in {one.federation}: {one.counted.epoch:,} different people in "
        f"{one.epoch} ({_cap(rules.max_new_queries)}), {one.counted.ever:,} in all months "
        f"({_cap(rules.max_queries_total)})"
        for one in found
        if one.federation in federations
    )
    text = "People queried by label holders: each query can test a guess of who is in this table."
    return [Note("", text, "", said)] if said else []


def _cap(most: int | None) -> str:
    return "no cap" if most is None else f"at most {most:,}"
