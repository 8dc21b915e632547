"""Acceptance of the rounds of horizontal learning by one party.

`Conversation` is a state machine without files, clock or network; `exchange.acceptance` accepts the
plan. Each party first publishes a signed key for the run. The digests of these keys and of the plan
determine the session's digest. Every later message names the previous decision by digest, and the
first messages name the session. A message of another run, party set, key or history is rejected.

`Messages` puts a party's own messages into the store, and polls it for those of the others.
"""

import base64
import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any

from opboost_ops.config.federation import Federation
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.artifact import Artifact, Draft
from opboost_ops.exchange.contents import Decrypt, listed_sizes, opened
from opboost_ops.exchange.encryption import Envelope, PrivateKey
from opboost_ops.exchange.kinds import KINDS
from opboost_ops.exchange.manifest import (
    MANIFEST,
    SIGNATURE,
    Kind,
    Manifest,
    reference,
    sender_of,
)
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.rounds.protocol import LOGGER, Identity, Traffic
from opboost_ops.exchange.signing import receiver_key, require_good, signed_manifest
from opboost_ops.exchange.store.folder import FolderNews
from opboost_ops.exchange.store.reads import Admit
from opboost_ops.exchange.store.store import Store

#: Name of the round in which parties exchange keys.
KEYS = "keys"

#: Maximum bytes of a message without its vector.
_MAX_BYTES = 32 << 20

_LOG = logging.getLogger(LOGGER)

#: Seconds of waiting between log messages that name the missing parties.
_LOG_INTERVAL = 15.0

#: Poll intervals in seconds: the first and the longest one of a folder; and the shortest one with
#: file notifications, or in a store where each poll is a request.
_PAUSE, _MAX_PAUSE, _SLOW_PAUSE = 0.001, 0.5, 0.05


class Conversation:
    """The messages of a run's rounds that one party accepts.

    Args:
        federation: The plan's federation.
        run: ID of the run.
        plan: Digest of the plan.
        pinned: The signing keys that this party pins, by party, base64; no other key is trusted.
        private: Its private encryption key, if it has declared one.
        experiment: Whether the run is an experiment without guarantees; all messages must say so.
    """

    def __init__(
        self,
        federation: Federation,
        run: str,
        plan: str,
        pinned: Mapping[str, str],
        private: PrivateKey | None = None,
        experiment: bool = False,
    ) -> None:
        self.federation = federation
        self.run = run
        self._pinned = pinned
        self._private = private
        self._experiment = experiment
        self._accepted: set[str] = set()
        #: Manifests whose signatures are verified already, until they are accepted.
        self._verified: dict[tuple[str, bytes, bytes], tuple[Manifest, str]] = {}
        self._keys: dict[str, str] = {}
        self._plan = plan
        #: Called with the manifest of a party's key before it is accepted; see
        #: `Acceptance.keep_checkpoint`.
        self.keep_checkpoint: Callable[[Manifest], None] = lambda _: None
        #: Digest that the next message must name in ``answers``.
        self.head = plan
        #: Number of accepted messages.
        self.count = 0

    def place(self, kind: Kind, about: str, round_name: str) -> str:
        """Return the place of a message in the store.

        Args:
            kind: Kind of the message.
            about: Party of the message.
            round_name: Name of its round.
        """
        return reference(self.federation.name, self.run, kind, about, round_name)

    def admit(self, kind: Kind, about: str, round_name: str, most: int = _MAX_BYTES) -> Admit:
        """Limit reads at a place to the files that a verified manifest lists.

        Args:
            kind: The place's kind.
            about: The place's party.
            round_name: The place's round.
            most: Maximum bytes of a message there.
        """

        def sizes(heads: Mapping[str, bytes]) -> Mapping[str, int]:
            what = self.place(kind, about, round_name)
            sender = sender_of(kind, about, self.federation.label_holder)
            listed = listed_sizes(self._signed(heads, sender, what)[0])
            if sum(listed.values()) > most:
                raise Rejected("malformed", f"{what}: it exceeds the maximum size of its round.")
            return listed

        return sizes

    def signed_here(self, manifest: Manifest, files: Mapping[str, bytes], public: str) -> None:
        """Remember a message that this party has just signed, to accept it without verification.

        Args:
            manifest: Manifest of the message.
            files: Files of the message.
            public: The key that signed it.
        """
        if public == self._pinned.get(manifest.party):
            self._verified[manifest.party, files[MANIFEST], files[SIGNATURE]] = (manifest, public)

    def accept(
        self,
        kind: Kind,
        about: str,
        round_name: str,
        files: Mapping[str, bytes],
        today: date,
        rows: int = 1,
    ) -> Artifact:
        """Accept the files found at a place.

        Args:
            kind: The place's kind.
            about: The place's party.
            round_name: The place's round.
            files: The files found there.
            today: Day of the run, on which keys must be valid.
            rows: Number of integers of its vector, or 1 for a document.

        Returns:
            The artifact, decrypted.

        Raises:
            Rejected: It is not the message that is due there.
        """
        what = self.place(kind, about, round_name)
        sender = sender_of(kind, about, self.federation.label_holder)
        manifest, key = self._signed(files, sender, what)
        self._verified.pop((sender, files[MANIFEST], files[SIGNATURE]), None)
        digest = hashlib.sha256(files[MANIFEST]).hexdigest()
        if manifest.federation != self.federation.name:
            raise Rejected("wrong_federation", f"{what}: it belongs to another federation.")
        if manifest.run != self.run:
            raise Rejected("wrong_run", f"{what}: it belongs to another run.")
        if manifest.party != sender:
            raise Rejected("wrong_party", f"{what}: {sender} signed it in another's name.")
        if (manifest.kind, manifest.about, manifest.round) != (kind, about, round_name):
            if digest in self._accepted:
                raise Rejected("replayed", f"{what}: it was accepted in an earlier round.")
            raise Rejected("out_of_order", f"{what}: it belongs to another round or kind.")
        require_good(self.federation, sender, key, today, what)
        if manifest.answers != self.head:
            raise Rejected("wrong_answer", f"{what}: it does not answer the previous decision.")
        if manifest.columns:
            raise Rejected("unknown_column", f"{what}: it names columns, but a {kind} has none.")
        if manifest.losses or manifest.experiment != self._experiment:
            raise Rejected("wrong_guarantee", f"{what}: its guarantee differs from its run's.")
        if manifest.rows != rows:
            raise Rejected("wrong_row_count", f"{what}: its length is not that of its round.")
        artifact = opened(manifest, files, self._decrypt(manifest, what), what)
        self._accepted.add(digest)
        self.count += 1
        if kind == "decision":
            self.head = digest
            self._verified.clear()
        return artifact

    def accept_key(self, party: str, files: Mapping[str, bytes], today: date) -> bytes:
        """Accept a party's key for the run.

        Args:
            party: Owner of the key.
            files: The files found at its place.
            today: Day of the run, on which signing keys must be valid.

        Returns:
            The X25519 public key, 32 bytes.

        Raises:
            Rejected: It is not the key that is due there.
        """
        artifact = self.accept("round_key", party, KEYS, files, today)
        raw = b""
        with contextlib.suppress(KeyError, TypeError, ValueError):
            raw = base64.b64decode(artifact.document["key"], validate=True)
        if len(raw) != 32:
            raise Rejected("malformed", f"{artifact.manifest.reference}: it contains no key.")
        self.keep_checkpoint(artifact.manifest)
        self._keys[party] = artifact.digest
        return raw

    def open_session(self) -> str:
        """End the exchange of keys; the next messages answer the session.

        Returns:
            Digest of federation, run, plan, party set and signed keys.

        Raises:
            Rejected: A party's key was not accepted.
        """
        if set(self._keys) != set(self.federation.parties):
            raise Rejected("out_of_order", "A party's key for this run is missing.")
        facts = [self.federation.name, self.run, self._plan, sorted(self._keys.items())]
        self.head = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        return self.head

    def _signed(self, files: Mapping[str, bytes], sender: str, what: str) -> tuple[Manifest, str]:
        if sender not in self._pinned:
            raise Rejected("unknown_party", f"{what}: no key of {sender} is pinned.")
        signed_bytes = (sender, files.get(MANIFEST, b""), files.get(SIGNATURE, b""))
        if signed_bytes not in self._verified:
            # The plan declares which former keys the pinned key has replaced.
            pinned, declared = (
                self._pinned[sender],
                self.federation.parties[sender].all_signing_keys,
            )
            keys = declared if pinned in declared else (pinned,)
            signed = signed_manifest(files, sender, keys, frozenset(), None, what)
            self._verified[signed_bytes] = signed
        return self._verified[signed_bytes]

    def _decrypt(self, manifest: Manifest, what: str) -> Decrypt | None:
        key = receiver_key(manifest, self.federation, what)
        if key is None:
            return None
        if self._private is None or self._private.public != key:
            raise Rejected("not_for_me", f"{what}: it is not encrypted to this party.")
        return self._private.decrypt


class Messages:
    """Sends a party's messages, and waits for those of others.

    Args:
        me: The party that sends.
        store: The store of the messages.
        conversation: Accepts messages, and determines the digest that they must answer.
        timeout: Seconds to wait for the others in one round.
    """

    def __init__(
        self, me: Identity, store: Store, conversation: Conversation, timeout: float
    ) -> None:
        self.me = me
        self.conversation = conversation
        #: Record of the messages exchanged.
        self.traffic = Traffic()
        self._store = store
        self._timeout = timeout
        # Only folders notify of new files; in other stores each poll is a request.
        news = getattr(store, "news", None)
        self._news: FolderNews | None = news() if news else None
        self._pause = _PAUSE if news else _SLOW_PAUSE
        federation = conversation.federation
        active = federation.label_holder
        key = federation.parties[active].encryption_key
        self._envelope = Envelope(me.secret, key) if key and me.party != active else None

    def send(
        self, kind: Kind, name: str, rows: int = 1, durable: bool = False, **content: Any
    ) -> Mapping[str, bytes]:
        """Sign a message of this party, and put it into the store.

        Args:
            kind: Kind of the message; a masked vector is encrypted to the active party, if that
                has a key.
            name: Name of its round.
            rows: Number of integers of its vector, or 1 for a document.
            durable: Whether it must be on disk before this returns.
            content: Further fields of its `Draft`.

        Returns:
            The files of the message.
        """
        draft = Draft(
            kind=kind,
            about=self.me.party,
            round=name,
            rows=rows,
            answers=self.conversation.head,
            **content,
        )
        manifest, files = draft.seal(
            self.me.signer,
            self.conversation.federation.name,
            self.conversation.run,
            self.me.party,
            self.me.experiment,
            self._envelope if KINDS[kind].reader == "label_holder" else None,
            self.me.standing if kind == "round_key" else None,
        )
        self._store.put_once(manifest.reference, files, durable=durable)
        self.conversation.signed_here(manifest, files, self.me.signer.public)
        self.traffic.sent += 1
        self.traffic.bytes += sum(len(raw) for raw in files.values())
        digest = hashlib.sha256(files[MANIFEST]).hexdigest()
        self.traffic.digest = hashlib.sha256(f"{self.traffic.digest}{digest}".encode()).hexdigest()
        return files

    def get(self, kind: Kind, party: str, name: str, length: int = 0) -> Mapping[str, bytes] | None:
        """Return the files of a message; None if it is not published.

        Args:
            kind: Kind of the message.
            party: Party that it is about.
            name: Name of its round.
            length: Bytes of its vector.
        """
        place = self.conversation.place(kind, party, name)
        return self._store.get(
            place, self.conversation.admit(kind, party, name, _MAX_BYTES + length)
        )

    def wait(
        self, kind: Kind, parties: Iterable[str], name: str, what: str, length: int = 0
    ) -> dict[str, Mapping[str, bytes]]:
        """Wait for messages of several parties, and return their files by party.

        Args:
            kind: Kind of the messages.
            parties: Parties that they are about.
            name: Name of their round.
            what: Text for the round, for log and error.
            length: Bytes of their vectors.

        Raises:
            ArtifactError: A message did not arrive in time; the error names its party.
        """
        messages: dict[str, Mapping[str, bytes]] = {}
        begin = logged = time.monotonic()
        pause = self._pause
        missing = dict.fromkeys(parties)
        to_poll = list(missing)
        while True:
            for party in to_poll:
                if (files := self.get(kind, party, name, length)) is not None:
                    messages[party] = files
                    del missing[party]
            now = time.monotonic()
            if not missing:
                self.traffic.waited += now - begin
                return messages
            waiting = f"{what}: {self.me.party} waits for {', '.join(missing)}"
            if now - begin > self._timeout:
                raise ArtifactError(
                    f"{waiting}; nothing arrived within {self._timeout:.0f} s.",
                    "All parties must take part in every round. Check that party's task or log; "
                    "then run this again: it resumes where it stopped.",
                )
            if now - logged > _LOG_INTERVAL:
                _LOG.info("%s, still", waiting)
                logged = now
            to_poll = self._wait_for_news(kind, missing, name, pause)
            pause = min(pause * 1.2, _MAX_PAUSE)

    def _wait_for_news(
        self, kind: Kind, missing: Iterable[str], name: str, pause: float
    ) -> list[str]:
        """Wait for new files, at most for a pause in seconds; return the parties to poll then."""
        places = {self.conversation.place(kind, party, name): party for party in missing}
        if self._news is None or not self._news.watch(places):
            time.sleep(pause)
            return list(places.values())
        new_places = self._news.wait(max(pause, _SLOW_PAUSE))
        if not new_places:
            unreported = [each for each in places if self._store.written(each) is not None]
            # Files of this moment are reported now. If not, the mount reports no remote writes.
            if unreported and not self._news.wait(0.0).issuperset(unreported):
                self._news = None
            return list(places.values())
        return [places[each] for each in new_places if each in places]
