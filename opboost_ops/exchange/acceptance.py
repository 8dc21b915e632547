"""Acceptance of a run's artifacts by one party, in protocol order only.

This is a state machine without files, clock or network. Each feature holder's artifacts form
chains, and each link names the previous one by digest: plan -> query -> answer; with several
feature holders, plan -> shares; in a training run plan -> ranks -> split request -> split values,
then -> route request -> routes if routed scoring is evaluated; in a scoring run plan -> values, or
plan -> route request -> routes. A party sees the links that it signs or receives.

The rules:

1. The plan comes first, signed by the key that the party pins for the label holder.
2. Every other artifact is signed by the party that owns its place, with a key that the plan
   declares, that is valid on the plan's day and not revoked. It names by digest the artifact that
   it answers, which must have been accepted.
3. A place is accepted once: the same bytes are accepted again, different bytes are rejected.
4. Artifacts of another run are rejected, even if they are signed.
5. A rejected artifact does not change what was accepted.

Example, for the feature holder ``b0`` of the label holder ``lender``; ``store`` maps places to
files, and ``key`` is the pinned key:

>>> view = Acceptance("b0", "toy", run, "lender", key)
>>> view.accept("psi_query", "b0", store["psi_query", "b0"], today)
Traceback (most recent call last):
    ...
opboost_ops.exchange.rejection.Rejected: toy/0000000000000001: its plan was not accepted yet. ...
>>> view.accept("plan", "lender", store["plan", "lender"], today).manifest.kind
'plan'
>>> view.keys = keys  # The plan states which keys are needed.
>>> view.published(draft, digest)  # The party's ranks, which a split request answers.
>>> view.accept("psi_query", "b0", store["psi_query", "b0"], today).manifest.rows
9
>>> sorted(view.memory.accepted)
['plan/lender', 'psi_query/b0', 'ranks/b0']
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.exchange.artifact import DOCUMENT, Artifact, Draft
from opboost_ops.exchange.contents import Decrypt, listed_sizes, opened
from opboost_ops.exchange.encryption import Envelope, PrivateKey
from opboost_ops.exchange.kinds import KINDS
from opboost_ops.exchange.manifest import Kind, Manifest, receiver_of, reference, sender_of
from opboost_ops.exchange.order import Memory, Remembered, require_order, require_rows
from opboost_ops.exchange.plan import Plan, read_plan
from opboost_ops.exchange.rejection import Reason, Rejected
from opboost_ops.exchange.signing import (
    judged_by,
    receiver_key,
    require_good,
    require_recent,
    signed_manifest,
)
from opboost_ops.exchange.store.reads import Admit
from opboost_ops.privacy.loss import column_losses
from opboost_ops.tables.spill.arrays import Scratch

__all__ = ["Acceptance", "Keys", "Memory", "Reason", "Rejected"]


@dataclass(frozen=True)
class Keys:
    """The keys that decrypt the files that a party reads.

    Attributes:
        secret: The party's secret, which decrypts its own publications.
        private: Its private encryption key, if it has declared one.
    """

    secret: bytes
    private: PrivateKey | None = None


class Acceptance:
    """A run from the view of one party.

    Args:
        party: The party.
        federation: Name of the federation.
        run: ID of the run.
        label_holder: The party that may publish the plan.
        label_key: The key that this party pins for the label holder, base64.
        memory: The artifacts accepted before.
        earlier: Returns the digests accepted in other runs; called only to explain a rejection.
        former: Keys that the pinned key has replaced, and that may still be valid.
        revoked: Keys whose signatures this party rejects, whatever the plan says.
    """

    def __init__(
        self,
        party: str,
        federation: str,
        run: str,
        label_holder: str,
        label_key: str,
        memory: Memory | None = None,
        earlier: Callable[[], frozenset[str]] = frozenset,
        former: Sequence[str] = (),
        revoked: frozenset[str] = frozenset(),
    ) -> None:
        self.memory = memory or Memory()
        #: Set once the plan states which keys are needed.
        self.keys: Keys | None = None
        #: Called with another party's manifest before it is accepted; raises if the state of that
        #: party, or of this one, was rolled back.
        self.keep_checkpoint: Callable[[Manifest], None] = lambda _: None
        #: Spills points to disk if they exceed its memory limit; by default they stay in memory.
        self.scratch: Scratch | None = None
        self._party = party
        self._name = federation
        self._run = run
        self._label_holder = label_holder
        self._label_keys = (label_key, *former)
        self._revoked = revoked
        self._earlier = earlier
        self._plan: Plan | None = None
        self._experiment = False

    @property
    def plan(self) -> Plan:
        """The accepted plan.

        Raises:
            Rejected: No plan was accepted yet.
        """
        if self._plan is None:
            raise Rejected(
                "out_of_order", f"{self._name}/{self._run}: its plan was not accepted yet."
            )
        return self._plan

    @property
    def federation(self) -> Federation:
        """The accepted plan's federation.

        Raises:
            Rejected: No plan was accepted yet.
        """
        return self.plan.federation

    def admit(self, kind: Kind, about: str) -> Admit:
        """Limit reads at a place to what a verified manifest lists.

        Args:
            kind: The place's kind.
            about: The place's party.
        """

        def sizes(heads: Mapping[str, bytes]) -> Mapping[str, int]:
            manifest, _, what = self._due(kind, about, heads)
            if kind != "plan":
                receiver_key(manifest, self.federation, what)
            return listed_sizes(manifest)

        return sizes

    def accept(
        self,
        kind: Kind,
        about: str,
        files: Mapping[str, bytes],
        today: date,
        rows: int | None = None,
    ) -> Artifact:
        """Accept the files found at a place; accepting the same files again succeeds.

        Args:
            kind: The place's kind.
            about: The place's party.
            files: The files found there.
            today: Today by this party's clock.
            rows: The expected row count, if the reader knows it.

        Returns:
            The artifact, decrypted.

        Raises:
            Rejected: It is not the artifact that is due there.
        """
        manifest, key, what = self._due(kind, about, files)
        sender = manifest.party
        is_repeat = self.memory.digest(kind, about) == manifest.digest
        declared = None if kind == "plan" else self.federation
        require_columns(self.memory, manifest, declared, what)
        if kind != "plan":
            if not is_repeat:
                require_good(self.federation, sender, key, self.day(today), what)
            decrypt = self._decrypt(manifest, what)
            if sender != self._party:
                require_guarantee(manifest, self.federation, self._experiment, what)
            require_rows(self.memory, manifest, rows, what)
            artifact = opened(
                manifest, files, decrypt, what, self.federation, is_repeat, self.scratch
            )
        else:
            if manifest.losses:
                raise Rejected("wrong_guarantee", f"{what}: a plan must not release anything.")
            artifact = opened(manifest, files, None, what)
            planned = self._planned(artifact, key, what)
            if not is_repeat:
                if planned.day is not None:
                    require_recent(planned.day, today, what)
                require_good(planned.federation, sender, key, planned.day or today, what)
            self._plan, self._experiment = planned, manifest.experiment
        self.keep_checkpoint(manifest)
        self._remember(kind, about, manifest.digest, manifest.rows, manifest.columns)
        if self.memory.since is None:
            self.memory = self.memory.model_copy(update={"since": today})
        return artifact

    def manifest(self, kind: Kind, about: str, heads: Mapping[str, bytes]) -> Manifest:
        """Return the manifest of an artifact accepted before, without reading its files.

        Args:
            kind: The place's kind.
            about: The place's party.
            heads: Manifest and signature found there.

        Raises:
            Rejected: It differs from the accepted artifact, or none was accepted.
        """
        manifest, _, what = self._due(kind, about, heads)
        if self.memory.digest(kind, about) != manifest.digest:
            raise Rejected("out_of_order", f"{what}: it was not accepted yet.")
        return manifest

    def day(self, today: date) -> date:
        """Return the day on which the run's keys must be valid: the plan's, or that of acceptance.

        Args:
            today: Today by this party's clock.
        """
        return judged_by(self.plan.day or self.memory.since, today)

    def published(self, draft: Draft, digest: str) -> None:
        """Remember an artifact that this party has published itself.

        Args:
            draft: The artifact.
            digest: Its digest.

        Raises:
            Rejected: The party had published a different artifact there.
        """
        earlier = self.memory.digest(draft.kind, draft.about)
        if earlier not in (None, digest):
            what = reference(self._name, self._run, draft.kind, draft.about)
            raise Rejected("superseded", f"{what}: this run has published something else before.")
        self._remember(draft.kind, draft.about, digest, draft.rows, draft.columns)

    def _remember(
        self, kind: Kind, about: str, digest: str, rows: int, columns: tuple[str, ...]
    ) -> None:
        entry = Remembered(digest=digest, rows=rows, columns=columns)
        self.memory = self.memory.with_entry(kind, about, entry)

    def _due(self, kind: Kind, about: str, files: Mapping[str, bytes]) -> tuple[Manifest, str, str]:
        """Return the manifest due at a place, the key that signed it, and the place's name."""
        what = reference(self._name, self._run, kind, about)
        sender = self._sender(kind, about, what)
        manifest, key = self._signed(files, sender, what)
        self._require_place(manifest, kind, about, sender, what)
        plan = None if kind == "plan" else self.plan
        require_order(self.memory, manifest, self._label_holder, plan, what)
        return manifest, key, what

    def _sender(self, kind: Kind, about: str, what: str) -> str:
        if kind == "plan":
            if about != self._label_holder:
                raise Rejected("wrong_party", f"{what}: a plan is published by the label holder.")
            return about
        if about not in self.federation.parties:
            raise Rejected("unknown_party", f"{what}: the plan has no such party.")
        if about == self._label_holder:
            raise Rejected("wrong_party", f"{what}: the label holder has no {kind}.")
        sender = sender_of(kind, about, self._label_holder)
        if self._party not in (sender, receiver_of(kind, about, self._label_holder)):
            raise Rejected("not_for_me", f"{what}: it is not addressed to {self._party}.")
        return sender

    def _signed(self, files: Mapping[str, bytes], sender: str, what: str) -> tuple[Manifest, str]:
        federation = None if self._plan is None else self._plan.federation
        # The label holder's keys are those that this party pins, whatever the plan says.
        keys = self._label_keys
        if sender != self._label_holder:
            keys = self.federation.parties[sender].all_signing_keys
        return signed_manifest(files, sender, keys, self._revoked, federation, what)

    def _require_place(
        self, manifest: Manifest, kind: Kind, about: str, sender: str, what: str
    ) -> None:
        digest = manifest.digest
        if manifest.federation != self._name:
            raise Rejected("wrong_federation", f"{what}: it is of another federation.")
        if manifest.run != self._run:
            if digest in self._earlier():
                raise Rejected("replayed", f"{what}: it was accepted in another run before.")
            raise Rejected("wrong_run", f"{what}: it is of another run.")
        if manifest.party != sender:
            raise Rejected("wrong_party", f"{what}: {sender} signed it in another's name.")
        if (manifest.kind, manifest.about) != (kind, about):
            if digest in self.memory.digests:
                raise Rejected("replayed", f"{what}: it was accepted at another place before.")
            if manifest.kind == kind:
                raise Rejected("not_for_me", f"{what}: it is for another party than {about}.")
            raise Rejected("out_of_order", f"{what}: it is a {manifest.kind}, not a {kind}.")
        if manifest.round is not None:
            raise Rejected("out_of_order", f"{what}: it is of a round, and no {kind} has one.")

    def _decrypt(self, manifest: Manifest, what: str) -> Decrypt | None:
        key = receiver_key(manifest, self.federation, what)
        if key is None:
            return None
        if self.keys is not None and manifest.party == self._party:
            return Envelope(self.keys.secret, key).decrypt
        if self.keys is not None and self.keys.private and self.keys.private.public == key:
            return self.keys.private.decrypt
        raise Rejected("not_for_me", f"{what}: {self._party} has no key that decrypts it.")

    def _planned(self, artifact: Artifact, key: str, what: str) -> Plan:
        plan = read_plan(artifact.files.get(DOCUMENT, b""), what)
        federation = plan.federation
        if federation.name != self._name:
            raise Rejected("wrong_federation", f"{what}: it plans another federation.")
        if federation.label_holder != self._label_holder:
            raise Rejected("wrong_party", f"{what}: it names another label holder.")
        if key not in federation.parties[self._label_holder].all_signing_keys:
            raise Rejected(
                "malformed", f"{what}: it names another key than the one that signed it."
            )
        if self._party not in federation.parties:
            raise Rejected("unknown_party", f"{what}: {self._party} is not a party of it.")
        return plan


def require_columns(
    memory: Memory, manifest: Manifest, federation: Federation | None, what: str
) -> None:
    """Reject columns other than the declared or requested ones.

    Args:
        memory: The reader's memory; the artifact's order was checked with it.
        manifest: The artifact's manifest.
        federation: The federation of the accepted plan; None for the plan itself.
        what: Name of the place, for the error.

    Raises:
        Rejected: The columns differ.
    """
    kind, columns = KINDS[manifest.kind], manifest.columns
    expected: tuple[str, ...] = ()
    if kind.columns == "answered":
        expected = memory.accepted[f"{kind.answers[0]}/{manifest.about}"].columns
    elif kind.columns and federation:
        expected = tuple(c.name for c in columns_of(federation, manifest.about))
    some = kind.columns == "some" and len(set(columns)) == len(columns)
    if not (set(columns) <= set(expected) if some else columns == expected):
        raise Rejected("unknown_column", f"{what}: its columns are not the declared ones.")


def require_guarantee(
    manifest: Manifest, federation: Federation, experiment: bool, what: str
) -> None:
    """Reject losses other than those this party computes for the declared mechanisms.

    Args:
        manifest: The manifest of another party's artifact.
        federation: The federation of the accepted plan.
        experiment: Whether the plan states that the run carries no guarantee.
        what: Name of the place, for the error.

    Raises:
        Rejected: The artifact states other losses, or another kind of run.
    """
    expected = {}
    if KINDS[manifest.kind].columns == "released":
        expected = column_losses(columns_of(federation, manifest.about))
    if dict(manifest.losses) != expected:
        raise Rejected(
            "wrong_guarantee",
            f"{what}: it states other losses than the declared mechanisms have.",
        )
    if manifest.experiment != experiment:
        says = "to be an experiment" if manifest.experiment else "a guarantee"
        raise Rejected("wrong_guarantee", f"{what}: it says {says}, but the run's plan does not.")
