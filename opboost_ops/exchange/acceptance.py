"""Acceptance of a run's artifacts by one party: in protocol order, and nothing else.

A state machine without files, clock or network. Each feature holder's artifacts form chains, and
each link names the one before it by digest: plan -> query -> answer; with several feature holders,
plan -> shares; in a training run plan -> ranks -> split request -> split values, then -> route
request -> routes where routed scoring is evaluated; in a scoring run plan -> values, or plan ->
route request -> routes. A party sees the links that it signs or receives.

The rules:

1. The plan comes first, signed by the key that the party pins for the label holder.
2. Every other artifact is signed by the party whose place it is, by a key that the plan declares,
   good on the plan's day and not revoked, and names by digest what it answers, which must have been
   accepted.
3. A place is taken once: the same bytes are taken again, others are refused.
4. Nothing of another run is taken, even if it is signed.
5. What is refused changes nothing of what was accepted.

In the order of the calls, for the feature holder ``b0`` of the label holder ``lender``; ``store``
is what lies at each place, and ``key`` the pinned one:

>>> view = Acceptance("b0", "toy", run, "lender", key)
>>> view.accept("psi_query", "b0", store["psi_query", "b0"], today)
Traceback (most recent call last):
    ...
opboost_ops.exchange.rejection.Rejected: toy/0000000000000001: its plan was not accepted yet. ...
>>> view.accept("plan", "lender", store["plan", "lender"], today).manifest.kind
'plan'
>>> view.keys = keys  # Which ones are needed, the plan has said.
>>> view.published(draft, digest)  # Its own ranks, which a split request answers.
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
    """Keys that open the files that a party reads.

    Attributes:
        secret: The party's secret, which opens what it published itself.
        private: Its private encryption key, if it has declared one.
    """

    secret: bytes
    private: PrivateKey | None = None


class Acceptance:
    """A run as one party sees it.

    Args:
        party: Whose view.
        federation: Name of the federation.
        run: The run's id.
        label_holder: Who may publish the plan.
        label_key: The key that this party pins for the label holder, base64.
        memory: What it accepted before.
        earlier: Gives the digests that it accepted in other runs; called for a refusal alone.
        former: Keys that the pinned one has replaced, and that may be good still.
        revoked: Keys that this party takes nothing from, whatever the plan says.
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
        #: Set once the plan has said which keys are needed.
        self.keys: Keys | None = None
        #: Called with another party's manifest before it is accepted; raises where its state, or
        #: this party's own, went back.
        self.heads: Callable[[Manifest], None] = lambda _: None
        #: Where points wait that are more than it holds; in memory when absent.
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
        """Take what was found at a place; what was accepted once is accepted again.

        Args:
            kind: The place's kind.
            about: The place's party.
            files: What lies there.
            today: By this party's clock.
            rows: Its row count, where the reader knows it.

        Returns:
            The artifact, decrypted.

        Raises:
            Rejected: It is anything but the one artifact that is due there.
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
                raise Rejected("wrong_guarantee", f"{what}: a plan releases nothing.")
            artifact = opened(manifest, files, None, what)
            planned = self._planned(artifact, key, what)
            if not is_repeat:
                if planned.day is not None:
                    require_recent(planned.day, today, what)
                require_good(planned.federation, sender, key, planned.day or today, what)
            self._plan, self._experiment = planned, manifest.experiment
        self.heads(manifest)
        self._remember(kind, about, manifest.digest, manifest.rows, manifest.columns)
        if self.memory.since is None:
            self.memory = self.memory.model_copy(update={"since": today})
        return artifact

    def manifest(self, kind: Kind, about: str, heads: Mapping[str, bytes]) -> Manifest:
        """The manifest of what was accepted at a place before; its files are not needed for that.

        Args:
            kind: The place's kind.
            about: The place's party.
            heads: Manifest and signature that lie there.

        Raises:
            Rejected: It is not what was accepted, or nothing was.
        """
        manifest, _, what = self._due(kind, about, heads)
        if self.memory.digest(kind, about) != manifest.digest:
            raise Rejected("out_of_order", f"{what}: it was not accepted yet.")
        return manifest

    def day(self, today: date) -> date:
        """The day by which the run's keys are judged: the plan's, or when this party accepted it.

        Args:
            today: By this party's clock.
        """
        return judged_by(self.plan.day or self.memory.since, today)

    def published(self, draft: Draft, digest: str) -> None:
        """Remember what this party has put into the store itself.

        Args:
            draft: What it was.
            digest: Its digest.

        Raises:
            Rejected: The party had published something else there.
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
        """The manifest that is due at a place, by which key it is signed, and the place's name."""
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
            raise Rejected("unknown_party", f"{what}: the plan knows no such party.")
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
        raise Rejected("not_for_me", f"{what}: {self._party} has no key that opens it.")

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
    """Refuse columns that are not the declared ones, or not the ones asked for.

    Args:
        memory: Of the reader; the artifact's order was checked with it.
        manifest: Of the artifact.
        federation: The accepted plan's; None for the plan itself.
        what: Name of the place, for the error.

    Raises:
        Rejected: They are others.
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
    """Refuse a loss that is not the mechanism's, by this party's own computation.

    Args:
        manifest: Of another party's artifact.
        federation: The accepted plan's.
        experiment: Whether the plan says that the run guarantees nothing.
        what: Name of the place, for the error.

    Raises:
        Rejected: It states another loss, or another kind of run.
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
