"""A run of 64 parties, each of whose summaries fits into an XCom."""

import json

from opboost_ops.pipeline import redaction

#: What an orchestrator keeps of a task's result; longer ones fail their task.
LIMIT, PARTIES = 2048, 64


def test_summaries_do_not_grow() -> None:
    many = {f"organisation_number_{k:04d}.feature": k for k in range(4096)}
    told = {
        "published": redaction.digests(["0" * 64] * 4096),
        "splits": redaction.counts(many),
        "checks": redaction.verdicts(dict.fromkeys(many, False)),
    }
    assert len(json.dumps(told)) < LIMIT
    assert told["splits"] == {"names": 4096, "sum": 4095 * 2048}
    assert redaction.digests(["ab" * 32, "cd" * 32]) == ["ab" * 8, "cd" * 8]
    assert redaction.digests(["0" * 64] * 17) != redaction.digests(["0" * 63 + "1"] * 17)
    assert redaction.counts({"a": 2}) == {"a": 2}
