"""The card's pictures, as SVG inside the page: they load nothing, and follow light and dark."""

import html
from collections.abc import Sequence
from itertools import groupby

from opboost_ops.models.importance import ImportanceLine

#: Told apart by all common kinds of colour blindness (Okabe and Ito), and at least 3 : 1 against
#: both a white and a black page. More parties repeat them: the headings name the parties anyway.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")

_WIDTH = 360
_BARS = 30
_NAME = 38


def sparkline(values: Sequence[float]) -> str:
    """A small rising line.

    Args:
        values: The finite losses, loss(1) first; there may be none.
    """
    if not values:
        return "no finite loss"
    top = max(values) or 1.0
    step = 100 / max(len(values), 1)
    points = " ".join(
        f"{(i + 1) * step:.1f},{28 - 26 * v / top:.1f}" for i, v in enumerate((0.0, *values), -1)
    )
    return (
        '<svg viewBox="0 0 102 30" width="102" height="30" role="img" '
        f'aria-label="loss rises to {values[-1]:.3f}"><polyline fill="none" '
        f'stroke="currentColor" stroke-width="1.5" points="{points}"/></svg>'
    )


def importance_bars(lines: Sequence[ImportanceLine], parties: Sequence[str]) -> str:
    """Horizontal bars by party: its name and share, below it its features.

    Names stand above their bars, so that it can be read on a telephone. A name that is too long
    is cut; the whole name is its title, and in the table of features.

    Args:
        lines: Features, most important first; those above zero among the first 30 are drawn.
        parties: In which order parties stand.
    """
    kept = [line for line in lines[:_BARS] if line.value > 0]
    drawn = sorted(kept, key=lambda line: parties.index(line.party))
    top = max((line.value for line in drawn), default=0.0) or 1.0
    parts: list[str] = []
    y = 0
    for party, group in groupby(drawn, key=lambda line: line.party):
        colour = COLOURS[parties.index(party) % len(COLOURS)]
        share = sum(line.share for line in lines if line.party == party)
        parts.append(_text(y + 18, f"{_cut(party)}: {share:.1%}", 'font-weight="bold"'))
        y += 28
        for line in group:
            width = max(_WIDTH * line.value / top, 1.0)
            parts += [
                f"<g><title>{html.escape(f'{party}.{line.feature}')}</title>",
                _text(y + 12, f"{_cut(line.feature)}: {line.share:.1%}"),
                f'<rect x="0" y="{y + 17}" width="{width:.1f}" height="10" fill="{colour}"></rect>',
                "</g>",
            ]
            y += 34
        y += 8
    more = len(lines) - len(drawn)
    note = f"<p>And {more} with less or nothing: see the table of features.</p>" if more else ""
    return (
        f'<svg class="bars" viewBox="0 0 {_WIDTH} {y}" role="img" '
        'aria-label="importance of features, by party" font-size="13" fill="currentColor">'
        f"{''.join(parts)}</svg>{note}"
    )


def _text(y: int, words: str, more: str = "") -> str:
    return f'<text x="0" y="{y}" {more}>{html.escape(words)}</text>'


def _cut(name: str) -> str:
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"
