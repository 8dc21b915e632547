"""Metrics over versions in pictures, with their intervals and days."""

from collections.abc import Mapping, Sequence

from opboost_ops.models.registry import Decision
from opboost_ops.pages.blocks import Figure, Figures
from opboost_ops.pages.pictures import Curve, chart
from opboost_ops.pages.version_facts import MAIN_MODE, VersionFacts, by_rank, mode_words


def over_versions(
    versions: Sequence[str],
    champion: str | None,
    facts: Mapping[str, VersionFacts],
    decided: Mapping[str, Decision],
) -> Figures:
    """A picture of each metric over versions.

    Args:
        versions: Oldest first.
        champion: The one in use.
        facts: What each says of itself.
        decided: The last decision about each.
    """
    metrics = {version: facts[version].metrics for version in versions}
    modes = sorted({m for v in versions for m in metrics[v]}, key=lambda m: m != MAIN_MODE)
    names = by_rank({k for v in versions for of in metrics[v].values() for k in of})
    figures = []
    for metric in names:
        curves = []
        for mode in modes:
            found = [
                (float(at), metrics[v][mode][metric], v)
                for at, v in enumerate(versions)
                if metric in metrics[v].get(mode, {})
            ]
            rings = tuple(
                i for i, (_, _, v) in enumerate(found) if (v, mode) == (champion, modes[0])
            )
            intervals = [facts[v].intervals.get(metric) for _, _, v in found]
            band = [(i.low, i.high) for i in intervals if i and i.low is not None and i.high]
            curves.append(
                Curve(
                    mode_words(mode),
                    [(x, y) for x, y, _ in found],
                    rings=rings,
                    # In the mode of scoring alone, and only where no version is without.
                    band=band
                    if len(band) == len(found) and mode == facts[versions[-1]].mode
                    else (),
                )
            )
        svg = chart(
            curves,
            title=f"{metric} over versions",
            x_ticks=_dates(versions, decided),
            from_zero=False,
        )
        figures.append(Figure(svg, metric))
    return Figures(
        "Metrics over versions",
        tuple(figures),
        f"The {len(versions)} newest, oldest to the left, with the days on which they were decided "
        "(UTC); a ring marks the champion, the area is the 95 % interval. On held-out rows.",
    )


def _dates(versions: Sequence[str], decided: Mapping[str, Decision]) -> list[tuple[float, str]]:
    """Both ends and the middle, by date where it is known."""
    last = len(versions) - 1
    places = sorted({0, last // 2, last}) if last > 3 else [0, last]
    return [
        (float(at), decided[versions[at]].at[:10] if versions[at] in decided else versions[at][:8])
        for at in places
    ]
