"""Rounds over the store: each party's masked vector to the active party, its decision to all."""

import base64
import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from opboost_ops.aggregation.decisions import DecisionKey, key_in
from opboost_ops.aggregation.identity import Identity, Traffic
from opboost_ops.aggregation.masks import Masks, RunKey, unmasked
from opboost_ops.aggregation.sent import SentVectors
from opboost_ops.boosting.rounds import LOGGER, Decision, Round
from opboost_ops.config.federation import Federation
from opboost_ops.config.schema import Record
from opboost_ops.errors import ArtifactError, ContractError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encryption import Envelope
from opboost_ops.exchange.manifest import Kind, Manifest, reference
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.rounds import KEYS, Conversation
from opboost_ops.exchange.store import Store

_LOG = logging.getLogger(LOGGER)

#: Sums of 64-bit integers are known up to here.
_LIMIT = 1 << 63

#: After so many seconds of waiting it is said for whom, and again after as many.
_PATIENCE = 15.0

#: Seconds between two looks at the store: at first, and at most.
_PAUSE, _LONGEST_PAUSE = 0.001, 0.5


class Mailbox:
    """`Rounds` of one party over a store.

    A masked vector is kept at home before it is sent. A later try sends the same bytes; if it has
    made another vector, it sends nothing, because two vectors under one mask tell their
    difference. Of a vector whose round is decided a digest stays, for the same reason. What was
    decided before is read again and not computed again.

    Args:
        me: As whom one writes.
        federation: The plan's.
        run: The run's id.
        store: Where the messages lie.
        conversation: What is accepted.
        kept: A private folder for the vectors that were sent.
        timeout: Seconds to wait for the others in one round.
        today: The day on which signing keys must not have expired.
    """

    def __init__(
        self,
        me: Identity,
        federation: Federation,
        run: str,
        store: Store,
        conversation: Conversation,
        kept: Path,
        timeout: float,
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
    ) -> None:
        self.traffic = Traffic()
        self._me = me
        self._federation = federation
        self._run = run
        self._store = store
        self._conversation = conversation
        self._sent = SentVectors(kept)
        self._timeout = timeout
        self._today = today
        self._active = federation.label_holder
        self._others = [name for name in federation.parties if name != me.party]
        key = federation.parties[self._active].encryption_key
        self._envelope = Envelope(me.secret, key) if key and me.party != self._active else None
        self._replaying = True
        self._key = DecisionKey(me.decisions) if me.decisions else None
        self._masks = self._open()

    @property
    def parties(self) -> int:
        """How many add up."""
        return len(self._federation.parties)

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
        masked = self._masked(self._masks, name, size, vector())
        if self._me.party != self._active:
            draft = self._draft("masked", self._me.party, name.name, size, vector=masked)
            self._send(draft, self._envelope)
            files = self._wait("decision", [self._active], name.name, str(name))[self._active]
            return self._heard(name, files, form)
        received = self._wait("masked", self._others, name.name, str(name))
        vectors = [masked]
        for party, files in received.items():
            accepted = self._conversation.accept(
                "masked", party, name.name, files, self._today(), rows=size
            )
            vectors.append(accepted.vector)
        document = self._sealed(self._masks, name, decide(unmasked(vectors)))
        files = self._send(self._draft("decision", self._active, name.name, document=document))
        return self._heard(name, files, form)

    def forget(self, names: Iterable[str]) -> None:
        """Remove vectors of rounds that are decided, but for their digests.

        Args:
            names: The rounds'.
        """
        self._sent.forget(names)

    def _open(self) -> Masks | None:
        if self._me.seed is None:
            self._hear_keys()
            return None
        key = RunKey(self._me.seed)
        document = {"key": base64.b64encode(key.public).decode()}
        self._send(self._draft("round_key", self._me.party, KEYS, document=document), durable=True)
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
        found = self._wait("round_key", parties, KEYS, "keys")
        today = self._today()
        keys = {party: self._conversation.hear_key(party, found[party], today) for party in parties}
        return keys, self._conversation.open_session()

    def _masked(self, masks: Masks, name: Round, size: int, mine: np.ndarray) -> np.ndarray:
        largest = int(np.abs(mine).max(initial=0))
        if mine.shape != (size,) or largest * self.parties >= _LIMIT:
            raise ContractError(f"{name}: the vector of this party does not fit its round.")
        draw = self._me.noise
        if draw is None:
            masked = masks.mask(name.name, mine)
            self._sent.keep(name, masked.astype("<u8").tobytes())
            return masked

        def noisy() -> bytes:
            return masks.mask(name.name, mine + draw(name.phase, size)).astype("<u8").tobytes()

        raw = self._sent.keep_drawn(name, mine.astype("<i8").tobytes(), noisy)
        return np.frombuffer(raw, dtype="<u8").astype(np.uint64)

    def _decided(self, name: Round) -> Mapping[str, bytes] | None:
        place = self._place("decision", self._active, name.name)
        admit = self._conversation.admit("decision", self._active, name.name)
        return self._store.get(place, admit)

    def _heard(self, name: Round, files: Mapping[str, bytes], form: type[Decision]) -> Decision:
        accepted = self._conversation.accept(
            "decision", self._active, name.name, files, self._today()
        )
        what = accepted.manifest.reference
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
        document: dict[str, Any] = {
            "sealed": self._key.seal(name.name, decision.model_dump_json().encode())
        }
        if self._conversation.head == self._session:
            # Later decisions are read after the first one, also at a retry.
            document["keys"] = {
                party: self._key.wrapped_for(masks, party) for party in self._others
            }
        return document

    def _draft(self, kind: Kind, about: str, name: str, rows: int = 1, **content: Any) -> Draft:
        return Draft(
            kind=kind,
            about=about,
            round=name,
            rows=rows,
            answers=self._conversation.head,
            discloses="",
            **content,
        )

    def _send(
        self, draft: Draft, envelope: Envelope | None = None, durable: bool = False
    ) -> Mapping[str, bytes]:
        manifest: Manifest
        manifest, files = draft.seal(
            self._me.signer,
            self._federation.name,
            self._run,
            self._me.party,
            self._me.experiment,
            envelope,
            self._me.given if draft.kind == "round_key" else None,
        )
        self._store.put_once(manifest.reference, files, durable=durable)
        self.traffic.sent += 1
        self.traffic.bytes += sum(len(raw) for raw in files.values())
        self.traffic.digest = hashlib.sha256(
            f"{self.traffic.digest}{manifest.digest}".encode()
        ).hexdigest()
        return files

    def _wait(
        self, kind: Kind, parties: Iterable[str], name: str, what: str
    ) -> dict[str, Mapping[str, bytes]]:
        """Messages of several parties, by party, as soon as all are there."""
        found: dict[str, Mapping[str, bytes]] = {}
        begin = told = time.monotonic()
        pause = _PAUSE
        missing = list(parties)
        while True:
            for party in list(missing):
                admit = self._conversation.admit(kind, party, name)
                files = self._store.get(self._place(kind, party, name), admit)
                if files is not None:
                    found[party] = files
                    missing.remove(party)
            now = time.monotonic()
            if not missing:
                self.traffic.waited += now - begin
                return found
            waiting = f"{what}: {self._me.party} waits for {', '.join(missing)}"
            if now - begin > self._timeout:
                raise ArtifactError(
                    f"{waiting}; nothing came within {self._timeout:.0f} s.",
                    "No party may drop out. Look at that party's task or log; then run this again: "
                    "it goes on where it stopped.",
                )
            if now - told > _PATIENCE:
                _LOG.info("%s, still", waiting)
                told = now
            time.sleep(pause)
            pause = min(pause * 1.2, _LONGEST_PAUSE)

    def _place(self, kind: Kind, party: str, name: str) -> str:
        return reference(self._federation.name, self._run, kind, party, name)


def _ended(name: Round) -> ContractError:
    return ContractError(
        f"{name}: the rounds of this run have ended, and their decisions are not in the store.",
        "Trigger a new run.",
    )
