"""What may depend on what: everything that is seen of a run, by what it is made from.

What is not named here depends on nothing private. A new artifact, summary or log line has its place
in this table, or a test fails.
"""

from collections.abc import Mapping
from enum import StrEnum


class Source(StrEnum):
    """A private input, as seen from the party whose step or artifact it is."""

    OWN_IDS = "the party's own set of IDs"
    IDS = "everybody's sets of IDs"
    OWN = "values of the party's own declared columns"
    OTHERS = "values of other parties' declared columns"


NOTHING: frozenset[Source] = frozenset()
ALIGNED = frozenset({Source.OWN_IDS, Source.IDS})
#: What a feature holder releases follows from its own table, and from nobody's question.
RELEASE = frozenset({Source.OWN_IDS, Source.OWN})
MODEL = ALIGNED | {Source.OWN, Source.OTHERS}

#: By artifact kind. Encrypted files are compared as they lie in the store: the same plaintext gives
#: the same bytes, so a file that may depend on something may by its size, too.
ARTIFACTS: Mapping[str, frozenset[Source]] = {
    "plan": NOTHING,
    "psi_query": frozenset({Source.OWN_IDS}),
    "psi_answer": ALIGNED,
    "shares": frozenset({Source.OWN_IDS}),
    "ranks": RELEASE,
    "values": RELEASE,
    "split_request": MODEL,
    "split_values": MODEL,
    "route_request": MODEL,
    "routes": MODEL,
}

#: By stage: its summary, notices and log lines. A check tells pass or fail, which is a ledger line;
#: as long as it passes, it tells nothing.
STAGES: Mapping[str, frozenset[Source]] = {
    "open_run": NOTHING,
    "check_table": NOTHING,
    "check_drift": NOTHING,
    "digest_ids": frozenset({Source.OWN_IDS}),
    "psi_query": frozenset({Source.OWN_IDS}),
    "psi_answer": ALIGNED,
    "preprocess": frozenset({Source.OWN_IDS}),
    "desensitize": frozenset({Source.OWN_IDS}),
    "rank": frozenset({Source.OWN_IDS}),
    "check_release": NOTHING,
    "seal": RELEASE,
    # Its log tells of how many points answers are.
    "open_rows": frozenset({Source.OWN_IDS}),
    "assemble": NOTHING,
    "check_frame": NOTHING,
    "train": MODEL,
    "request_splits": MODEL,
    "answer_splits": MODEL,
    "request_routes": MODEL,
    "answer_routes": MODEL,
    "materialise": MODEL,
    "check_model": NOTHING,
    "evaluate": MODEL,
    "register": MODEL,
    "announce_champion": MODEL,
    "score": ALIGNED,
    "check_scores": NOTHING,
    "write_scores": MODEL,
}
