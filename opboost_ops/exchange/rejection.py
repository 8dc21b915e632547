"""Why an artifact is not accepted: one reason each, and what to do about it."""

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

_ELSEWHERE = "It belongs elsewhere; nothing of it was used. Check who writes to the store."
_NEW_RUN = "Nothing of it was used. Trigger a new run."

_REMEDIES: dict[Reason, str] = {
    "unknown_party": "Only parties of the federation file may publish. Check who writes to the "
    "store.",
    "wrong_party": "Nothing of it was used. Ask the party that signed it why it published there.",
    "wrong_federation": _ELSEWHERE,
    "wrong_run": _ELSEWHERE,
    "replayed": _ELSEWHERE,
    "superseded": "Nothing of the second one was used. Ask its party why it published again, and "
    "trigger a new run.",
    "out_of_order": "Run the run's earlier tasks of this party first, on the same home folder.",
    "wrong_answer": "It belongs to another request; nothing of it was used. Trigger a new run.",
    "unknown_column": "Bring the parties to the same federation file, and trigger a new run.",
    "wrong_row_count": _NEW_RUN,
    "wrong_guarantee": "Nothing of it was used. Ask its party which release it runs, and with "
    "which secret.",
    "bad_digest": "It was changed on its way; nothing of it was used. Trigger a new run.",
    "bad_signature": "Ask that party which key it signs with; nothing of this artifact was used.",
    "unsupported_version": "Bring both parties to the same release, then trigger a new run.",
    "expired_key": "Its party makes a new key with `opboost keys renew`; put it into the "
    "federation file and the policies.",
    "revoked_key": "Nothing of it was used. Its party signs with its new key, and the label holder "
    "opens a new run under the newest agreement; find out who still has the old one.",
    "wrong_day": "Nothing of it was used. Compare the clocks of both parties, and trigger a new "
    "run.",
    "not_for_me": "Only the party that it is addressed to can use it. Check the encryption keys "
    "in the federation file, and at who writes to the store.",
    "malformed": "Ask its party to publish a new run with this software.",
}


class Rejected(ArtifactError):  # noqa: N818
    """An artifact that acceptance refuses; nothing of it was used.

    Args:
        reason: Why.
        problem: What happened and where, without any data value.
    """

    def __init__(self, reason: Reason, problem: str) -> None:
        self.reason = reason
        super().__init__(problem, _REMEDIES[reason])
