"""How many people label holders have queried: each can test a guess of who is in the table."""

from collections.abc import Collection

from opboost_ops.config.policy import AlignmentRules
from opboost_ops.exchange.party_state import PartyState
from opboost_ops.reports.display.blocks import Block, Note


def queries(state: PartyState, rules: AlignmentRules, federations: Collection[str]) -> list[Block]:
    """How many guesses have been possible so far, beside their caps; empty where nobody asked.

    Args:
        state: The party's.
        rules: Its policy's.
        federations: Names of those that are shown; a label holder of one of them is counted over
            all of its federations, as its caps are.
    """
    lines = tuple(
        f"{one.receiver}: {one.counted.epoch:,} different people in "
        f"{one.epoch} ({_cap(rules.max_new_queries)}), {one.counted.ever:,} in all months "
        f"({_cap(rules.max_queries_total)})"
        for one in state.query_counts.answered()
        if not one.federations.isdisjoint(federations)
    )
    text = "People queried by label holders: each query can test a guess of who is in this table."
    return [Note("", text, "", lines)] if lines else []


def _cap(most: int | None) -> str:
    return "no cap" if most is None else f"at most {most:,}"
