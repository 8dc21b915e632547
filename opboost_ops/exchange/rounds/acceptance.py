"""Acceptance of the rounds of horizontal learning by one party.

`Conversation` is a state machine without files, clock or network, beside `exchange.acceptance`,
which takes the plan. First every party's signed key of the run; their digests and the plan's make
the session's. From then on each message answers the decision before it, the first ones the session.
So a message is of this run, of these parties and keys, and of the one conversation that led there,
or it is refused.

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

#: The round of the keys.
KEYS = "keys"

#: Size limit of a round's document, and of a message beyond its vector.
_MOST = 32 << 20

_LOG = logging.getLogger(LOGGER)

#: After so many seconds of waiting it is said for whom, and again after as many.
_PATIENCE = 15.0

#: Seconds between two looks at a folder: at first, and at most; and at first where the system tells
#: of what comes, or where a look is a request.
_PAUSE, _LONGEST_PAUSE, _LONG_PAUSE = 0.001, 0.5, 0.05


class Conversation:
    """The rounds of a run as one party hears them.

    Args:
        federation: The plan's.
        run: The run's id.
        plan: Digest of the plan.
        pinned: The signing keys that this party pins, by party, base64: all that it believes.
        private: Its private encryption key, if it has declared one.
        experiment: Whether what this party signs carries no guarantee; then so must all of it.
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
        self._heard: set[str] = set()
        #: Manifests whose signatures were verified when they were looked at, until they are taken.
        self._verified: dict[tuple[str, bytes, bytes], tuple[Manifest, str]] = {}
        self._keys: dict[str, str] = {}
        self._plan = plan
        #: Called with the manifest of a party's key before it is taken; see `Acceptance.heads`.
        self.heads: Callable[[Manifest], None] = lambda _: None
        #: What the next message must answer.
        self.head = plan
        #: How many messages were accepted.
        self.count = 0

    def place(self, kind: Kind, about: str, round_name: str) -> str:
        """The place of a message in the store.

        Args:
            kind: Its kind.
            about: Its party.
            round_name: Its round's.
        """
        return reference(self.federation.name, self.run, kind, about, round_name)

    def admit(self, kind: Kind, about: str, round_name: str, most: int = _MOST) -> Admit:
        """Limit reads at a place to what a verified manifest lists, and can be due there.

        Args:
            kind: The place's kind.
            about: The place's party.
            round_name: The place's round.
            most: Bytes that no message there has.
        """

        def sizes(heads: Mapping[str, bytes]) -> Mapping[str, int]:
            what = self.place(kind, about, round_name)
            sender = sender_of(kind, about, self.federation.label_holder)
            listed = listed_sizes(self._signed(heads, sender, what)[0])
            if sum(listed.values()) > most:
                raise Rejected("malformed", f"{what}: it is larger than any message of its round.")
            return listed

        return sizes

    def signed_here(self, manifest: Manifest, files: Mapping[str, bytes], public: str) -> None:
        """Note what this party has just signed, so that it need not verify it to take it.

        Args:
            manifest: The message's.
            files: Its files.
            public: The key that it signed with.
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
        """Take what was found at a place.

        Args:
            kind: The place's kind.
            about: The place's party.
            round_name: The place's round.
            files: What lies there.
            today: The day on which keys must be good: the run's.
            rows: Integers of its vector, or 1 for a document.

        Returns:
            The artifact, decrypted.

        Raises:
            Rejected: It is anything but the one message that is due there.
        """
        what = self.place(kind, about, round_name)
        sender = sender_of(kind, about, self.federation.label_holder)
        manifest, key = self._signed(files, sender, what)
        self._verified.pop((sender, files[MANIFEST], files[SIGNATURE]), None)
        digest = hashlib.sha256(files[MANIFEST]).hexdigest()
        if manifest.federation != self.federation.name:
            raise Rejected("wrong_federation", f"{what}: it is of another federation.")
        if manifest.run != self.run:
            raise Rejected("wrong_run", f"{what}: it is of another run.")
        if manifest.party != sender:
            raise Rejected("wrong_party", f"{what}: {sender} signed it in another's name.")
        if (manifest.kind, manifest.about, manifest.round) != (kind, about, round_name):
            if digest in self._heard:
                raise Rejected("replayed", f"{what}: it was accepted in an earlier round.")
            raise Rejected("out_of_order", f"{what}: it is of another round or kind.")
        require_good(self.federation, sender, key, today, what)
        if manifest.answers != self.head:
            raise Rejected("wrong_answer", f"{what}: it does not answer the decision before it.")
        if manifest.columns:
            raise Rejected("unknown_column", f"{what}: it names columns, and no {kind} has any.")
        if manifest.losses or manifest.experiment != self._experiment:
            raise Rejected("wrong_guarantee", f"{what}: it has another guarantee than its run.")
        if manifest.rows != rows:
            raise Rejected("wrong_row_count", f"{what}: it has another length than its round.")
        artifact = opened(manifest, files, self._decrypt(manifest, what), what)
        self._heard.add(digest)
        self.count += 1
        if kind == "decision":
            self.head = digest
            self._verified.clear()
        return artifact

    def hear_key(self, party: str, files: Mapping[str, bytes], today: date) -> bytes:
        """Take a party's key of the run.

        Args:
            party: Whose.
            files: What lies at its place.
            today: The day on which keys must be good: the run's.

        Returns:
            The X25519 public key, 32 bytes.

        Raises:
            Rejected: It is no key that is due there.
        """
        artifact = self.accept("round_key", party, KEYS, files, today)
        raw = b""
        with contextlib.suppress(KeyError, TypeError, ValueError):
            raw = base64.b64decode(artifact.document["key"], validate=True)
        if len(raw) != 32:
            raise Rejected("malformed", f"{artifact.manifest.reference}: it holds no key.")
        self.heads(artifact.manifest)
        self._keys[party] = artifact.digest
        return raw

    def open_session(self) -> str:
        """Close the keys; what comes now answers the session.

        Returns:
            Digest of federation, run, plan, party set and signed keys.

        Raises:
            Rejected: A party's key was not heard.
        """
        if set(self._keys) != set(self.federation.parties):
            raise Rejected("out_of_order", "A party's key of this run is missing.")
        facts = [self.federation.name, self.run, self._plan, sorted(self._keys.items())]
        self.head = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        return self.head

    def _signed(self, files: Mapping[str, bytes], sender: str, what: str) -> tuple[Manifest, str]:
        if sender not in self._pinned:
            raise Rejected("unknown_party", f"{what}: no key of {sender} is pinned.")
        looked_at = (sender, files.get(MANIFEST, b""), files.get(SIGNATURE, b""))
        if looked_at not in self._verified:
            # With the key that is pinned come those that the plan says it has replaced.
            pinned, declared = (
                self._pinned[sender],
                self.federation.parties[sender].all_signing_keys,
            )
            keys = declared if pinned in declared else (pinned,)
            signed = signed_manifest(files, sender, keys, frozenset(), None, what)
            self._verified[looked_at] = signed
        return self._verified[looked_at]

    def _decrypt(self, manifest: Manifest, what: str) -> Decrypt | None:
        key = receiver_key(manifest, self.federation, what)
        if key is None:
            return None
        if self._private is None or self._private.public != key:
            raise Rejected("not_for_me", f"{what}: it is not addressed to this party.")
        return self._private.decrypt


class Messages:
    """Sends a party's messages, and waits for those of others.

    Args:
        me: As whom one writes.
        store: Where the messages lie.
        conversation: What is accepted, and what is answered.
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
        # A folder alone tells what comes; at other stores a look is a request.
        news = getattr(store, "news", None)
        self._news: FolderNews | None = news() if news else None
        self._pause = _PAUSE if news else _LONG_PAUSE
        federation = conversation.federation
        active = federation.label_holder
        key = federation.parties[active].encryption_key
        self._envelope = Envelope(me.secret, key) if key and me.party != active else None

    def send(
        self, kind: Kind, name: str, rows: int = 1, durable: bool = False, **content: Any
    ) -> Mapping[str, bytes]:
        """Sign a message of this party, and put it into the store.

        Args:
            kind: Its kind; a masked vector is encrypted to the active party, if that has a key.
            name: Its round's.
            rows: Integers of its vector, or 1 for a document.
            durable: Whether it must be on disk before this returns.
            content: Of the draft.

        Returns:
            Its files.
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
        """A message, if it is there.

        Args:
            kind: Its kind.
            party: Whom it is about.
            name: Its round's.
            length: Bytes of its vector.
        """
        place = self.conversation.place(kind, party, name)
        return self._store.get(place, self.conversation.admit(kind, party, name, _MOST + length))

    def wait(
        self, kind: Kind, parties: Iterable[str], name: str, what: str, length: int = 0
    ) -> dict[str, Mapping[str, bytes]]:
        """Messages of several parties, by party, as soon as all are there.

        Args:
            kind: Their kind.
            parties: Whose.
            name: Their round's.
            what: The round in words, for who waits.
            length: Bytes of their vectors.

        Raises:
            ArtifactError: One did not come in time; the error names the party.
        """
        messages: dict[str, Mapping[str, bytes]] = {}
        begin = logged = time.monotonic()
        pause = self._pause
        missing = dict.fromkeys(parties)
        looked_at = list(missing)
        while True:
            for party in looked_at:
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
                    f"{waiting}; nothing came within {self._timeout:.0f} s.",
                    "No party may drop out. Check that party's task or log; then run this "
                    "again: it resumes where it stopped.",
                )
            if now - logged > _PATIENCE:
                _LOG.info("%s, still", waiting)
                logged = now
            looked_at = self._until(kind, missing, name, pause)
            pause = min(pause * 1.2, _LONGEST_PAUSE)

    def _until(self, kind: Kind, missing: Iterable[str], name: str, pause: float) -> list[str]:
        """Wait for something to come, or so long: where to look then."""
        places = {self.conversation.place(kind, party, name): party for party in missing}
        if self._news is None or not self._news.watch(places):
            time.sleep(pause)
            return list(places.values())
        came = self._news.wait(max(pause, _LONG_PAUSE))
        if not came:
            unheard = [each for each in places if self._store.written(each) is not None]
            # What came just now is told of next time. If not, others write to this mount.
            if unheard and not self._news.wait(0.0).issuperset(unheard):
                self._news = None
            return list(places.values())
        return [places[each] for each in came if each in places]
