"""Who sent what to whom, as a picture: a line down for each of few parties."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

#: Of so many parties lines do not fit beside each other.
MANY = 6

_GAP = 156


@dataclass(frozen=True)
class Message:
    """An arrow.

    Attributes:
        sender: Whose.
        receiver: Whose end it points to; None for all.
        text: What is sent.
        good: Whether it is what it must be.
        size: How much it is, in words; empty if that is unknown.
        colour: The sender's, see `charts.colour_of`.
    """

    sender: str
    receiver: str | None
    text: str
    good: bool
    size: str = ""
    colour: int = 0

    @property
    def style(self) -> str:
        """Classes of its arrow."""
        return f"sent k{self.colour}{'' if self.good else ' broken'}"

    @property
    def words(self) -> str:
        """The kind of message, and its size."""
        return f"{self.text}, {self.size}" if self.size else self.text


def exchanged(parties: Sequence[str], messages: Sequence[Message], *, title: str) -> Markup:
    """Who sent what to whom.

    Args:
        parties: Fewer than `MANY`, from left to right.
        messages: From first to last.
        title: What a reader hears who does not see.
    """
    text = "; ".join(f"{m.sender} to {m.receiver or 'all'}: {m.words}" for m in messages)
    label = f"{escape(title)}. {escape(text)}"
    width, height, parts = _lines(parties, messages)
    return Markup(  # noqa: S704  Every text in it is escaped above and below.
        f'<svg class="sequence" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )


def _lines(parties: Sequence[str], messages: Sequence[Message]) -> tuple[int, int, list[str]]:
    longest = max((len(name) for name in parties), default=0)
    words = max((len(message.words) for message in messages), default=0)
    gap = max(_GAP, 8 * longest + 16, 6 * words + 18)
    margin = 4 * longest + 12
    width = 2 * margin + gap * (len(parties) - 1)
    height = 34 + 30 * len(messages) + 10
    at = {name: margin + gap * i for i, name in enumerate(parties)}
    parts = [
        f'<line class="life" x1="{x}" x2="{x}" y1="26" y2="{height - 4}"/>'
        f'<text class="party" x="{x}" y="17">{escape(name)}</text>'
        for name, x in at.items()
    ]
    for i, message in enumerate(messages):
        y = 34 + 30 * i + 18
        receivers = [message.receiver] if message.receiver else list(parties)
        for receiver in receivers:
            if receiver == message.sender:
                continue
            x1, x2 = at[message.sender], at[receiver]
            parts.append(_arrow(message.style, x1, x2, y))
        ends = [at[message.sender], *(at[r] for r in receivers)]
        middle = (min(ends) + max(ends)) / 2
        # Long arrows cross other lifelines: their text stands beside the sender's.
        if message.receiver and abs(ends[0] - ends[1]) > gap:
            middle = ends[0] + (gap / 2 if ends[1] > ends[0] else -gap / 2)
        parts.append(
            f'<text class="what{"" if message.good else " broken"}" x="{middle:.0f}" '
            f'y="{y - 5}">{escape(message.words)}</text>'
        )
    return width, height, parts


def _arrow(style: str, x1: int, x2: int, y: int) -> str:
    tip = 7 if x1 < x2 else -7
    return (
        f'<g class="{style}"><line x1="{x1}" x2="{x2 - tip}" y1="{y}" y2="{y}"/>'
        f'<path d="M{x2} {y} l{-tip} -4 v8 z"/><circle cx="{x1}" cy="{y}" r="2.5"/></g>'
    )
