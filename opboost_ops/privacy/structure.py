"""How narrow the cells are that exact disclosures of a column leave, taken together."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass
class Structure:
    """All that was disclosed of a column exactly: on which side of each edge every value lies.

    Attributes:
        edges: Partition edges and thresholds, in the feature's unit; a value at an edge lies
            below it.
        spans: The feature's public ranges, as they were declared when edges were disclosed.
        missing: Whether it was told exactly whose value is missing.
    """

    edges: set[float] = field(default_factory=set)
    spans: set[tuple[float, float]] = field(default_factory=set)
    missing: bool = False

    def add(self, edges: Iterable[float], span: tuple[float, float] | None, missing: bool) -> None:
        """Count one more release.

        Args:
            edges: What it disclosed.
            span: The feature's public range; None where its order means nothing.
            missing: Whether it told exactly whose value is missing.
        """
        new = set(edges)
        self.edges |= new
        if new and span is not None:
            self.spans.add(span)
        self.missing |= missing

    def tells_more_than(self, before: "Structure") -> bool:
        """Whether anything is disclosed here that was not before.

        Args:
            before: What had been disclosed.
        """
        return not self.edges <= before.edges or (self.missing and not before.missing)

    @property
    def least_cell(self) -> float | None:
        """Width of the narrowest cell, in the feature's unit; None where nothing is disclosed.

        The cells at both ends count: from the lower bound to the first edge lie all who are at
        the bound or were clipped to it, and an edge at the bound itself tells exactly who they
        are. Whose value is missing is a cell of no width.
        """
        widths = [b - a for a, b in pairwise(sorted(self.edges))]
        for lower, upper in self.spans:
            # Beyond the bounds there is nobody: values are clipped to them.
            widths += [edge - lower for edge in self.edges if edge >= lower]
            widths += [upper - edge for edge in self.edges if edge < upper]
        return min(widths + [0.0] * self.missing, default=None)
