"""What every declared file and serialised record has in common."""

from typing import Annotated

from pydantic import ConfigDict, Field

from opboost_ops.mechanisms.parameters import Exact

#: Names of parties and federations: they become task, folder and environment variable names.
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,47}$")]

#: Feature names become LightGBM feature names, which allow neither spaces nor JSON's marks.
FEATURE_NAME = r"^[^\s\",:\[\]{}/\\]{1,128}$"
FeatureName = Annotated[str, Field(pattern=FEATURE_NAME)]

#: Base64 of the 32 raw bytes of an Ed25519 or X25519 public key.
PublicKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{43}=$")]


class Record(Exact):
    """A frozen record that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
