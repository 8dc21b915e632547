"""The base class of declared files and serialised records."""

from typing import Annotated

from pydantic import ConfigDict, Field

from opboost_ops.mechanisms.parameters import Exact

#: Names of parties and federations, which become parts of task, folder and variable names.
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,47}$")]

#: Characters that erase or reorder displayed text, except tabs and line ends. Declarations by
#: others are displayed on terminals and pages before anybody agrees to them.
CONTROL_CHARACTERS = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f"
    r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
)

#: Feature names become LightGBM feature names, which allow neither spaces nor JSON delimiters.
FEATURE_NAME = rf"^[^\s\",:\[\]{{}}/\\{CONTROL_CHARACTERS}]{{1,128}}$"
FeatureName = Annotated[str, Field(pattern=FEATURE_NAME)]

#: Base64 of the 32 raw bytes of an Ed25519 or X25519 public key.
PublicKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{43}=$")]


class Record(Exact):
    """An immutable record that rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
