"""Rounds that go on when a party drops out: for private sessions alone.

A round, after the masked vectors have come or the active party's patience has ended:

1. attendance: the active party names, signed, whose vectors are in the sum. It is final.
2. attested: each of these signs what it has read, once a round.
3. opened: who has seen t parties say the same opens one share of each party's secrets: of who is
   in the sum that of its own mask, of who is gone that of its pairwise ones; never both.
4. decision: from t such shares the active party takes all masks off the sum.

Who is gone stays gone: it hears decisions, and sends nothing. If fewer than t remain, the active
party's decision closes the session for all.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from opboost_ops.aggregation.decisions import DecisionKey
from opboost_ops.aggregation.double_masks import DoubleMasks, Secrets, read_dealt
from opboost_ops.aggregation.mailbox import Mailbox
from opboost_ops.aggregation.masks import Masks
from opboost_ops.aggregation.packing import Packing
from opboost_ops.aggregation.post import Place
from opboost_ops.aggregation.shamir import BYTES
from opboost_ops.boosting.rounds import LOGGER, Round
from opboost_ops.config.schema import Record
from opboost_ops.errors import ContractError
from opboost_ops.exchange.rejection import Rejected

_LOG = logging.getLogger(LOGGER)

#: The round in which secrets are shared.
SHARES = "shares"


class RecoveringMailbox(Mailbox):
    """`Mailbox` of a session in which parties may drop out.

    Args:
        rounds: Names of all rounds that there may be.
        remain: t: so many must stay, and so many shares tell a secret.
        patience: Seconds after which the active party takes a party for gone.
        options: As `Mailbox` has them.
    """

    def __init__(
        self, *options: Any, rounds: list[str], remain: int, patience: float, **named: Any
    ) -> None:
        super().__init__(*options, **named)
        self._remain, self._patience = remain, patience
        self._post.remedy = (
            "The active party, and enough of the others, have to be there. Look at their tasks or "
            "logs; then run this again: it goes on where it stopped."
        )
        self._all = list(self._federation.parties)
        #: Who is still there, as the last decision says.
        self.present = list(self._all)
        self._next = list(self._all)
        self._doubles = None if self._masks is None else self._deal(self._masks, rounds)

    @property
    def parties(self) -> int:
        """How many are still there."""
        return len(self.present)

    def _deal(self, masks: Masks, rounds: list[str]) -> DoubleMasks:
        assert self._me.seed is not None
        secrets = Secrets(self._me.seed, self._session, rounds, self._remain)
        document = secrets.document(self._me.party, self._all, masks)
        self._post.send("round_shares", SHARES, durable=True, document=document)
        found = self._post.wait("round_shares", self._others, SHARES, "shares")
        dealt = {}
        for party, files in found.items():
            taken = self._conversation.accept("round_shares", party, SHARES, files, self._today())
            what = taken.manifest.reference
            dealt[party] = read_dealt(taken.document, self._me.party, masks, party, rounds, what)
        return DoubleMasks(self._me.party, self._all, secrets, dealt, self._session)

    def _sends(self, name: Round) -> bool:  # noqa: ARG002
        return self._me.party in self.present

    def _under_masks(self, masks: Masks, name: Round, vector: np.ndarray) -> np.ndarray:  # noqa: ARG002
        assert self._doubles is not None
        return self._doubles.mask(name.name, vector, self.present)

    def _decision(self, name: Round) -> Mapping[str, bytes]:
        decided: Place = ("decision", self._active)
        if self._me.party in self.present:
            attendance: Place = ("attendance", self._active)
            found = self._post.collect([attendance, decided], name.name, str(name), bool)
            if decided not in found:
                found |= self._attend(name, found[attendance])
            if decided in found:
                return found[decided]
        return super()._decision(name)

    def _attend(
        self, name: Round, files: Mapping[str, bytes]
    ) -> Mapping[Place, Mapping[str, bytes]]:
        """Attest, and open; what has come of the decision meanwhile is given back."""
        taken = self._conversation.accept(
            "attendance", self._active, name.name, files, self._today()
        )
        present = self._listed(taken.document, taken.manifest.reference)
        if self._me.party not in present:
            return {}
        self._sent.keep_present(name, present)
        said = {"attendance": taken.digest}
        self._post.send("attested", name.name, document=said)
        others = [p for p in present if p not in (self._me.party, self._active)]

        def enough(places: Collection[Place]) -> bool:
            return ("decision", self._active) in places or len(places) >= self._remain - 2

        places: list[Place] = [("attested", party) for party in others]
        found = self._post.collect(
            [*places, ("decision", self._active)], name.name, str(name), enough
        )
        if ("decision", self._active) in found:
            return found
        for (_, party), message in found.items():
            self._hear_attested(name, party, message, taken.digest)
        self._post.send("opened", name.name, document=self._opened(name, present))
        return {}

    def _hear_attested(
        self, name: Round, party: str, files: Mapping[str, bytes], digest: str
    ) -> None:
        heard = self._conversation.accept("attested", party, name.name, files, self._today())
        if heard.document.get("attendance") != digest:
            raise Rejected(
                "wrong_answer",
                f"{heard.manifest.reference}: {party} was told of other parties than this one; "
                "nothing is opened.",
            )

    def _opened(self, name: Round, present: list[str]) -> dict[str, str]:
        assert self._doubles is not None and self._masks is not None
        shares = self._doubles.opened(name.name, self.present, present)
        raw = b"".join(shares[party].to_bytes(BYTES, "big") for party in self.present)
        key = DecisionKey(self._masks.pair_key(self._active))
        return {"sealed": key.seal(name.name, raw)}

    def _total(self, name: Round, packing: Packing, masked: np.ndarray) -> np.ndarray:
        assert self._doubles is not None
        try:
            present = self._attendance(name)
            others = [party for party in present if party != self._me.party]
            # Those that are named have sent theirs; at a retry they are still there.
            found = self._post.wait("masked", others, name.name, str(name))
            vectors = {p: self._vector(p, name, packing, found[p]) for p in others}
            vectors[self._me.party] = masked
            shares = self._shares(name, present, others)
            total = self._doubles.total(name.name, vectors, self.present, shares)
        except Rejected as error:
            self._close(name, error.reason, [])
            raise
        self._next = present
        return total

    def _attendance(self, name: Round) -> list[str]:
        """Whose vectors are in the sum: decided once, by who has come."""
        files = self._post.get("attendance", self._active, name.name)
        if files is None:
            present = self._sent.present(name)
            if present is None:
                others: list[Place] = [("masked", p) for p in self.present if p != self._me.party]
                found = self._post.collect(others, name.name, str(name), patience=self._patience)
                came = {self._me.party, *(party for _, party in found)}
                present = [party for party in self.present if party in came]
            if len(present) < self._remain:
                self._close(name, "few", [p for p in self.present if p not in present])
            self._sent.keep_present(name, present)
            files = self._post.send("attendance", name.name, document={"present": present})
        taken = self._conversation.accept(
            "attendance", self._active, name.name, files, self._today()
        )
        return self._listed(taken.document, taken.manifest.reference)

    def _shares(
        self, name: Round, present: list[str], others: list[str]
    ) -> dict[str, dict[str, int]]:
        """By party, what t parties have opened."""
        assert self._doubles is not None and self._masks is not None
        places: list[Place] = [("opened", party) for party in others]

        def enough(found: Collection[Place]) -> bool:
            return len(found) >= self._remain - 1

        found = self._post.collect(places, name.name, str(name), enough, self._patience)
        if not enough(found):
            self._close(name, "few", [p for p in others if ("opened", p) not in found])
        shares = {self._me.party: self._doubles.opened(name.name, self.present, present)}
        for (_, party), files in found.items():
            taken = self._conversation.accept("opened", party, name.name, files, self._today())
            what = taken.manifest.reference
            key = DecisionKey(self._masks.pair_key(party))
            raw = key.open(name.name, taken.document.get("sealed"), what)
            if len(raw) != BYTES * len(self.present):
                raise Rejected("malformed", f"{what}: it opens other secrets than are due.")
            parts = (raw[at : at + BYTES] for at in range(0, len(raw), BYTES))
            both = zip(self.present, parts, strict=True)
            shares[party] = {other: int.from_bytes(part, "big") for other, part in both}
        return shares

    def _close(self, name: Round, why: str, missing: list[str]) -> None:
        """End the session for all parties.

        Raises:
            ContractError: Always, as at every other party.
        """
        files = self._send_closed(name, why, missing)
        self._conversation.accept("decision", self._active, name.name, files, self._today())
        raise self._closed(name, {"missing": missing})

    def _sealed(self, masks: Masks, name: Round, decision: Record) -> dict[str, Any]:
        return {**super()._sealed(masks, name, decision), "present": self._next}

    def _noted(self, name: Round, document: Mapping[str, Any], what: str) -> None:
        super()._noted(name, document, what)
        present = self._listed(document, what)
        kept = self._sent.present(name)
        if kept is not None and kept != present:
            raise Rejected("malformed", f"{what}: it is of other parties than this one attested.")
        gone = [party for party in self.present if party not in present]
        if gone:
            _LOG.info(
                "%s: %s dropped out; %d of %d parties remain, and at least %d have to",
                name, ", ".join(gone), len(present), len(self._all), self._remain,
            )  # fmt: skip
        self.present = present

    def _closed(self, name: Round, document: Mapping[str, Any], *why: str) -> ContractError:
        listed = document.get("missing")
        missing = [p for p in self._all if isinstance(listed, list) and p in listed]
        if missing:
            why = (f"fewer than {self._remain} parties remain, without {', '.join(missing)}",)
        return super()._closed(name, document, *why)

    def _listed(self, document: Mapping[str, Any], what: str) -> list[str]:
        listed = document.get("present")
        named = listed if isinstance(listed, list) else []
        present = [party for party in self.present if party in named]
        if present != named or self._active not in present or len(present) < self._remain:
            raise Rejected(
                "malformed",
                f"{what}: it does not name {self._remain} or more of the parties that were there.",
            )
        return present
