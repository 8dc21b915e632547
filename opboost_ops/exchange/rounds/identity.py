"""Who a party is in a round of messages, and the messages exchanged."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from opboost_ops.exchange.rounds.protocol import Phase
from opboost_ops.exchange.signing import Signer
from opboost_ops.privacy.ledger.checkpoints import Standing


@dataclass(frozen=True)
class Identity:
    """The party that writes.

    Attributes:
        party: Its name.
        signer: Its signing key.
        secret: Its 32 secret bytes, for encryption.
        seed: What its keys of this run follow from; None where the session has ended, and what was
            decided is only read again.
        experiment: Whether what it signs carries no guarantee.
        noise: Draws so many integers for a sum of a phase, int64, where sums have noise.
        decisions: The key of the decisions of a session that has ended.
        standing: Where the party's state stands, which goes with its key of the run.
    """

    party: str
    signer: Signer
    secret: bytes
    seed: bytes | None
    experiment: bool = False
    noise: Callable[[Phase, int], np.ndarray] | None = None
    decisions: bytes | None = None
    standing: Standing | None = None


@dataclass
class Traffic:
    """The messages exchanged.

    Attributes:
        sums: Integers whose sums the active party has learnt, by phase.
        sent: Messages.
        bytes: Of them.
        waited: Seconds.
        digest: Of all that was sent, in order.
    """

    sums: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    bytes: int = 0
    waited: float = 0.0
    digest: str = ""
