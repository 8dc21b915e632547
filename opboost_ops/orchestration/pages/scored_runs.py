"""Kept distributions of the scores of scoring runs, at the party that has them."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opboost_ops.config.loading import site_of
from opboost_ops.learning.distribution import LEAST, merged
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.learning.registry.scores import DISTRIBUTIONS
from opboost_ops.quality.live import SERVED, Counts, live_of
from opboost_ops.reports.display.blocks import Block, Fact, Facts, Heading, number
from opboost_ops.reports.display.charts import KINDS
from opboost_ops.reports.live_page import live_blocks
from opboost_ops.reports.outcomes import outcome_blocks, outcomes_of
from opboost_ops.reports.plots import new_scores
from opboost_ops.reports.versions import Version

#: The heading of what a run has scored.
SCORES = "Scores"


@dataclass(frozen=True)
class Scored:
    """One scoring run.

    Attributes:
        changed: When it was written, in seconds.
        path: Where its distribution lies.
    """

    changed: float
    path: Path

    @property
    def day(self) -> str:
        """When it was written, in UTC, or the day of rows that were scored one by one."""
        if self.path.name.startswith(SERVED):
            return f"{self.path.name.removeprefix(SERVED)[:10]}, one by one"
        return f"{datetime.fromtimestamp(self.changed, UTC):%Y-%m-%d %H:%M}"

    def read(self) -> Mapping[str, Any]:
        """Its distribution, whose bins hold nobody or at least `LEAST` people.

        Raises:
            ValueError: It is damaged.
        """
        content: dict[str, Any] = json.loads(self.path.read_bytes())
        if "series" in content:
            return content
        counts = Counts.model_validate(content["live"])
        series = [merged("scores", counts.scores, counts.edges)] if counts.edges else []
        return {**content, "least": LEAST, "series": series}


def production(home: Path, version: Version, owner: str) -> list[Block]:
    """A version in production beside its training; nothing where it has scored nothing.

    Args:
        home: The party's home folder of the federation.
        version: The version.
        owner: The party.
    """
    live = live_of(home, version.name)
    figures = live_blocks(live, owner, version.parties) if live else []
    # One kind of line is for the held-out rows.
    files = _in(home / DISTRIBUTIONS / version.name)
    newest = sorted(files, key=lambda file: -file.changed)[: KINDS - 1]
    scored = [(file.day, file.read()) for file in newest]
    blocks = [*figures, *new_scores(scored, version.evaluation)]
    if (outcomes := outcomes_of(home, version.name)) is not None:
        blocks += outcome_blocks(outcomes, version)
    return [Heading("In production"), *blocks] if blocks else []


def run_blocks(party: str, federation: str, run: str) -> list[Block]:
    """A run's scores, for the page of a run; nothing if it is not here.

    Args:
        party: Whose view.
        federation: The run's federation.
        run: Its id.
    """
    site, _ = site_of(party)
    folder = site.home / federation / DISTRIBUTIONS
    versions = [entry.name for entry in os.scandir(folder)] if folder.is_dir() else []
    there = (folder / version / f"{run}.json" for version in versions)
    path = next((path for path in there if path.is_file()), None)
    if path is None:
        return []
    version = path.parent.name
    registry = Registry(site.models, federation)
    distribution = json.loads(path.read_bytes())
    evaluation = {}
    if version in registry.versions():
        evaluation = json.loads(registry.file(version, "evaluation.json"))
    facts = [
        Fact("Scored by version", version, href=f"models/{party}/{federation}/{version}"),
        *(Fact("Rows", f"{s['rows']:,}") for s in distribution["series"] if s["rows"] is not None),
    ]
    if "mean" in distribution:
        facts.append(
            Fact("Mean score", number(distribution["mean"], 4).text, f"mode {distribution['mode']}")
        )
    predicted = distribution.get("said", {})
    whole = sum(predicted.values())
    facts += [
        Fact(f"Said {name}", f"{100 * rows / whole:.1f} %", f"{rows:,} rows")
        for name, rows in predicted.items()
    ]
    return [
        Heading(SCORES),
        Facts(facts),
        *new_scores([("this run", distribution)], evaluation),
    ]


def _in(folder: Path) -> Iterator[Scored]:
    if folder.is_dir():
        for path in folder.glob("*.json"):
            # Not there any more: somebody has cleared the home folder meanwhile.
            with contextlib.suppress(OSError):
                yield Scored(path.stat().st_mtime, path)
