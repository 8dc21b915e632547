"""What every declared file and serialised record has in common."""

from typing import Annotated

from pydantic import ConfigDict, Field

from opboost_ops.mechanisms.parameters import Exact

#: Names of parties and federations: they become task, folder and environment variable names.
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,47}$")]

#: Feature names become LightGBM feature names, which allow neither spaces nor JSON's marks; and no
#: character that erases or reorders text on a screen, as they come in plans and manifests, too.
FEATURE_NAME = (
    r"^[^\s\",:\[\]{}/\\\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]{1,128}$"
)
FeatureName = Annotated[str, Field(pattern=FEATURE_NAME)]

#: Base64 of the 32 raw bytes of an Ed25519 or X25519 public key.
PublicKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{43}=$")]


class Record(Exact):
    """A frozen record that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
