"""Reasons for rejecting an artifact, each with its remedy."""

from typing import Literal

from opboost_ops.errors import ArtifactError

Reason = Literal[
    "unknown_party",
    "wrong_party",
    "wrong_federation",
    "wrong_run",
    "replayed",
    "superseded",
    "out_of_order",
    "wrong_answer",
    "unknown_column",
    "wrong_row_count",
    "wrong_guarantee",
    "bad_digest",
    "bad_signature",
    "unsupported_version",
    "expired_key",
    "revoked_key",
    "wrong_day",
    "not_for_me",
    "malformed",
]

_ELSEWHERE = "It belongs elsewhere and was not used. Check who writes to the store."
_NEW_RUN = "It was not used. Trigger a new run."

_REMEDIES: dict[Reason, str] = {
    "unknown_party": "Only parties of the federation file may publish. Check who writes to the "
    "store.",
    "wrong_party": "It was not used. Ask the party that signed it why it published there.",
    "wrong_federation": _ELSEWHERE,
    "wrong_run": _ELSEWHERE,
    "replayed": _ELSEWHERE,
    "superseded": "The second one was not used. Ask its party why it published again, and trigger "
    "a new run.",
    "out_of_order": "Run the run's earlier tasks of this party first, on the same home folder.",
    "wrong_answer": "It belongs to another request and was not used. Trigger a new run.",
    "unknown_column": "Make all parties use the same federation file, and trigger a new run.",
    "wrong_row_count": _NEW_RUN,
    "wrong_guarantee": "It was not used. Ask its party which release it runs, and with which "
    "secret.",
    "bad_digest": "It was changed in transit and was not used. Trigger a new run.",
    "bad_signature": "It was not used. Ask that party which key it signs with.",
    "unsupported_version": "Install the same release at both parties, then trigger a new run.",
    "expired_key": "Its party creates a new key with `opboost keys renew`; put it into the "
    "federation file and the policies.",
    "revoked_key": "It was not used. Its party must sign with its new key, and the label holder "
    "must open a new run under the newest agreement; find out who still has the old key.",
    "wrong_day": "It was not used. Compare the clocks of both parties, and trigger a new run.",
    "not_for_me": "Only its receiver can use it. Check the encryption keys in the federation file, "
    "and who writes to the store.",
    "malformed": "Ask its party to publish a new run with this software.",
}


class Rejected(ArtifactError):  # noqa: N818
    """An artifact was rejected and not used.

    Args:
        reason: The reason.
        problem: What happened and where, without any data value.
    """

    def __init__(self, reason: Reason, problem: str) -> None:
        self.reason = reason
        super().__init__(problem, _REMEDIES[reason])
