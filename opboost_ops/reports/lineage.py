"""A ledger as OpenLineage events: released columns, their loss, receiver and run.

Events are built from ledger entries only. They name features, not raw columns, and contain neither
rows nor values. Nothing sends them: a party that wants them in its catalogue exports its ledger.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from opboost_ops import __version__
from opboost_ops.privacy.ledger.entries import Dated, LedgerEntry

_PRODUCER = f"urn:opboost-ops:{__version__}"
_SPECIFICATION = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_COLUMN_LINEAGE = "https://openlineage.io/spec/facets/1-2-0/ColumnLineageDatasetFacet.json"
_RELEASES = "urn:opboost-ops:releases-dataset-facet:1"


def lineage_events(dated: Iterable[Dated]) -> list[dict[str, Any]]:
    """Return one event per run, oldest first.

    All parties' events of a run share its ``runId``, so that a catalogue joins them. A model's
    version is the id of its run.

    Args:
        dated: A party's entries with their reservation times.
    """
    runs: dict[tuple[str, str], list[Dated]] = defaultdict(list)
    for at, entry in dated:
        runs[entry.federation, entry.run or entry.artifact].append((at, entry))
    return [_event(federation, run, entries) for (federation, run), entries in runs.items()]


def _event(federation: str, run: str, dated: list[Dated]) -> dict[str, Any]:
    at = max(time for time, _ in dated)
    entries = [entry for _, entry in dated]
    namespace = f"opboost:{federation}"
    party = entries[0].party
    source = {"namespace": namespace, "name": f"{party}/table"}
    receivers: dict[str, list[LedgerEntry]] = defaultdict(list)
    for entry in entries:
        receivers[entry.receiver].append(entry)
    return {
        "eventType": "OTHER",
        "eventTime": at,
        "producer": _PRODUCER,
        "schemaURL": _SPECIFICATION,
        "run": {"runId": str(uuid5(NAMESPACE_URL, f"{namespace}/{run}"))},
        "job": {"namespace": namespace, "name": run},
        "inputs": [source],
        "outputs": [
            {
                "namespace": namespace,
                "name": f"{party}/{run}/{receiver}",
                "facets": {
                    "columnLineage": _column_lineage(source, released),
                    "opboost_releases": _releases(receiver, released),
                },
            }
            for receiver, released in receivers.items()
        ],
    }


def _column_lineage(source: dict[str, str], entries: list[LedgerEntry]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for entry in entries:
        masked = entry.account == "local_dp"
        # An exact disclosure of a feature takes precedence over randomised responses.
        if entry.feature and not (masked and entry.feature in fields):
            step = {
                "type": "DIRECT",
                "subtype": "TRANSFORMATION",
                "description": entry.loss.mechanism if entry.loss else entry.discloses,
                "masking": masked,
            }
            origin = {**source, "field": entry.feature, "transformations": [step]}
            fields[entry.feature] = {"inputFields": [origin]}
    return {"_producer": _PRODUCER, "_schemaURL": _COLUMN_LINEAGE, "fields": fields}


def _releases(receiver: str, entries: list[LedgerEntry]) -> dict[str, Any]:
    return {
        "_producer": _PRODUCER,
        "_schemaURL": _RELEASES,
        "receiver": receiver,
        "releases": [
            {
                "kind": entry.kind,
                "account": entry.account,
                "feature": entry.feature,
                "release": entry.release,
                "loss_1": entry.loss.loss[0] if entry.loss else None,
                "loss_whole": entry.loss.loss[-1] if entry.loss else None,
                "epsilon": entry.epsilon,
                "discloses": entry.discloses,
                "experiment": entry.experiment,
            }
            for entry in entries
        ],
    }
