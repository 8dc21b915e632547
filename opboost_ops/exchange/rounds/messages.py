"""How a party's messages of rounds come into the store, and the others' out of it."""

import hashlib
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

from opboost_ops.config.federation import Federation
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encryption import Envelope
from opboost_ops.exchange.manifest import MANIFEST, Kind, reference
from opboost_ops.exchange.rounds.acceptance import Conversation
from opboost_ops.exchange.rounds.identity import Identity, Traffic
from opboost_ops.exchange.rounds.protocol import LOGGER
from opboost_ops.exchange.store.folder import FolderNews
from opboost_ops.exchange.store.store import Store

_LOG = logging.getLogger(LOGGER)

#: After so many seconds of waiting it is said for whom, and again after as many.
_PATIENCE = 15.0

#: Seconds between two looks at a folder: at first, and at most; and at first where the system tells
#: of what comes, or where a look is a request.
_PAUSE, _LONGEST_PAUSE, _LONG_PAUSE = 0.001, 0.5, 0.05


class Messages:
    """Sends a party's messages, and waits for those of others.

    Args:
        me: As whom one writes.
        federation: The plan's.
        run: The run's id.
        store: Where the messages lie.
        conversation: What is accepted, and what is answered.
        timeout: Seconds to wait for the others.
        traffic: Record of the messages exchanged.
    """

    def __init__(
        self,
        me: Identity,
        federation: Federation,
        run: str,
        store: Store,
        conversation: Conversation,
        timeout: float,
        traffic: Traffic,
    ) -> None:
        self._me = me
        self._federation = federation
        self._run = run
        self._store = store
        self._conversation = conversation
        self._timeout = timeout
        self._traffic = traffic
        # A folder alone tells what comes; at other stores a look is a request.
        news = getattr(store, "news", None)
        self._news: FolderNews | None = news() if news else None
        self._pause = _PAUSE if news else _LONG_PAUSE
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
            about=self._me.party,
            round=name,
            rows=rows,
            answers=self._conversation.head,
            discloses="",
            **content,
        )
        manifest, files = draft.seal(
            self._me.signer,
            self._federation.name,
            self._run,
            self._me.party,
            self._me.experiment,
            self._envelope if kind == "masked" else None,
            self._me.standing if kind == "round_key" else None,
        )
        self._store.put_once(manifest.reference, files, durable=durable)
        self._conversation.signed_here(manifest, files, self._me.signer.public)
        self._traffic.sent += 1
        self._traffic.bytes += sum(len(raw) for raw in files.values())
        digest = hashlib.sha256(files[MANIFEST]).hexdigest()
        self._traffic.digest = hashlib.sha256(
            f"{self._traffic.digest}{digest}".encode()
        ).hexdigest()
        return files

    def get(self, kind: Kind, party: str, name: str) -> Mapping[str, bytes] | None:
        """A message, if it is there.

        Args:
            kind: Its kind.
            party: Whom it is about.
            name: Its round's.
        """
        place = self._place(kind, party, name)
        return self._store.get(place, self._conversation.admit(kind, party, name))

    def wait(
        self, kind: Kind, parties: Iterable[str], name: str, what: str
    ) -> dict[str, Mapping[str, bytes]]:
        """Messages of several parties, by party, as soon as all are there.

        Args:
            kind: Their kind.
            parties: Whose.
            name: Their round's.
            what: The round in words, for who waits.

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
                if (files := self.get(kind, party, name)) is not None:
                    messages[party] = files
                    del missing[party]
            now = time.monotonic()
            if not missing:
                self._traffic.waited += now - begin
                return messages
            waiting = f"{what}: {self._me.party} waits for {', '.join(missing)}"
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
        places = {self._place(kind, party, name): party for party in missing}
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

    def _place(self, kind: Kind, party: str, name: str) -> str:
        return reference(self._federation.name, self._run, kind, party, name)
