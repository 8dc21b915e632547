"""Masks that come off although parties have dropped out (Bonawitz et al., 2017).

In each round a party adds masks that cancel with those of each other party, and one of its own. For
each round it has shared both secrets among all parties. Of who is in the sum, its own mask is
opened; of who is not, its pairwise ones. Never both of one party: the two together would show its
vector. Secrets are of one round, so what is opened there tells nothing of another.
"""

import base64
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from opboost_ops.aggregation import shamir
from opboost_ops.aggregation.decisions import DecisionKey
from opboost_ops.aggregation.masks import Masks, require_distinct, stream
from opboost_ops.exchange.rejection import Rejected

#: Name under which shares are sealed.
_SHARES = "shares"


@dataclass(frozen=True)
class Dealt:
    """What a party has dealt at the beginning, as another one reads it.

    Attributes:
        keys: By round, the public half of its key of pairwise masks, 32 bytes.
        marks: By round, a hash of the seed of its own mask.
        pair: By round, the reader's share of the key.
        own: By round, the reader's share of the seed.
    """

    keys: Mapping[str, bytes]
    marks: Mapping[str, bytes]
    pair: Mapping[str, int]
    own: Mapping[str, int]


class Secrets:
    """A party's two secrets of each round, which a retry makes again.

    Args:
        seed: What its keys of the run follow from.
        session: Digest of federation, run, plan, parties and signed keys.
        rounds: Names of all rounds that there may be.
        remain: t, how many shares tell a secret.
    """

    def __init__(self, seed: bytes, session: str, rounds: Sequence[str], remain: int) -> None:
        self._seed, self._session = seed, session.encode()
        self._rounds, self._remain = rounds, remain

    def pair(self, name: str) -> int:
        """The key of its pairwise masks of a round."""
        return self._coefficients(b"pair", name)[0]

    def own(self, name: str) -> int:
        """The seed of its own mask of a round."""
        return self._coefficients(b"own", name)[0]

    def opened(self, name: str, point: int) -> int:
        """Its share, at a point, of the seed of its own mask.

        Args:
            name: The round's.
            point: From 1.
        """
        return shamir.dealt(self._coefficients(b"own", name), point)[-1]

    def dealt(self, parties: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
        """By party, its shares of both secrets of each round.

        Args:
            parties: All of them, in the order that everybody knows.
        """
        found: dict[str, list[tuple[int, int]]] = {party: [] for party in parties}
        for name in self._rounds:
            both = (
                shamir.dealt(self._coefficients(kind, name), len(parties))
                for kind in (b"pair", b"own")
            )
            for party, pair, own in zip(parties, *both, strict=True):
                found[party].append((pair, own))
        return found

    def document(self, party: str, parties: Sequence[str], masks: Masks) -> dict[str, object]:
        """What it publishes at the beginning: shares, each sealed for one party.

        Args:
            party: Whose secrets.
            parties: All of them.
            masks: Its keys with each of them.
        """
        shares = self.dealt(parties)
        sealed = {
            other: DecisionKey(masks.pair_key(other)).seal(_SHARES, _packed(shares[other]))
            for other in parties
            if other != party
        }
        keys, marks = (base64.b64encode(b"".join(each)).decode() for each in self.public())
        return {"keys": keys, "marks": marks, "sealed": sealed}

    def public(self) -> tuple[list[bytes], list[bytes]]:
        """By round, the public half of its key and the hash of its seed, 32 bytes each."""
        return (
            [_public(self.pair(name)) for name in self._rounds],
            [_mark(self.own(name)) for name in self._rounds],
        )

    def _coefficients(self, kind: bytes, name: str) -> list[int]:
        info = b"opboost:" + kind + b"-secret:" + self._session + b":" + name.encode()
        raw = HKDF(SHA256(), shamir.BYTES * self._remain, None, info).derive(self._seed)
        parts = range(0, len(raw), shamir.BYTES)
        return [shamir.element(raw[at : at + shamir.BYTES]) for at in parts]


def read_dealt(
    document: Mapping[str, object], sealed_for: str, masks: Masks, sender: str,
    rounds: Sequence[str], what: str,
) -> Dealt:  # fmt: skip
    """What another party has dealt.

    Args:
        document: As `Secrets.document` gives it.
        sealed_for: The reader.
        masks: The reader's keys with each party.
        sender: Whose secrets.
        rounds: Names of all rounds.
        what: Name of the message, for the error.

    Raises:
        Rejected: It is anything else.
    """
    public = []
    for key in ("keys", "marks"):
        try:
            raw = base64.b64decode(str(document.get(key)), validate=True)
        except ValueError:
            raw = b""
        public.append(_split(raw, len(rounds), shamir.BYTES, what))
    sealed = document.get("sealed")
    text = sealed.get(sealed_for) if isinstance(sealed, Mapping) else None
    plain = DecisionKey(masks.pair_key(sender)).open(_SHARES, text, what)
    shares = [
        [int.from_bytes(each[at : at + shamir.BYTES], "big") for at in (0, shamir.BYTES)]
        for each in _split(plain, len(rounds), 2 * shamir.BYTES, what)
    ]
    if any(share >= shamir.PRIME for both in shares for share in both):
        raise Rejected("malformed", f"{what}: a share is out of range.")
    by_round = [dict(zip(rounds, values, strict=True)) for values in public]
    pair, own = ({n: s[i] for n, s in zip(rounds, shares, strict=True)} for i in (0, 1))
    return Dealt(by_round[0], by_round[1], pair, own)


class DoubleMasks:
    """One party's masks of one session, and how those of others come off.

    Args:
        party: Whose.
        parties: All of them, in the order that everybody knows.
        secrets: Its own.
        dealt: What each other party has dealt.
        session: Digest of federation, run, plan, parties and signed keys.
    """

    def __init__(
        self, party: str, parties: Sequence[str], secrets: Secrets, dealt: Mapping[str, Dealt],
        session: str,
    ) -> None:  # fmt: skip
        self._party, self._parties, self._secrets = party, list(parties), secrets
        self._dealt, self._session = dealt, session.encode()

    def mask(self, name: str, vector: np.ndarray, present: Collection[str]) -> np.ndarray:
        """A vector under its round's masks; one mask is for one vector only.

        Args:
            name: The round's.
            vector: int64, shape (n,).
            present: Who is still there, as the last decision says, this party among them.

        Returns:
            uint64, shape (n,).

        Raises:
            Rejected: A key that another party dealt is none, or two parties dealt one key.
        """
        masked = vector.astype(np.int64).view(np.uint64).copy()
        key = _key(self._secrets.pair(name))
        shared = {
            other: _exchange(key, self._dealt[other].keys[name], other)
            for other in present
            if other != self._party
        }
        require_distinct(shared)
        for other, secret in shared.items():
            words = stream(self._seed(b"pair", name, secret), masked.size)
            masked += words if self._party < other else -words
        masked += self._own(name, self._secrets.own(name), masked.size)
        return masked

    def opened(
        self, name: str, before: Collection[str], present: Collection[str]
    ) -> dict[str, int]:
        """By party, this one's share of one secret: of who is in the sum, its own mask's.

        Args:
            name: The round's.
            before: Who was there when vectors were masked.
            present: Who is in the sum, this party among them.
        """
        point = self._parties.index(self._party) + 1
        return {
            other: self._secrets.opened(name, point)
            if other == self._party
            else (self._dealt[other].own if other in present else self._dealt[other].pair)[name]
            for other in before
        }

    def total(
        self,
        name: str,
        vectors: Mapping[str, np.ndarray],
        before: Sequence[str],
        opened: Mapping[str, Mapping[str, int]],
    ) -> np.ndarray:
        """The sum of vectors, all masks taken off: at the active party.

        Args:
            name: The round's.
            vectors: Of who is in the sum, this party's own among them.
            before: Who was there when vectors were masked.
            opened: By who has opened, its share of each other's secret.

        Returns:
            int64, shape (n,).

        Raises:
            Rejected: Shares do not tell a secret that a party dealt.
        """
        size = len(vectors[self._party])
        total = np.zeros(size, dtype=np.uint64)
        for vector in vectors.values():
            total += vector
        for other in before:
            if other == self._party:
                secret = self._secrets.own(name)
            else:
                secret = self._secret(name, other, other in vectors, opened)
            if other in vectors:
                total -= self._own(name, secret, size)
                continue
            key = _key(secret)
            for party in vectors:
                public = self._public(name, party)
                words = stream(self._seed(b"pair", name, _exchange(key, public, other)), size)
                total -= words if party < other else -words
        return total.view(np.int64)

    def _secret(
        self, name: str, other: str, present: bool, opened: Mapping[str, Mapping[str, int]]
    ) -> int:
        points = {party: at for at, party in enumerate(self._parties, start=1)}
        shares = {points[p]: found[other] for p, found in opened.items() if other in found}
        secret = shamir.joined(shares)
        dealt = self._dealt[other]
        right = (
            _mark(secret) == dealt.marks[name]
            if present
            else _public(secret) == dealt.keys[name]
        )  # fmt: skip
        if not right:
            raise Rejected(
                "malformed",
                f"{name}: what {', '.join(opened)} opened is not what {other} had dealt.",
            )
        return secret

    def _public(self, name: str, party: str) -> bytes:
        if party == self._party:
            return _public(self._secrets.pair(name))
        return self._dealt[party].keys[name]

    def _own(self, name: str, secret: int, size: int) -> np.ndarray:
        return stream(self._seed(b"own", name, secret.to_bytes(shamir.BYTES, "big")), size)

    def _seed(self, kind: bytes, name: str, secret: bytes) -> bytes:
        info = b"opboost:" + kind + b"-mask:" + self._session + b":" + name.encode()
        return HKDF(SHA256(), 32, None, info).derive(secret)


def _key(secret: int) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(secret.to_bytes(shamir.BYTES, "big"))


def _public(secret: int) -> bytes:
    return _key(secret).public_key().public_bytes_raw()


def _mark(secret: int) -> bytes:
    return hashlib.sha256(b"opboost:own-mark:" + secret.to_bytes(shamir.BYTES, "big")).digest()


def _exchange(key: X25519PrivateKey, public: bytes, party: str) -> bytes:
    try:
        return key.exchange(X25519PublicKey.from_public_bytes(public))
    except (ValueError, InvalidKey):
        pass
    raise Rejected("malformed", f"A key that {party} dealt is no X25519 key.")


def _packed(shares: Sequence[tuple[int, int]]) -> bytes:
    return b"".join(s.to_bytes(shamir.BYTES, "big") for both in shares for s in both)


def _split(raw: bytes, count: int, width: int, what: str) -> list[bytes]:
    if len(raw) != count * width:
        raise Rejected("malformed", f"{what}: it is not what a party deals for this session.")
    return [raw[at : at + width] for at in range(0, len(raw), width)]
