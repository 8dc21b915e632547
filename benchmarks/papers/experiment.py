"""What an experiment is, and what one is run with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Progress = Callable[[int, int], None]

#: Measurements are many and cheap to have again: they are not part of the project.
WORK = Path("runs/evaluation")


@dataclass(frozen=True)
class Options:
    """What an experiment is run with.

    Attributes:
        seeds: How many splits and draws of noise.
        work: Folder where single measurements are cached.
        progress: Called with how many measurements are done, and of how many.
        more: The experiment's own options, by name.
    """

    seeds: int
    work: Path = WORK
    progress: Progress | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """One of the experiment's own options."""
        return self.more[name]


@dataclass(frozen=True)
class Experiment:
    """One workload.

    Attributes:
        name: On the command line, and of its summary in docs/evaluation.
        help: What it answers, in a sentence.
        run: Measures, and returns the summary: plain values.
        section: Writes a summary as Markdown, and draws its pictures into a folder.
        seeds: How many when nothing is said.
        options: Its own options with their defaults; a tuple takes several values.
        quick: What `--quick` sets instead.
    """

    name: str
    help: str
    run: Callable[[Options], dict[str, Any]]
    section: Callable[[Mapping[str, Any], Path], str]
    seeds: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)

    def summary(
        self, seeds: int, more: Mapping[str, Any], quick: bool, work: Path, progress: Progress
    ) -> dict[str, Any]:
        """Run it, and note by which command.

        Args:
            seeds: How many.
            more: Its own options that were given.
            quick: Whether a small share is enough.
            work: Folder where single measurements are cached.
            progress: Called with how many measurements are done, and of how many.
        """
        command = [f"python -m benchmarks.papers {self.name}"]
        command += [f"--seeds {seeds}"] * (self.seeds > 1 and not quick)
        for name, value in more.items():
            values = value if isinstance(value, list | tuple) else [value]
            command.append(" ".join([f"--{name}", *map(str, values)]))
        command += ["--quick"] * quick
        chosen = {**self.options, **(self.quick if quick else {}), **more}
        seeds = chosen.pop("seeds", seeds)
        found = self.run(Options(seeds, work, progress, chosen))
        return {"name": self.name, "command": " ".join(command), "quick": quick, **found}
