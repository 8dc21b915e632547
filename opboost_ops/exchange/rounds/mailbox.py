"""Rounds over the store: each party's masked vector to the active party, its decision to all."""

import base64
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from opboost_ops.config.schema import Record
from opboost_ops.errors import ArtifactError, ClosedSessionError, ContractError
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.rounds.acceptance import KEYS, Messages
from opboost_ops.exchange.rounds.masks import Masks, Packing, RunKey, unmasked
from opboost_ops.exchange.rounds.protocol import (
    Decision,
    DecisionKey,
    Round,
    key_in,
)
from opboost_ops.exchange.rounds.sent_vectors import SentVectors


class Mailbox:
    """`Rounds` of one party over a store.

    A masked vector is kept at home before it is sent. A later try sends the same bytes; if it has
    made another vector, it sends nothing, because two vectors under one mask tell their
    difference. Of a vector whose round is decided a digest stays, for the same reason. What was
    decided before is read again and not computed again.

    Args:
        messages: Sends and receives as the party.
        folder: A private folder for the vectors that were sent.
        today: The day on which signing keys must not have expired.
    """

    def __init__(
        self,
        messages: Messages,
        folder: Path,
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
    ) -> None:
        self.traffic = messages.traffic
        self._post = messages
        self._me = me = messages.me
        self._conversation = messages.conversation
        self._federation = federation = messages.conversation.federation
        self._sent = SentVectors(folder)
        self._today = today
        self._active = federation.label_holder
        self._others = [name for name in federation.parties if name != me.party]
        self._replaying = True
        #: Whether the session has ended for all parties without a model.
        self.closed = False
        self._key = DecisionKey(me.decisions) if me.decisions else None
        self._masks = self._open()

    @property
    def parties(self) -> int:
        """How many add up."""
        return len(self._federation.parties)

    @property
    def derives(self) -> bool:
        """True if siblings are derived: of exact sums alone."""
        return self._me.noise is None

    @property
    def decision_key(self) -> bytes | None:
        """The key of the decisions; None before the first was heard."""
        return None if self._key is None else self._key.raw

    @property
    def head(self) -> str:
        """Digest of the last decision, which by its predecessors names the whole conversation."""
        return self._conversation.head

    def step(
        self,
        name: Round,
        size: int,
        vector: Callable[[], np.ndarray],
        decide: Callable[[np.ndarray], Decision],
        form: type[Decision],
        bounds: Sequence[int] = (),
    ) -> Decision:
        """One round; see `Rounds.step`.

        Raises:
            ArtifactError: A party's message did not come in time; the error names the party.
            Rejected: A message is not the one that is due.
            ContractError: This party has sent another vector in this round before.
        """
        self.traffic.sums[name.phase] = self.traffic.sums.get(name.phase, 0) + size
        earlier = self._decided(name) if self._replaying else None
        if earlier is not None:
            return self._heard(name, earlier, form)
        if self._masks is None:
            raise _ended(name)
        self._replaying = False
        packing = Packing(size, bounds)
        masked = self._masked(self._masks, name, packing, vector())
        if self._me.party != self._active:
            self._post.send("masked", name.name, size, vector=masked)
            decided = self._post.wait("decision", [self._active], name.name, str(name))
            return self._heard(name, decided[self._active], form)
        total = packing.summed(self._total(name, packing, packing.unpacked(masked)))
        if self.derives and name.phase == "trees":
            self._sent.keep_total(name, total)
        document = self._sealed(self._masks, name, self._made(name, decide, total))
        files = self._post.send("decision", name.name, document=document)
        return self._heard(name, files, form)

    def _made(
        self, name: Round, decide: Callable[[np.ndarray], Decision], total: np.ndarray
    ) -> Decision:
        """The active party's decision by a sum, if any rows could give such a sum."""
        with contextlib.suppress(ValidationError):
            return decide(total)
        self._send_closed(name, "malformed")
        raise Rejected(
            "malformed", f"{name}: no rows can have this sum; a party sent a wrong vector."
        )

    def total(self, name: Round) -> np.ndarray:
        """See `Rounds.total`.

        Raises:
            ContractError: It is no longer at home.
        """
        return self._sent.total(name)

    def forget(self, names: Iterable[str]) -> None:
        """Remove vectors of rounds that are decided, but for their digests.

        Args:
            names: The rounds'.
        """
        self._sent.forget(names)

    def _total(self, name: Round, packing: Packing, masked: np.ndarray) -> np.ndarray:
        """The sum over the parties, at the active one."""
        try:
            length = packing.length
            received = self._post.wait("masked", self._others, name.name, str(name), length)
            vectors = [self._vector(party, name, packing, f) for party, f in received.items()]
        except Rejected as error:
            # It lies where another can't come any more: nobody is to wait for what can't be.
            self._send_closed(name, error.reason)
            raise
        return unmasked([masked, *vectors])

    def _vector(
        self, party: str, name: Round, packing: Packing, files: Mapping[str, bytes]
    ) -> np.ndarray:
        message = self._conversation.accept(
            "masked", party, name.name, files, self._today(), rows=packing.size
        )
        return packing.unpacked(message.vector(packing.length))

    def _send_closed(self, name: Round, why: str) -> None:
        """Publish, as this round's decision, that the session has ended for all parties."""
        self.closed = True
        self._post.send("decision", name.name, document={"closed": why})

    def _open(self) -> Masks | None:
        if self._me.seed is None:
            self._hear_keys()
            return None
        key = RunKey(self._me.seed)
        document = {"key": base64.b64encode(key.public).decode()}
        self._post.send("round_key", KEYS, durable=True, document=document)
        keys, session = self._hear_keys()
        if keys.pop(self._me.party) != key.public:
            raise ContractError(
                "Another key of this party was published in this run before.",
                "Its secret was changed in between: trigger a new run.",
            )
        self._session = session
        if self._me.party == self._active:
            self._key = DecisionKey.of_run(self._me.seed)
        return Masks(self._me.party, key, keys, session)

    def _hear_keys(self) -> tuple[dict[str, bytes], str]:
        parties = list(self._federation.parties)
        try:
            messages = self._post.wait("round_key", parties, KEYS, "keys")
        except ArtifactError as error:
            if isinstance(error, Rejected):
                raise
            raise ArtifactError(
                error.problem,
                "No sum has left. See that each of them takes part in this run, its DAG and "
                "its task with rounds; then run this again.",
            ) from None
        today = self._today()
        keys = {
            party: self._conversation.hear_key(party, messages[party], today) for party in parties
        }
        return keys, self._conversation.open_session()

    def _masked(self, masks: Masks, name: Round, packing: Packing, mine: np.ndarray) -> bytes:
        if mine.shape != (packing.size,) or not packing.fits(mine, self.parties):
            raise ContractError(f"{name}: the vector of this party does not fit its round.")
        # Masks cancel only among parties that received the same decisions: an active party that
        # sends different ones, so that some parties send zeros, learns nothing of the others.
        mask = f"{name.name}:{self._conversation.head}"
        draw = self._me.noise
        if draw is None:
            raw = packing.packed(masks.mask(mask, mine))
            self._sent.keep(name, raw)
            return raw

        def made() -> bytes:
            noisy = mine + draw(name.phase, packing.size)
            return packing.packed(masks.mask(mask, noisy))

        return self._sent.keep_drawn(name, mine.astype("<i8").tobytes(), made)

    def _decided(self, name: Round) -> Mapping[str, bytes] | None:
        return self._post.get("decision", self._active, name.name)

    def _heard(self, name: Round, files: Mapping[str, bytes], form: type[Decision]) -> Decision:
        accepted = self._conversation.accept(
            "decision", self._active, name.name, files, self._today()
        )
        what = accepted.manifest.reference
        if "closed" in accepted.document:
            self.closed = True
            charged = "It stays charged in full. " if self._federation.training.private else ""
            raise ClosedSessionError(
                f"{name}: the active party has closed the session after an invalid message.",
                f"{charged}No model was trained: trigger a new run.",
            )
        if self._key is None and self._masks is not None:
            wrapped = key_in(accepted.document, self._me.party)
            self._key = DecisionKey.unwrapped(self._masks, self._active, wrapped, what)
        if self._key is None:
            raise _ended(name)
        try:
            # By way of JSON, so that the active party goes on with what the others read.
            sealed = accepted.document.get("sealed")
            return form.model_validate_json(self._key.open(name.name, sealed, what))
        except ValidationError:
            pass
        raise Rejected("malformed", f"{what}: it decides nothing known.")

    def _sealed(self, masks: Masks, name: Round, decision: Record) -> dict[str, Any]:
        assert self._key is not None
        text = decision.model_dump_json(exclude_defaults=True)
        document: dict[str, Any] = {"sealed": self._key.seal(name.name, text.encode())}
        if self._conversation.head == self._session:
            # Later decisions are read after the first one, also at a retry.
            document["keys"] = {
                party: self._key.wrapped_for(masks, party) for party in self._others
            }
        return document


def _ended(name: Round) -> ContractError:
    return ContractError(
        f"{name}: the rounds of this run have ended, and their decisions are not in the store.",
        "Trigger a new run.",
    )
