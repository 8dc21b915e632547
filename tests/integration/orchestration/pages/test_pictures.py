"""Pictures show the data, whole."""

import hashlib
import re
from pathlib import Path

from opboost_ops.reports.display.charts import Curve, chart


def test_the_axis_shows_the_data_and_not_a_limit_far_above_it() -> None:
    data = Curve("loss(t)", [(1.0, 9.0), (9.0, 36.0)])
    limit = Curve("t epsilon", [(1.0, 500.0), (9.0, 4500.0)], dashed=True)
    cut = Curve("near", [(1.0, 10.0), (9.0, 90.0)], dashed=True)
    svg = str(chart([data, limit, cut], title="t", x_ticks=[(1.0, "1"), (9.0, "9")]))
    assert "t epsilon, above the picture" in svg
    heights = [float(y) for y in re.findall(r'<circle class="k0" cx="[\d.]+" cy="([\d.]+)"', svg)]
    # From a quarter of the axis to its top.
    assert max(heights) - min(heights) > 90
    drawn = svg.partition("</svg>")[0]
    assert min(float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", drawn)) >= 14


def test_the_documents_pictures_are_of_these_pages() -> None:
    """`make tour` makes them again, and notes of which markup and style they are."""
    root = Path(__file__).parents[4]
    files = [sorted((root / "opboost_ops/reports/display" / name).iterdir())
             for name in ("templates", "static")]  # fmt: skip
    markup = b"".join(file.read_bytes() for folder in files for file in folder)
    noted = (root / "docs/figures/tour.sha256").read_text().split()[0]
    assert hashlib.sha256(markup).hexdigest() == noted, "run `make tour`, and look at them"
