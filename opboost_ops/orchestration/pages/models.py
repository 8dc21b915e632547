"""The models' pages: versions of a federation, one version, a comparison, and scores of a run."""

import contextlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import isnan
from pathlib import Path
from typing import Any

from opboost_ops.config.loading import site_of
from opboost_ops.config.policy import AdminAction
from opboost_ops.errors import ContractError
from opboost_ops.learning.distribution import MIN_PEOPLE, merge_bins
from opboost_ops.learning.registry.registry import DISTRIBUTIONS, Registry
from opboost_ops.learning.registry.tracking import upload_problem
from opboost_ops.orchestration.pages.access import Query, guarded
from opboost_ops.quality.live import SERVED, Counts, live_of
from opboost_ops.reports.display.blocks import (
    Block,
    Fact,
    Facts,
    Heading,
    Links,
    Note,
    State,
    moment,
    number,
)
from opboost_ops.reports.display.charts import CURVE_KINDS
from opboost_ops.reports.listing import (
    comparison,
    decisions_table,
    live_blocks,
    over_versions,
    versions_table,
)
from opboost_ops.reports.outcomes import outcome_blocks, outcomes_of
from opboost_ops.reports.plots import new_scores
from opboost_ops.reports.version_page import version_parts
from opboost_ops.reports.versions import (
    ALONE,
    Models,
    Version,
    by_rank,
    federations_in,
    mode_words,
    models_of,
)

#: Maximum number of versions on a page and in a plot.
_VERSIONS = 20
_PLOTTED = 30

#: Downloadable files of a version, and their media types.
FILES: Mapping[str, str] = {
    "model.txt": "text/plain; charset=utf-8",
    "model.json": "application/json",
    "card.json": "application/json",
    "card.html": "text/html; charset=utf-8",
    "evaluation.json": "application/json",
    "scoring.json": "application/json",
}

#: Display state by verdict; a model that is no better is not an error.
_VERDICTS: Mapping[str, State] = {"promoted": "good", "rolled back": "good"}

#: Heading of the model that a run trained.
MODEL = "Model"

#: Heading of the scores that a run wrote.
SCORES = "Scores"


def build(party: str, query: Query) -> list[Block]:
    """Return the model versions of all federations that a party has models of.

    Args:
        party: Name of the party.
        query: The content to show.
    """
    site, _ = site_of(party)
    blocks: list[Block] = []
    names = federations_in(site.models)
    for name in names:
        if not query.sees(name) or query.federation not in (None, name):
            continue
        if len(names) > 1:
            blocks.append(Heading(name))
        blocks += guarded(lambda name=name: _all_versions(party, Models(site.models, name), query))  # type: ignore[misc]
    return blocks


def _all_versions(party: str, models: Models, query: Query) -> list[Block]:
    start = f"models/{party}/{models.federation}"
    address = f"{start}/{{}}".format
    names = [name for name in models.names if query.run in (None, name)]
    page, pager = query.paged(names, _VERSIONS)
    blocks: list[Block] = [*_mlflow(party, models.federation), _champion(models, start)]
    if models.fault:
        blocks.insert(0, Note("bad", models.fault.problem, models.fault.remedy))
    if names and names[0] != models.champion and (last := models.version(names[0]).decision):
        # The most frequent question: is the new version better, and by how much.
        links = [("The newest version", address(last.version))]
        if models.champion:
            links.append(
                ("Beside the champion", f"{start}/{models.champion}/beside/{last.version}")
            )
        verdict = models.version(names[0]).verdict
        text = f"The newest version is {last.version}: {verdict}, {moment(last.at).text} UTC."
        blocks.append(Note("", text, lines=(last.why,), links=links))
    if len(names) > 1:
        blocks.append(over_versions(models, names[:_PLOTTED][::-1]))
    most = None if query.whole else _VERSIONS
    return [
        *blocks,
        replace(versions_table(models, page, address), pager=pager),
        decisions_table(models, query.run, most, address),
    ]


def _champion(models: Models, start: str) -> Facts:
    name = models.champion
    if name is None:
        return Facts((Fact("Champion", "none", state="warn"), _version_count(models)))
    champion = models.version(name)
    since = f"since {moment(champion.decision.at).text} UTC" if champion.decision else ""
    facts = [Fact("Champion", name, since, "good", f"{start}/{name}"), _version_count(models)]
    alone = champion.metrics.get(ALONE, {})
    for mode, of in champion.metrics.items():
        for metric in by_rank(of) if mode != ALONE else ():
            beside = f"; label holder alone {alone[metric]:.4f}" if metric in alone else ""
            facts.append(Fact(metric, f"{of[metric]:.4f}", f"{mode_words(mode)}{beside}"))
    return Facts(facts)


def _version_count(models: Models) -> Fact:
    return Fact("Versions", f"{len(models.names):,}")


def version(party: str, federation: str, name: str) -> list[Block]:
    """Return the page of a version: its card, and how new scores compare.

    Args:
        party: Name of the label holder.
        federation: Name of the federation.
        name: Id of the version.

    Raises:
        ContractError: There is no such version.
    """
    site, policy = site_of(party)
    models = models_of(site, federation)
    model = models.version(name)
    start = f"models/{party}/{federation}/{name}"
    file_names = models.registry.names(name)
    links = Links(
        (
            ("The run that made it", f"run?id={name}"),
            *(
                (f"Download {file}", f"{start}/{file}?save=1")
                for file in FILES
                if file in file_names
            ),
        )
    )
    former = any(e.version == name and e.event != "kept" for e in models.history)
    state: State = "good" if model.champion else ""
    use = Fact("In use", "champion" if model.champion else "no", model.verdict, state)
    blocks: list[Block] = [Facts((use,))]
    for part in version_parts(model):
        blocks += guarded(part)
    blocks += guarded(lambda: production(site.home / federation, model, party))
    acts = on_version(
        party, federation, name, champion=model.champion, former=former, allowed=policy.acts
    )
    return [*blocks, acts, links]


def beside(party: str, federation: str, name: str, other: str) -> list[Block]:
    """Return a comparison of two versions.

    Args:
        party: Name of the label holder.
        federation: Name of the federation.
        name: Id of the first version.
        other: Id of the second version.

    Raises:
        ContractError: One of them does not exist.
    """
    models = models_of(site_of(party)[0], federation)
    first, second = models.version(name), models.version(other)
    return comparison(first, second, f"models/{party}/{federation}")


def version_file(party: str, federation: str, name: str, file: str) -> bytes:
    """Return a file of a version.

    Args:
        party: Name of the label holder.
        federation: Name of the federation.
        name: Id of the version.
        file: One of `FILES`.

    Raises:
        ContractError: There is no such version or file.
    """
    return models_of(site_of(party)[0], federation).registry.file(name, file)


def run_blocks(party: str, federation: str, run: str) -> list[Block]:
    """Return a run's model version for the page of the run; empty if it registered none.

    Args:
        party: Name of the party.
        federation: Name of the federation.
        run: Id of the run, which is also the version's.
    """
    try:
        model = models_of(site_of(party)[0], federation).version(run)
    except ContractError:
        return []
    facts = [Fact("Model version", run, href=f"models/{party}/{federation}/{run}")]
    if model.decision:
        state = _VERDICTS.get(model.verdict, "")
        facts.insert(0, Fact("Verdict", model.verdict, model.decision.why, state))
    for metric in by_rank(model.metrics.get(model.mode, {})):
        of = model.judged(metric)
        assert of is not None
        span = "" if isnan(of.low) else f", 95 %: {of.low:.4f} to {of.high:.4f}"
        facts.append(Fact(metric, f"{of.value:.4f}", f"{mode_words(model.mode)}{span}"))
    return [Heading(MODEL), *_mlflow(party, federation), Facts(facts)]


def _mlflow(party: str, federation: str) -> list[Block]:
    problem = upload_problem(site_of(party)[0], federation)
    if not problem:
        return []
    remedy = (
        f"errors/mlflow_{federation}.txt in the home folder has details. The next training, or "
        "clearing the task that announces the champion, tries again."
    )
    return [Note("warn", f"The champion is not in MLflow: {problem.rstrip('.')}.", remedy)]


def on_version(
    party: str,
    federation: str,
    version: str,
    *,
    champion: bool,
    former: bool,
    allowed: Collection[AdminAction],
) -> Note:
    """Return a note on how to promote a version, and score with it, through Airflow's forms.

    Airflow 3.3 cannot prefill a form by URL, so the values to enter are listed.

    Args:
        party: Name of the party.
        federation: Name of the federation.
        version: Id of the version.
        champion: True if it is champion.
        former: True if it was champion before.
        allowed: Actions that the party allows through Airflow.
    """
    act: AdminAction = "roll_back" if former else "promote"
    lines = []
    links = [("Score with this version", f"/dags/{federation}_score")]
    if champion:
        lines.append("It is the champion: a scoring run uses it where no version is named.")
    elif act in allowed:
        links.insert(0, ("Put it into use", f"/dags/{federation}_admin"))
        lines.append(
            f"To put it into use: Trigger, party {party}, what {act}, version {version}, and why."
        )
    else:
        command = "rollback" if former else "promote"
        lines.append(f"To put it into use, at home: `opboost models {command} SITE {version}`.")
    if not champion:
        lines.append(f"To score with it: Trigger, version {version}.")
    text = "What can be done with this version"
    return Note("", text, "Each asks for Airflow's permission.", lines, links)


@dataclass(frozen=True)
class Scored:
    """The score distribution of one scoring run.

    Attributes:
        changed: When it was written, in seconds since 1970.
        path: Its file.
    """

    changed: float
    path: Path

    @property
    def day(self) -> str:
        """When it was written, in UTC; for rows that were scored one by one, their day."""
        if self.path.name.startswith(SERVED):
            return f"{self.path.name.removeprefix(SERVED)[:10]}, one by one"
        return f"{datetime.fromtimestamp(self.changed, UTC):%Y-%m-%d %H:%M}"

    def read(self) -> Mapping[str, Any]:
        """Return the distribution; each bin is empty or has at least `LEAST` people.

        Raises:
            ValueError: The file is damaged.
        """
        content: dict[str, Any] = json.loads(self.path.read_bytes())
        if "series" in content:
            return content
        counts = Counts.model_validate(content["live"])
        series = [merge_bins("scores", counts.scores, counts.edges)] if counts.edges else []
        return {**content, "least": MIN_PEOPLE, "series": series}


def production(home: Path, version: Version, owner: str) -> list[Block]:
    """Return a version's scores in production next to its training; empty if it has scored nothing.

    Args:
        home: The party's home folder of the federation.
        version: The version.
        owner: Name of the party.
    """
    live = live_of(home, version.name)
    figures = live_blocks(live, owner, version.parties) if live else []
    # One curve style is used by the held-out rows.
    files = _scored_in(home / DISTRIBUTIONS / version.name)
    newest = sorted(files, key=lambda file: -file.changed)[: CURVE_KINDS - 1]
    scored = [(file.day, file.read()) for file in newest]
    blocks = [*figures, *new_scores(scored, version.evaluation)]
    if (outcomes := outcomes_of(home, version.name)) is not None:
        blocks += outcome_blocks(outcomes, version)
    return [Heading("In production"), *blocks] if blocks else []


def score_blocks(party: str, federation: str, run: str) -> list[Block]:
    """Return a run's scores for the page of the run; empty if they are not at this party.

    Args:
        party: Name of the party.
        federation: Name of the federation.
        run: Id of the run.
    """
    site, _ = site_of(party)
    folder = site.home / federation / DISTRIBUTIONS
    versions = [entry.name for entry in os.scandir(folder)] if folder.is_dir() else []
    candidates = (folder / version / f"{run}.json" for version in versions)
    path = next((path for path in candidates if path.is_file()), None)
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


def _scored_in(folder: Path) -> Iterator[Scored]:
    if folder.is_dir():
        for path in folder.glob("*.json"):
            # The home folder may be cleaned up meanwhile.
            with contextlib.suppress(OSError):
                yield Scored(path.stat().st_mtime, path)
