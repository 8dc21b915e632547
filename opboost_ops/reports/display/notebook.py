"""Pictures in notebooks: with the colours of the style sheet, and nothing loaded from anywhere."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markupsafe import escape

from opboost_ops.reports.display.blocks import Figure

_STYLE = Path(__file__).parent / "static" / "style.css"


@dataclass(frozen=True)
class Picture:
    """A picture that a notebook shows.

    Attributes:
        figure: What it shows.
    """

    figure: Figure

    def __repr__(self) -> str:
        return f"Picture({self.figure.caption})"

    def _repr_html_(self) -> str:
        # Inside a class of its own: other pictures of a notebook keep their style.
        return (
            f"<style>.opboost-picture {{ max-width: 36rem; {_rules()} }}</style>"
            f'<figure class="opboost-picture"><figcaption>{escape(self.figure.caption)}'
            f"</figcaption>{self.figure.svg}</figure>"
        )


@cache
def _rules() -> str:
    """The style sheet's colours and its rules of pictures."""
    lines = _STYLE.read_text(encoding="utf-8").splitlines()
    return " ".join(
        line.strip() for line in lines if line.startswith(("  --", "svg ", ".chart", ".legend"))
    )
