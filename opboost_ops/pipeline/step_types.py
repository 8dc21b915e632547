"""The types in which `protocol` declares a run: phases, their chains, steps and disclosures.

Imports are light, because DAG files are parsed often.
"""

from dataclasses import dataclass
from typing import Literal

from opboost_ops.config.federation import Federation, Role
from opboost_ops.exchange.kinds import EVERY, DisclosureText, RunType, text_for

#: Receiver of what a task's summary, success or failure discloses.
EVERYBODY = "everyone who sees the run"


@dataclass(frozen=True)
class Chain:
    """Consecutive steps of a party that one Airflow task runs.

    Attributes:
        name: The task's name, which is that of its main step.
        stages: Names of its steps, in order.
    """

    name: str
    stages: tuple[str, ...]


@dataclass(frozen=True)
class Phase:
    """Steps that a party runs in sequence, without waiting for another party in between.

    Attributes:
        name: Name of the phase.
        title: Label of a party's task group.
        does: Tooltip of the task group.
        roles: Roles whose parties run it, in parallel.
        runs: Types of run that include it.
        beside: True if it needs only the plan, and runs in parallel to the phase before.
        chains: In a run: its steps, in order, one task per chain.
        awaits: In a run: kinds of artifact that it needs besides the plan; the label holder needs
            every feature holder's, a feature holder those addressed to it.
    """

    name: str
    title: str
    does: str
    roles: tuple[Role, ...]
    runs: tuple[RunType, ...]
    beside: bool = False
    chains: tuple[Chain, ...] = ()
    awaits: tuple[str, ...] = ()

    @property
    def stages(self) -> tuple[str, ...]:
        """Return the names of its steps, in order."""
        return tuple(stage for chain in self.chains for stage in chain.stages)

    def senders(self, federation: Federation) -> tuple[str, ...]:
        """Return the names of the parties whose artifacts it waits for; empty if there are none.

        Args:
            federation: The federation as declared.
        """
        if not self.awaits:
            return ()
        if "label_holder" in self.roles:
            return federation.feature_holders
        return (federation.label_holder,)

    def parties(self, federation: Federation) -> tuple[str, ...]:
        """Return the names of the parties that run it.

        Args:
            federation: The federation as declared.
        """
        return tuple(n for n, spec in federation.parties.items() if spec.role in self.roles)


@dataclass(frozen=True)
class Disclosure:
    """An exact disclosure of a step, outside any epsilon and besides its artifacts.

    Attributes:
        text: Text of its ledger entry; empty if a federation's runs disclose nothing.
        by: The channel: the step's summary, the failure of it or later steps, or round messages.
        topic: Distinguishes several disclosures by messages.
        to: Its receiver; what the label holder would disclose to itself is left out.
    """

    text: DisclosureText
    by: Literal["summary", "failure", "messages"] = "summary"
    topic: str = ""
    to: Literal["everybody", "parties", "label_holder"] = "everybody"


@dataclass(frozen=True)
class Step:
    """A step of the protocol: a function ``name(context) -> Outcome``.

    Attributes:
        name: Name of the function, and of its module in `pipeline.steps`.
        does: Description for people, one sentence.
        tasks: Tasks that run it, ``<phase>.<task>``; a party runs it in the last of these phases
            that the run has.
        runs: Types of run that include it, among those of its phases.
        reads: Kinds of artifact that it uses.
        publishes: Kinds of artifact that it sends.
        discloses: Exact disclosures besides these artifacts.
        problem: Message for failures that depend on private rows, of this step and of those
            beside it without a message; ``{}`` is the party.
        charges: What it charges in private training.
        approval: Description of what a person of the party may have to approve, with
            ``{federation}`` and ``{receiver}``; releases are described by what they open.
        checks: Prefixes of the names of its data-quality checks.
        emits: The asset that its task emits.
        module: Module of the function, if its name differs.
    """

    name: str
    does: str
    tasks: tuple[str, ...]
    runs: tuple[RunType, ...] = EVERY
    reads: tuple[str, ...] = ()
    publishes: tuple[str, ...] = ()
    discloses: tuple[Disclosure, ...] = ()
    problem: str = ""
    charges: Literal["", "model", "metrics"] = ""
    approval: str = ""
    checks: tuple[str, ...] = ()
    emits: Literal["", "champion", "scores"] = ""
    module: str = ""

    def task_in(self, phase: str) -> str | None:
        """Return the task that runs it in a phase; None if the phase does not include it.

        Args:
            phase: Name of the phase.
        """
        return dict(task.split(".") for task in self.tasks).get(phase)

    def disclosures(
        self, federation: Federation, party: str, by: str = ""
    ) -> list[tuple[str, str, str]]:
        """Return the exact disclosures of a party that runs it, besides its artifacts.

        Args:
            federation: The federation as declared.
            party: Name of the party.
            by: The channel; all channels if empty.

        Returns:
            Kind of ledger entry, receiver and text of each.
        """
        owner = federation.label_holder
        receivers = {"everybody": EVERYBODY, "parties": "all parties", "label_holder": owner}
        return [
            (f"{self.name}_{each.topic}".rstrip("_"), receivers[each.to], text)
            for each in self.discloses
            if by in ("", each.by) and receivers[each.to] != party
            if (text := text_for(each.text, federation))
        ]
