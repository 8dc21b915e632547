"""Rounds over the store: parties send masked vectors, the active party publishes decisions."""

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
from opboost_ops.exchange.rounds.conversation import KEYS, Messages
from opboost_ops.exchange.rounds.masks import Masks, Packing, RunKey, sum_without_masks
from opboost_ops.exchange.rounds.protocol import (
    Decision,
    DecisionKey,
    Round,
    key_in,
)
from opboost_ops.exchange.rounds.sent_vectors import SentVectors


class Mailbox:
    """`Rounds` of one party over a store.

    The digest of a masked vector is recorded before the vector is sent. A retry sends the same
    vector; if it computes a different one, it sends nothing, because two vectors under one mask
    reveal their difference. Decisions of earlier tries are read again, not computed again.

    Args:
        messages: Sends and receives the party's messages.
        folder: A private folder for records of sent vectors.
        today: Returns the day on which signing keys must be valid.
    """

    def __init__(
        self,
        messages: Messages,
        folder: Path,
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
    ) -> None:
        self.traffic = messages.traffic
        self._messages = messages
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
        """Number of parties whose vectors are added."""
        return len(self._federation.parties)

    @property
    def derives(self) -> bool:
        """True if sums of siblings are derived, which takes exact sums."""
        return self._me.noise is None

    @property
    def decision_key(self) -> bytes | None:
        """The key that encrypts decisions; None before the first decision."""
        return None if self._key is None else self._key.raw

    @property
    def head(self) -> str:
        """Digest of the last decision; it depends on all earlier messages."""
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
        """Run one round; see `Rounds.step`.

        Raises:
            ArtifactError: A party's message did not arrive in time; the error names the party.
            Rejected: A message is not the one that is due.
            ContractError: This party has sent a different vector in this round before.
        """
        self.traffic.sums[name.phase] = self.traffic.sums.get(name.phase, 0) + size
        earlier = self._decided(name) if self._replaying else None
        if earlier is not None:
            return self._read_decision(name, earlier, form)
        if self._masks is None:
            raise _session_ended(name)
        self._replaying = False
        packing = Packing(size, bounds)
        masked = self._masked_vector(self._masks, name, packing, vector())
        if self._me.party != self._active:
            self._messages.send("masked", name.name, size, vector=masked)
            decided = self._messages.wait("decision", [self._active], name.name, str(name))
            return self._read_decision(name, decided[self._active], form)
        total = packing.signed_sum(self._total(name, packing, packing.unpacked(masked)))
        if self.derives and name.phase == "trees":
            self._sent.keep_total(name, total)
        document = self._encrypted(self._masks, name, self._decision_for(name, decide, total))
        files = self._messages.send("decision", name.name, document=document)
        return self._read_decision(name, files, form)

    def _decision_for(
        self, name: Round, decide: Callable[[np.ndarray], Decision], total: np.ndarray
    ) -> Decision:
        """Return the active party's decision; close the session if no rows can have this sum."""
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
        """Remove the vectors of completed rounds; their digests remain.

        Args:
            names: Names of the rounds.
        """
        self._sent.forget(names)

    def _total(self, name: Round, packing: Packing, masked: np.ndarray) -> np.ndarray:
        """Return the sum over all parties, at the active party."""
        try:
            length = packing.length
            received = self._messages.wait("masked", self._others, name.name, str(name), length)
            vectors = [
                self._received_vector(party, name, packing, f) for party, f in received.items()
            ]
        except Rejected as error:
            # A place is published once, so no valid vector can follow: end the wait of all parties.
            self._send_closed(name, error.reason)
            raise
        return sum_without_masks([masked, *vectors])

    def _received_vector(
        self, party: str, name: Round, packing: Packing, files: Mapping[str, bytes]
    ) -> np.ndarray:
        message = self._conversation.accept(
            "masked", party, name.name, files, self._today(), rows=packing.size
        )
        return packing.unpacked(message.vector(packing.length))

    def _send_closed(self, name: Round, why: str) -> None:
        """Publish, as this round's decision, that the session has ended for all parties."""
        self.closed = True
        self._messages.send("decision", name.name, document={"closed": why})

    def _open(self) -> Masks | None:
        if self._me.seed is None:
            self._accept_keys()
            return None
        key = RunKey(self._me.seed)
        document = {"key": base64.b64encode(key.public).decode()}
        self._messages.send("round_key", KEYS, durable=True, document=document)
        keys, session = self._accept_keys()
        if keys.pop(self._me.party) != key.public:
            raise ContractError(
                "This party has published a different key in this run before.",
                "Its secret was changed since: trigger a new run.",
            )
        self._session = session
        if self._me.party == self._active:
            self._key = DecisionKey.of_run(self._me.seed)
        return Masks(self._me.party, key, keys, session)

    def _accept_keys(self) -> tuple[dict[str, bytes], str]:
        parties = list(self._federation.parties)
        try:
            messages = self._messages.wait("round_key", parties, KEYS, "keys")
        except ArtifactError as error:
            if isinstance(error, Rejected):
                raise
            raise ArtifactError(
                error.problem,
                "No sum was sent. Check that each of these parties runs its DAG and its task with "
                "rounds; then run this again.",
            ) from None
        today = self._today()
        keys = {
            party: self._conversation.accept_key(party, messages[party], today) for party in parties
        }
        return keys, self._conversation.open_session()

    def _masked_vector(
        self, masks: Masks, name: Round, packing: Packing, mine: np.ndarray
    ) -> bytes:
        if mine.shape != (packing.size,) or not packing.fits(mine, self.parties):
            raise ContractError(f"{name}: the vector of this party does not fit its round.")
        # Masks depend on the last decision, so they cancel only among parties with the same one. An
        # active party that sends some parties other decisions learns nothing about the rest.
        mask = f"{name.name}:{self._conversation.head}"
        draw = self._me.noise
        if draw is None:
            raw = packing.packed(masks.mask(mask, mine))
            self._sent.keep(name, raw)
            return raw

        def draw_and_mask() -> bytes:
            noisy = mine + draw(name.phase, packing.size)
            return packing.packed(masks.mask(mask, noisy))

        return self._sent.keep_noisy(name, mine.astype("<i8").tobytes(), draw_and_mask)

    def _decided(self, name: Round) -> Mapping[str, bytes] | None:
        return self._messages.get("decision", self._active, name.name)

    def _read_decision(
        self, name: Round, files: Mapping[str, bytes], form: type[Decision]
    ) -> Decision:
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
            raise _session_ended(name)
        try:
            # Parse the JSON also at the active party, so that all continue with the same numbers.
            sealed = accepted.document.get("sealed")
            return form.model_validate_json(self._key.open(name.name, sealed, what))
        except ValidationError:
            pass
        raise Rejected("malformed", f"{what}: it is not a decision of this round.")

    def _encrypted(self, masks: Masks, name: Round, decision: Record) -> dict[str, Any]:
        assert self._key is not None
        text = decision.model_dump_json(exclude_defaults=True)
        document: dict[str, Any] = {"sealed": self._key.seal(name.name, text.encode())}
        if self._conversation.head == self._session:
            # The first decision carries the key, because retries also read decisions in order.
            document["keys"] = {
                party: self._key.wrapped_for(masks, party) for party in self._others
            }
        return document


def _session_ended(name: Round) -> ContractError:
    return ContractError(
        f"{name}: the rounds of this run have ended, but their decisions are not in the store.",
        "Trigger a new run.",
    )
