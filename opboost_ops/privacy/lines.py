"""Ledger lines by their forms: what many lines share is read and added up once.

A line is mostly that of the night before, but for its own words: run, digests and a few counts.
What is left of its text without them is its form. Sums over lines go by forms, each times its
lines; a line is read whole when somebody asks for it. A text that is written otherwise is read
whole at once, as a form of its own.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import compress
from typing import overload
from uuid import UUID

from opboost_ops.privacy.accountant import Account, add, of_column
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.loss import LossCurve

#: In a line's text, the beginning of its loss curve, and what comes after its end.
_CURVE, _AFTER = '"loss": {', '}, "epsilon": '

_WORD, _NUMBER = "([0-9a-z]*)", "([1-9][0-9]{0,15}|0)"
#: A line as this software writes it. Every second group is one of its own words.
_LINE = re.compile(
    r'(\{"federation": "[^"\\]*", "run": ")' + _WORD + r'(", "party": "[^"\\]*", '
    r'"receiver": "[^"\\]*", "kind": "[^"\\]*", "artifact": ")' + _WORD + r'(", '
    r'"account": "[^"\\]*", "feature": [^,]*, "column": [^,]*, "noise": [^,]*, "cells": [^,]*, '
    r'"draws": (?:null)?"?)' + _WORD + r'("?, "draw": )(?:null|(\{"number": )' + _NUMBER + r"(, "
    r'[^{}]*"worst": )' + _NUMBER + r')(, .*, "rows": )' + _NUMBER + r'(, "discloses": ".*\})'
)
_SHARED = (1, 3, 5, 7, 8, 10, 12, 14)


class Form:
    """What lines share.

    Args:
        line: The first of them, with words of its own.
    """

    __slots__ = ("line",)

    def __init__(self, line: Release) -> None:
        self.line = line


class Lines(Sequence[tuple[str, Release]]):
    """Lines of a ledger with the times when they were reserved, oldest first.

    Args:
        times: When each was reserved (UTC).
        texts: Its text.
        forms: Its form.
        runs: Its run.
        numbers: Its place in the ledger, from 0.
    """

    def __init__(
        self,
        times: Sequence[str],
        texts: Sequence[str],
        forms: Sequence[Form],
        runs: Sequence[str],
        numbers: Sequence[int],
    ) -> None:
        self.times = times
        self.texts = texts
        self.forms = forms
        self.runs = runs
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, at: int) -> tuple[str, Release]: ...
    @overload
    def __getitem__(self, at: slice) -> "Lines": ...
    def __getitem__(self, at: int | slice) -> "tuple[str, Release] | Lines":
        if isinstance(at, int):
            return self.times[at], release_of(self.texts[at])
        return Lines(
            self.times[at], self.texts[at], self.forms[at], self.runs[at], self.numbers[at]
        )

    def __iter__(self) -> Iterator[tuple[str, Release]]:
        return zip(self.times, map(release_of, self.texts), strict=True)

    def of_forms(self, wanted: Callable[[Release], object]) -> "Lines":
        """The lines of some forms.

        Args:
            wanted: Whether they are those of the form of which a line is given; it looks at no
                word of the line's own.
        """
        kept = {form for form in self.by_form if wanted(form.line)}
        if len(kept) == len(self.by_form):
            return self
        return self._those([form in kept for form in self.forms])

    def of_run(self, run: str) -> "Lines":
        """The lines of a run.

        Args:
            run: Its id.
        """
        return self._those([found == run for found in self.runs])

    def between(self, begin: str, end: str) -> "Lines":
        """The lines that were reserved in a time.

        Args:
            begin: Its first moment, as the ledger writes it; empty for no beginning.
            end: The first moment after it.
        """
        return self._those([begin <= time < end for time in self.times])

    def _those(self, kept: Sequence[bool]) -> "Lines":
        return Lines(
            [*compress(self.times, kept)],
            [*compress(self.texts, kept)],
            [*compress(self.forms, kept)],
            [*compress(self.runs, kept)],
            [*compress(self.numbers, kept)],
        )

    @cached_property
    def by_form(self) -> Mapping[Form, int]:
        """How many lines each form has, in the order of their first lines."""
        return Counter(self.forms)

    @property
    def counted(self) -> Sequence[tuple[Release, int]]:
        """A line of each form, and how many it has, in the order of their first lines."""
        return [(form.line, count) for form, count in self.by_form.items()]

    @cached_property
    def last(self) -> Sequence[tuple[Release, int]]:
        """The last line of each form, and how many it has, in the order of these lines."""
        places = dict(zip(self.forms, range(len(self)), strict=True))
        ordered = sorted(places.items(), key=lambda found: found[1])
        return [(release_of(self.texts[at]), self.by_form[form]) for form, at in ordered]

    @cached_property
    def accounts(self) -> Mapping[UUID, Account]:
        """What each column has cost by these lines; see `accountant.accounts`."""
        found: dict[UUID, Account] = {}
        # Columns in the order of their first lines; names and keys in that of their last ones.
        for line, _ in self.counted:
            of_column(found, line)
        for line, count in self.last:
            add(found, line, count)
        return found


def lines_of(rows: Iterable[tuple[str, str]]) -> Lines:
    """Lines from their texts.

    Args:
        rows: All lines, as when each was reserved and its text, oldest first.

    Raises:
        ValidationError: A text is none of a line.
    """
    times: list[str] = []
    texts: list[str] = []
    forms: list[Form] = []
    runs: list[str] = []
    known: dict[tuple[str | None, ...], Form] = {}
    for time, text in rows:
        found = _LINE.fullmatch(text)
        if found is None:
            line = release_of(text)
            form, run = Form(line), line.run
        else:
            shared, run = found.group(*_SHARED), found[2]
            seen = known.get(shared)
            if seen is None:
                seen = known[shared] = Form(release_of(text))
            form = seen
        times.append(time)
        texts.append(text)
        forms.append(form)
        runs.append(run)
    return Lines(times, texts, forms, runs, range(len(texts)))


@lru_cache(maxsize=1 << 16)
def release_of(text: str) -> Release:
    """A line as it was written; what the same text says does not change, so it is read once.

    Args:
        text: As it lies in the database.

    Raises:
        ValidationError: It is none of a line.
    """
    # Most of a line is its loss curve, which is that of the line before: it is read once, too. A
    # quote inside a string is written with a backslash, so neither mark can be a part of one.
    head, _, rest = text.partition(_CURVE)
    curve, end, tail = rest.partition(_AFTER)
    if not end:
        return Release.model_validate_json(text)
    release = Release.model_validate_json(f"{head}{_AFTER[3:]}{tail}")
    return release.model_copy(update={"loss": curve_of(f"{{{curve}}}")})


@lru_cache(maxsize=1 << 10)
def curve_of(text: str) -> LossCurve:
    """A loss curve from its JSON text."""
    return LossCurve.model_validate_json(text)
