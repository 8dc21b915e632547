"""How single rows are scored without the partners: the ``serve`` entry of ``policy.yaml``."""

from typing import Literal

from pydantic import Field

from opboost_ops.config.schema import Record


class Serve(Record):
    """What an answer may rest on where other parties' values are old, or not there.

    A value that is missing takes the feature's declared fill; a version with ``alignment.overlap:
    left`` treats the person as one whom the party lacks. Without either, a person who lacks values
    that the version splits on is refused.

    Attributes:
        max_age_days: From which age on other parties' values are old; never when absent.
        old: What becomes of a person with old values: scored and flagged, scored as if they were
            missing, or refused.
        unknown: The same of a person of whom no accepted scoring run has values.
        withdrawn: What becomes of a version one of whose parties has left the federation: its last
            values are used, they count as missing, or nobody is scored by the version.
    """

    max_age_days: float | None = Field(default=None, gt=0)
    old: Literal["flag", "missing", "refuse"] = "flag"
    unknown: Literal["missing", "refuse"] = "missing"
    withdrawn: Literal["last", "missing", "refuse"] = "refuse"
