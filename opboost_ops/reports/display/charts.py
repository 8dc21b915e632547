"""Charts and sequence diagrams as SVG, in the style sheet's colours."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

#: Ticks of an axis of shares.
SHARES = ((0.0, "0"), (0.25, "0.25"), (0.5, "0.5"), (0.75, "0.75"), (1.0, "1"))

#: Number of distinguishable curves in a chart, by colour, dash and marker of the style sheet.
CURVE_KINDS = 6

_WIDTH, _HEIGHT = 440, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 14, 34

#: Number of parties from which a sequence diagram becomes too wide.
TOO_MANY_PARTIES = 6

_GAP = 156


@dataclass(frozen=True)
class Curve:
    """A curve.

    Attributes:
        name: Name in the legend.
        points: Points from left to right; an infinite y value ends the line.
        steps: True to draw it as steps.
        dashed: True for a limit or reference: thin, without markers.
        rings: Indices of points with a ring around them.
        band: Lower and upper end at each point, drawn as an area behind it; may be empty.
        words: Description for screen readers; by default the first and last value.
    """

    name: str
    points: Sequence[tuple[float, float]]
    steps: bool = False
    dashed: bool = False
    rings: tuple[int, ...] = ()
    band: Sequence[tuple[float, float]] = ()
    words: str = ""


def colour_of(party: str, parties: Iterable[str]) -> int:
    """Return a party's colour, the same on every page: its index among the federation's parties.

    Args:
        party: Name of the party.
        parties: All parties of the federation.
    """
    names = sorted(parties)
    return names.index(party) % CURVE_KINDS if party in names else CURVE_KINDS - 1


def chart(
    curves: Sequence[Curve],
    *,
    title: str,
    x_ticks: Sequence[tuple[float, str]],
    x_label: str = "",
    from_zero: bool = True,
    logarithmic: bool = False,
) -> Markup:
    """Draw curves, with a legend below.

    Args:
        curves: At most `CURVE_KINDS`, not counting references.
        title: Description for screen readers.
        x_ticks: Ticks of the x axis.
        x_label: Label of the x axis.
        from_zero: True if the y axis begins at zero.
        logarithmic: True for a logarithmic x axis.
    """
    # A tick may lie before the first point, and must still be visible.
    xs = [*(x for c in curves for x, _ in c.points), *(x for x, _ in x_ticks)] or [0.0]
    heights = [y for c in curves if not c.dashed for _, y in c.points if math.isfinite(y)]
    references = [y for c in curves if c.dashed for _, y in c.points if math.isfinite(y)]
    # The data determines the axis: a limit far above it would flatten all curves.
    near = [y for y in references if not heights or y <= 1.5 * max(heights)]
    ys = [*heights, *near] or [0.0]
    ys += [end for c in curves for ends in c.band for end in ends]
    low_x, high_x = min(xs), max(xs)
    low_y, high_y = (0.0 if from_zero else min(ys)), max(ys)
    ticks = _ticks(low_y, high_y)
    low_y, high_y = min(low_y, ticks[0]), max(high_y, ticks[-1])

    def x_of(x: float) -> float:
        share = 0.5 if high_x == low_x else (x - low_x) / (high_x - low_x)
        if logarithmic and high_x > low_x > 0:
            share = math.log(x / low_x) / math.log(high_x / low_x)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y_of(y: float) -> float:
        share = 0.5 if high_y == low_y else (y - low_y) / (high_y - low_y)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y_of(t):.1f}" '
        f'y2="{y_of(t):.1f}"/><text class="y" x="{_LEFT - 6}" y="{y_of(t) + 4:.1f}">'
        f"{escape(_short(t, ticks))}</text>"
        for t in ticks
    ]
    for x, text in x_ticks:
        at = x_of(x)
        side = "start" if at < _LEFT + 30 else "end" if at > _WIDTH - 50 else "middle"
        parts.append(
            f'<text class="x {side}" x="{at:.1f}" y="{_HEIGHT - _BOTTOM + 17}">'
            f"{escape(text)}</text>"
        )
    if x_label:
        parts.append(
            f'<text class="x middle" x="{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}" '
            f'y="{_HEIGHT - 3}">{escape(x_label)}</text>'
        )
    kind = 0
    entries = []
    for curve in curves:
        style = "ref" if curve.dashed else f"k{kind % CURVE_KINDS}"
        kind += not curve.dashed
        inside = _below(curve.points, high_y) if curve.dashed else curve.points
        placed = [(x_of(x), y_of(y)) for x, y in inside if math.isfinite(y)]
        if curve.band:
            across = [x_of(x) for x, _ in curve.points]
            parts.append(_area(across, [(y_of(a), y_of(b)) for a, b in curve.band], style))
        parts.append(_line(curve, placed, style))
        above = "" if inside or not curve.points else ", above the picture"
        entries.append(
            f'<li><svg class="key" viewBox="0 0 26 10" width="26" height="10" aria-hidden="true">'
            f"{_key(style)}</svg>{escape(curve.name)}{above}</li>"
        )
    # A single curve needs a legend only if the title does not name it.
    named = len(curves) > 1 or any(c.name not in title for c in curves)
    svg = (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}. {escape(_in_words(curves))}">{"".join(parts)}</svg>'
    )
    legend = f'<ul class="legend">{"".join(entries)}</ul>' if named else ""
    return Markup(svg + legend)  # noqa: S704  Every text in it is escaped above.


def _in_words(curves: Sequence[Curve]) -> str:
    """Describe a chart for screen readers: the first and last value of each curve."""
    texts = []
    for curve in curves:
        if curve.words:
            texts.append(curve.words)
        elif curve.points:
            first, last = curve.points[0][1], curve.points[-1][1]
            texts.append(f"{curve.name}: from {first:.4g} to {last:.4g}")
    return "; ".join(texts)


def bars(
    rows: Sequence[tuple[str, float, int]], *, title: str, unit: str = "", digits: int = 1
) -> Markup:
    """Draw horizontal bars, in the given order.

    Args:
        rows: Name, value and colour group of each bar.
        title: Description for screen readers.
        unit: Appended to each value.
        digits: Decimals of each value.
    """
    top = max((value for _, value, _ in rows), default=0.0) or 1.0
    height = 24 * len(rows) + 4
    longest = max((len(name) for name, _, _ in rows), default=0)
    # Wide enough for the longest name, at seven units per character.
    names = min(300, max(80, 7 * longest + 10))
    most = (names - 10) // 7
    room = _WIDTH - names - 52
    words = "; ".join(f"{name}: {value:.{digits}f}{unit}" for name, value, _ in rows)
    parts = []
    for at, (name, value, group) in enumerate(rows):
        y = 24 * at + 4
        width = max(1.0, room * value / top)
        shown = name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-(most // 2) :]}"
        parts.append(
            f'<g class="k{group % CURVE_KINDS}"><title>{escape(name)}</title>'
            f'<text class="y" x="{names - 6}" y="{y + 13}">{escape(shown)}</text>'
            f'<rect class="bar" x="{names}" y="{y + 2}" width="{width:.1f}" height="14" rx="2"/>'
            f'<text class="x start" x="{names + width + 6:.1f}" y="{y + 13}">'
            f"{value:.{digits}f}{escape(unit)}</text></g>"
        )
    return Markup(  # noqa: S704  Every text in it is escaped above.
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}. {escape(words)}">{"".join(parts)}</svg>'
    )


def _area(xs: Sequence[float], ends: Sequence[tuple[float, float]], style: str) -> str:
    forward = [f"{x:.1f} {low:.1f}" for x, (low, _) in zip(xs, ends, strict=True)]
    back = [f"{x:.1f} {high:.1f}" for x, (_, high) in zip(xs, ends, strict=True)]
    return f'<polygon class="band {style}" points="{" ".join([*forward, *reversed(back)])}"/>'


def _below(points: Sequence[tuple[float, float]], top: float) -> list[tuple[float, float]]:
    """Clip a non-decreasing reference at the top of the chart."""
    visible: list[tuple[float, float]] = []
    for x, y in points:
        if y <= top:
            visible.append((x, y))
        elif visible:
            x1, y1 = visible[-1]
            visible.append((x1 + (x - x1) * (top - y1) / (y - y1), top))
            break
    return visible


def _line(curve: Curve, placed: Sequence[tuple[float, float]], style: str) -> str:
    if not placed:
        return ""
    path = [f"M{placed[0][0]:.1f} {placed[0][1]:.1f}"]
    for x, y in placed[1:]:
        path.append(f"H{x:.1f}V{y:.1f}" if curve.steps else f"L{x:.1f} {y:.1f}")
    svg = f'<path class="{style}" d="{"".join(path)}"/>'
    if curve.dashed:
        return svg
    every = max(1, len(placed) // 12)
    marked = [p for i, p in enumerate(placed) if i % every == 0 or i == len(placed) - 1]
    svg += "".join(f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in marked)
    return svg + "".join(
        f'<circle class="ring" cx="{placed[i][0]:.1f}" cy="{placed[i][1]:.1f}" r="7"/>'
        for i in curve.rings
        if i < len(placed)
    )


def _key(style: str) -> str:
    line = f'<path class="{style}" d="M1 5L25 5"/>'
    return line if style == "ref" else f'{line}<circle class="{style}" cx="13" cy="5" r="3"/>'


def _ticks(low: float, high: float) -> list[float]:
    spread = (high - low) or abs(high) or 1.0
    raw = spread / 4
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, max(last, first + 1) + 1)]


def _short(value: float, ticks: Sequence[float]) -> str:
    step = ticks[1] - ticks[0]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:.{digits + (step * 10**digits % 1 > 0.01)}f}"


@dataclass(frozen=True)
class Message:
    """An arrow of a sequence diagram.

    Attributes:
        sender: The sending party.
        receiver: The receiving party; None for all.
        text: Kind of message.
        good: True if it was verified.
        size: Its size, in words; empty if unknown.
        colour: The sender's colour, as from `colour_of`.
    """

    sender: str
    receiver: str | None
    text: str
    good: bool
    size: str = ""
    colour: int = 0

    @property
    def style(self) -> str:
        """CSS classes of its arrow."""
        return f"sent k{self.colour}{'' if self.good else ' broken'}"

    @property
    def words(self) -> str:
        """Kind and size of the message."""
        return f"{self.text}, {self.size}" if self.size else self.text


def sequence_diagram(parties: Sequence[str], messages: Sequence[Message], *, title: str) -> Markup:
    """Draw who sent what to whom.

    Args:
        parties: Fewer than `TOO_MANY_PARTIES`, from left to right.
        messages: Messages in order.
        title: Description for screen readers.
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
        # Long arrows cross other lifelines, so their text is placed next to the sender.
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
