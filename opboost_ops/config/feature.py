"""Features as declared in ``federation.yaml``: type, domain and mechanism."""

import math
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from opboost_ops.config.schema import Record
from opboost_ops.domain import Domain, DomainMap
from opboost_ops.mechanisms import BucketResponse, Mechanism, MissingBit
from opboost_ops.mechanisms.parameters import Epsilon

#: An integer as written by programs whose column has gaps or decimals.
_INTEGER_AS_FLOAT = re.compile(r"[+-]?(?:0|[1-9]\d*)\.0+")


def canonical(text: str) -> str:
    """Return a category's canonical form: NFC without surrounding blanks, 3 for 3.0, true for TRUE.

    01 and 1.50 are unchanged, because codes and versions are not numbers.

    Args:
        text: The category in a table or declaration.
    """
    plain = unicodedata.normalize("NFC", text).strip()
    if plain.lower() in ("true", "false"):
        return plain.lower()
    return plain.partition(".")[0] if _INTEGER_AS_FLOAT.fullmatch(plain) else plain


class DomainRange(Record):
    """Bounds L and R of the integers on which protected features are released."""

    lower: int
    upper: int

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.lower >= self.upper:
            raise ValueError("lower must be less than upper")
        return self

    def to_domain(self) -> Domain:
        """Return the domain [lower, upper]."""
        return Domain(self.lower, self.upper)


class Edges(Record):
    """Declared inner edges of a feature's cells, strictly increasing.

    Attributes:
        edges: The edges.
        epsilon: Loss of private quantiles, which `opboost edges` draws from the private table and
            charges to the column, for a person added, removed or replaced. Without it, edges are
            public: declared by hand or taken from a public sample.
    """

    edges: tuple[float, ...] = Field(min_length=1)
    epsilon: Epsilon | None = None

    @model_validator(mode="after")
    def _increasing(self) -> Self:
        if any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError("edges must be strictly increasing")
        return self


#: Length in seconds of the units in which dates and times are counted since 1970-01-01 (UTC).
SECONDS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0, "years": 31556952.0}

Unit = Literal["seconds", "minutes", "hours", "days", "years"]


class Fill(Record):
    """Replacement of missing values by a declared value, before anything else.

    Attributes:
        fill: The value; for a feature with categories one of them.
        bit: Epsilon of a bit that discloses whether a value was missing, released as a separate
            column (feature holders); default: none.
    """

    fill: float | str
    bit: Epsilon | None = None


class Feature(Record):
    """A column of one party, or in horizontal learning of all.

    Attributes:
        uuid: Permanent identity of the column, besides its name; budgets apply to the raw column.
        type: ``numeric``, ``ordinal`` (in the order of ``categories``) or ``nominal``; ``boolean``
            is short for a numeric feature with bounds and domain [0, 1].
        unit: Unit in which the dates or times of a numeric feature are counted, since 1970-01-01
            (UTC), and durations from zero. Bounds and fill may then be dates.
        bounds: Public lower and upper bound of a protected numeric feature, in its own unit; with
            DPBoost also of the label holder's.
        domain: The integers on which it is released; useful for a column with few values. See
            `domain_in`.
        scale: The map from bounds to the domain.
        categories: All categories: of an ordinal feature lowest first, of a nominal one in any
            order. Required of feature holders, and with DPBoost of the label holder.
        mapping: Raw categories that count as a declared one.
        rest: The declared category for all raw ones that are neither declared nor mapped.
        missing: ``forbid``, a declared fill, or ``keep`` (for the label holder, and in horizontal
            learning for numbers and ordered categories).
        mechanism: How the feature is randomised; required of feature holders.
        refresh: When people's values are released again: ``never``, or ``yearly`` in the first run
            of each calendar year, which is another charged release.
    """

    uuid: UUID
    type: Literal["numeric", "ordinal", "nominal", "boolean"] = "numeric"
    unit: Unit | None = None
    bounds: tuple[float, float] | None = None
    domain: DomainRange | None = None
    scale: Literal["linear", "log1p"] | Edges = "linear"
    categories: tuple[str, ...] | None = None
    mapping: Mapping[str, str] = Field(default_factory=dict)
    rest: str | None = None
    missing: Literal["forbid", "keep"] | Fill = "forbid"
    mechanism: Mechanism | None = None
    refresh: Literal["never", "yearly"] = "never"

    @model_validator(mode="before")
    @classmethod
    def _in_plain_numbers(cls, data: Any) -> Any:
        """Convert booleans to numbers from 0 to 1, and dates to numbers of the declared unit."""
        if not isinstance(data, Mapping):
            return data
        entries = dict(data)
        if data.get("type") == "boolean":
            entries["type"] = "numeric"
            if entries.get("bounds") is None:
                entries["bounds"] = [0.0, 1.0]
            if entries.get("domain") is None:
                entries["domain"] = {"lower": 0, "upper": 1}
        if (seconds := SECONDS.get(str(data.get("unit")))) is None:
            return entries
        if isinstance(bounds := entries.get("bounds"), list | tuple):
            entries["bounds"] = [_date_to_number(bound, seconds) for bound in bounds]
        if isinstance(missing := entries.get("missing"), Mapping) and "fill" in missing:
            entries["missing"] = {**missing, "fill": _date_to_number(missing["fill"], seconds)}
        return entries

    @model_validator(mode="after")
    def _categories_apart(self) -> Self:
        forms: dict[str, str] = {}
        for name in (*(self.categories or ()), *self.mapping):
            if not canonical(name):
                raise ValueError("an empty category is a missing value: use `missing`")
            other = forms.setdefault(canonical(name), name)
            if other != name:
                raise ValueError(f"a table cannot tell {other} and {name} apart: keep one")
        return self

    @property
    def seconds(self) -> float:
        """Length of its unit in seconds; 1 without a unit."""
        return SECONDS.get(self.unit or "", 1.0)

    @property
    def span(self) -> tuple[float, float] | None:
        """Its public range in the unit of edges; None if edges make no sense for it.

        For an ordinal feature these are positions: each category is 1 wide, and its upper end is
        its own position. None for a nominal feature, whose positions have no meaning, and without
        bounds.
        """
        if self.type == "ordinal" and self.categories:
            return (-1.0, math.nextafter(len(self.categories), 0))
        return self.bounds if self.type == "numeric" else None

    def domain_in(self, domain: Domain) -> Domain:
        """Return the integers on which this feature is released.

        These are its declared ones, if any. Otherwise an ordinal feature has as many as it has
        categories, up to the federation's, and all others have the federation's.

        Args:
            domain: The federation's domain.
        """
        if self.domain is not None:
            return self.domain.to_domain()
        count = len(self.categories or ()) if self.type == "ordinal" else 0
        if not 2 <= count < domain.size:
            return domain
        return Domain(domain.lower, domain.lower + count - 1)

    def domain_map(self, domain: Domain) -> DomainMap:
        """Return the public map from this feature's values to the domain.

        Args:
            domain: The federation's domain.

        Returns:
            The map; its input is the raw number, or the category's position for ordinals.
        """
        domain = self.domain_in(domain)
        if self.type == "ordinal":
            assert self.categories is not None
            return DomainMap(domain, (0.0, float(len(self.categories) - 1)), "linear")
        assert self.bounds is not None
        edges = self.scale.edges if isinstance(self.scale, Edges) else None
        scale = "edges" if isinstance(self.scale, Edges) else self.scale
        return DomainMap(domain, self.bounds, scale, edges)

    @property
    def private_edges(self) -> Edges | None:
        """Its edges if they are private quantiles of its values, else None."""
        scale = self.scale
        return scale if isinstance(scale, Edges) and scale.epsilon is not None else None

    @property
    def missing_bit(self) -> MissingBit | None:
        """The mechanism of its missing bit; None without one."""
        bit = self.missing.bit if isinstance(self.missing, Fill) else None
        return None if bit is None else MissingBit(epsilon=bit)

    @property
    def guarantee(self) -> str:
        """The guarantee per cell in words, if it depends on the source of edges."""
        if not isinstance(self.mechanism, BucketResponse):
            return ""
        edges = "public edges" if self.private_edges is None else "private quantiles"
        return f"element-level local DP, per cell, by {edges}"


def _date_to_number(value: Any, seconds: float) -> Any:
    """Convert a date that YAML has parsed to a count since 1970-01-01 (UTC); keep other values."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).timestamp() / seconds
    return value
