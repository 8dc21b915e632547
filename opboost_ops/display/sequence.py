"""Who sent what to whom: a line down for each of few parties, a row for each of many."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

#: From how many parties on there is a row for each: lines would not fit beside each other.
MANY = 6

_GAP = 156
_ROW, _COLUMN = 26, 132


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
        """What is sent, and how much."""
        return f"{self.text}, {self.size}" if self.size else self.text


def exchanged(
    parties: Sequence[str], messages: Sequence[Message], *, title: str, centre: str | None = None
) -> Markup:
    """Who sent what to whom.

    Args:
        parties: From left to right.
        messages: From first to last.
        title: What a reader hears who does not see.
        centre: To whom or from whom nearly everything goes.
    """
    told = "; ".join(f"{m.sender} to {m.receiver or 'all'}: {m.words}" for m in messages)
    label = f"{escape(title)}. {escape(told)}"
    if len(parties) >= MANY:
        width, height, parts = _rows(messages, centre)
    else:
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


def _rows(messages: Sequence[Message], centre: str | None) -> tuple[int, int, list[str]]:
    """A row for each party, a column for each kind: arrows lead to or from whom all goes to."""
    kinds = list(dict.fromkeys(message.text for message in messages))
    ends = list(dict.fromkeys(_end(message, centre) for message in messages))
    names = max([len(name) for name in ends], default=0) * 7 + 24
    column = max([_COLUMN, *(7 * len(kind) + 12 for kind in kinds)])
    width = names + column * len(kinds) + 10
    height = 34 + _ROW * len(ends) + 8
    parts = []
    for at, kind in enumerate(kinds):
        x = names + column * at
        parts.append(f'<text class="kind" x="{x}" y="17">{escape(kind)}</text>')
    for at, end in enumerate(ends):
        y = 34 + _ROW * at + 14
        parts.append(f'<line class="life" x1="0" x2="{width}" y1="{y + 8}" y2="{y + 8}"/>')
        parts.append(f'<text class="row" x="0" y="{y + 4}">{escape(end)}</text>')
    for message in messages:
        x = names + column * kinds.index(message.text)
        y = 34 + _ROW * ends.index(_end(message, centre)) + 14
        # To the right: on its way to the one in the middle.
        first, last = (x, x + 30) if message.receiver == centre else (x + 30, x)
        parts.append(_arrow(message.style, first, last, y))
        parts.append(
            f'<text class="size{"" if message.good else " broken"}" x="{x + 38}" '
            f'y="{y + 4}">{escape(message.size)}</text>'
        )
    return width, height, parts


def _end(message: Message, centre: str | None) -> str:
    """Of a message to or from the one in the middle the other end; of others both."""
    if message.receiver is None:
        return f"{message.sender} to all"
    if message.receiver == centre:
        return message.sender
    if message.sender == centre:
        return message.receiver
    return f"{message.sender} to {message.receiver}"


def _arrow(style: str, x1: int, x2: int, y: int) -> str:
    tip = 7 if x1 < x2 else -7
    return (
        f'<g class="{style}"><line x1="{x1}" x2="{x2 - tip}" y1="{y}" y2="{y}"/>'
        f'<path d="M{x2} {y} l{-tip} -4 v8 z"/><circle cx="{x1}" cy="{y}" r="2.5"/></g>'
    )
