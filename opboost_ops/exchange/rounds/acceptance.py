"""Acceptance of the rounds of horizontal learning by one party.

A state machine without files, clock or network, beside `acceptance`, which takes the plan. First
every party's signed key of the run; their digests and the plan's make the session's. From then on
each message answers the decision before it, the first ones the session. So a message is of this
run, of these parties and keys, and of the one conversation that led there, or it is refused.
"""

import base64
import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import date

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.contents import Decrypt, listed_sizes, opened
from opboost_ops.exchange.encryption import PrivateKey
from opboost_ops.exchange.manifest import (
    MANIFEST,
    SIGNATURE,
    Kind,
    Manifest,
    reference,
    sender_of,
)
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.signers import receiver_key, require_good, signed_manifest
from opboost_ops.exchange.store.limits import Admit

#: The round of the keys.
KEYS = "keys"


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
        self._federation = federation
        self._run = run
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

    def admit(self, kind: Kind, about: str, round_name: str) -> Admit:
        """Limit reads at a place to what a verified manifest lists.

        Args:
            kind: The place's kind.
            about: The place's party.
            round_name: The place's round.
        """

        def sizes(heads: Mapping[str, bytes]) -> Mapping[str, int]:
            what = reference(self._federation.name, self._run, kind, about, round_name)
            sender = sender_of(kind, about, self._federation.label_holder)
            return listed_sizes(self._signed(heads, sender, what)[0])

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
        name = self._federation.name
        what = reference(name, self._run, kind, about, round_name)
        sender = sender_of(kind, about, self._federation.label_holder)
        manifest, key = self._signed(files, sender, what)
        self._verified.pop((sender, files[MANIFEST], files[SIGNATURE]), None)
        digest = hashlib.sha256(files[MANIFEST]).hexdigest()
        if manifest.federation != name:
            raise Rejected("wrong_federation", f"{what}: it is of another federation.")
        if manifest.run != self._run:
            raise Rejected("wrong_run", f"{what}: it is of another run.")
        if manifest.party != sender:
            raise Rejected("wrong_party", f"{what}: {sender} signed it in another's name.")
        if (manifest.kind, manifest.about, manifest.round) != (kind, about, round_name):
            if digest in self._heard:
                raise Rejected("replayed", f"{what}: it was accepted in an earlier round.")
            raise Rejected("out_of_order", f"{what}: it is of another round or kind.")
        require_good(self._federation, sender, key, today, what)
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
        if set(self._keys) != set(self._federation.parties):
            raise Rejected("out_of_order", "A party's key of this run is missing.")
        facts = [self._federation.name, self._run, self._plan, sorted(self._keys.items())]
        self.head = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        return self.head

    def _signed(self, files: Mapping[str, bytes], sender: str, what: str) -> tuple[Manifest, str]:
        if sender not in self._pinned:
            raise Rejected("unknown_party", f"{what}: no key of {sender} is pinned.")
        looked_at = (sender, files.get(MANIFEST, b""), files.get(SIGNATURE, b""))
        if looked_at not in self._verified:
            # With the key that is pinned come those that the plan says it has replaced.
            pinned, declared = self._pinned[sender], self._federation.parties[sender].signed_ever
            keys = declared if pinned in declared else (pinned,)
            signed = signed_manifest(files, sender, keys, frozenset(), None, what)
            self._verified[looked_at] = signed
        return self._verified[looked_at]

    def _decrypt(self, manifest: Manifest, what: str) -> Decrypt | None:
        key = receiver_key(manifest, self._federation, what)
        if key is None:
            return None
        if self._private is None or self._private.public != key:
            raise Rejected("not_for_me", f"{what}: it is not addressed to this party.")
        return self._private.decrypt
