"""How single rows are scored without the partners: the ``serve`` entry of ``policy.yaml``."""

from typing import Literal

from pydantic import PositiveFloat

from opboost_ops.config.schema import Record


class Serve(Record):
    """How single rows are scored if other parties' values are old or missing.

    A value that is missing takes the feature's declared fill; a version with ``alignment.overlap:
    left`` treats the person as one whom the party lacks. Without either, a person who lacks values
    that the version splits on is refused.

    Attributes:
        max_age_days: Age from which other parties' values are old; default: never.
        old: A person with old values is scored and flagged, scored as if they were missing, or
            refused.
        unknown: The same for a person without values in any accepted scoring run.
        withdrawn: If a party has left the federation, its last values are used, count as missing,
            or the version scores nobody.
    """

    max_age_days: PositiveFloat | None = None
    old: Literal["flag", "missing", "refuse"] = "flag"
    unknown: Literal["missing", "refuse"] = "missing"
    withdrawn: Literal["last", "missing", "refuse"] = "refuse"
