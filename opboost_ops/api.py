"""For notebooks and programs: what the commands do, as typed objects and polars frames.

>>> from opboost_ops import api
>>> api.check("credit/federation.yaml").faults
()
>>> trained = api.run("credit/federation.yaml", parameters={"num_leaves": 7})
>>> trained.metrics
shape: (2, 3)
...
>>> api.score("credit/federation.yaml").scores
shape: (1_000, 4)
...

What an object holds is its party's own: of one's own party, or of all where one runs all of them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from opboost_ops.cli.check import found_faults
from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import POLICY, load_federation, load_policy, load_site
from opboost_ops.errors import ContractError, Fault
from opboost_ops.exchange.books import open_books
from opboost_ops.models.card import Card
from opboost_ops.models.registry import Registry, model_in
from opboost_ops.privacy import statement
from opboost_ops.privacy.accountant import model_epsilon
from opboost_ops.run import local
from opboost_ops.run.changes import leaving
from opboost_ops.run.party_sites import site_files


@dataclass(frozen=True)
class Checked:
    """What `check` found.

    Attributes:
        federation: As declared.
        faults: All that is wrong at the parties' sites and tables; empty if nothing.
        leaves: What is randomised before it leaves: a row a column and agreed epsilon, with
            ``party``, ``column``, ``mechanism``, ``epsilon``, ``loss_1`` and ``loss_whole``.
    """

    federation: Federation
    faults: tuple[Fault, ...]
    leaves: pl.DataFrame


@dataclass(frozen=True)
class Trained:
    """A finished training run.

    Attributes:
        federation: As it was run.
        version: The model's, which is also the run's id.
        champion: Whether it became champion.
        why: The gate's decision.
        metrics: A row for each way of training and scoring, named by ``model``.
        model: The model's text, as stock LightGBM or XGBoost loads it.
        card: Its card.
        seconds: By stage.
    """

    federation: Federation
    version: str
    champion: bool
    why: str
    metrics: pl.DataFrame
    model: str
    card: Card
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class Scored:
    """A finished scoring run.

    Attributes:
        version: Of the model.
        mode: Of scoring.
        file: Where the scores lie.
        scores: They themselves, a row a person.
        new: Whether the file is new; the same rows are scored once.
    """

    version: str
    mode: str
    file: Path
    scores: pl.DataFrame
    new: bool


@dataclass(frozen=True)
class Statement:
    """What a party has released.

    Attributes:
        party: Whose.
        columns: A row for each charged column: ``feature``, ``column`` (its UUID), ``mechanism``,
            ``releases``, the public worst case ``loss_1`` and ``loss_whole``, and
            ``retrainings_left``, null where they never end.
        exact: A row for each kind of release that has no epsilon: ``receiver``, ``kind``,
            ``times`` and what it ``discloses``.
        model_epsilon: Of all private models.
    """

    party: str
    columns: pl.DataFrame
    exact: pl.DataFrame
    model_epsilon: float


def check(federation: str | Path) -> Checked:
    """Look for whatever would be found when a run begins.

    Args:
        federation: ``federation.yaml``, or the folder that it lies in.

    Raises:
        ConfigError: The federation file itself is faulty; with all its faults.
    """
    path = _file(federation)
    declared = load_federation(path)
    faults, _ = found_faults(path, declared)
    lines = [
        {
            "party": party,
            "column": line.charge,
            "mechanism": line.curve.mechanism,
            "epsilon": line.epsilon,
            "loss_1": float(line.curve.loss[0]),
            "loss_whole": float(line.curve.loss[-1]),
        }
        for party in declared.feature_holders
        for line in leaving(declared, party)
    ]
    return Checked(declared, tuple(faults), pl.DataFrame(lines, infer_schema_length=None))


def run(
    federation: str | Path,
    *,
    parties: local.Parties = "processes",
    listener: local.Listener | None = None,
    **form: Any,
) -> Trained:
    """Train a federation here, all its parties.

    Args:
        federation: ``federation.yaml``, or the folder that it lies in.
        parties: How parties run.
        listener: Called with party and event for every stage.
        form: As in the trigger form: ``trees``, ``learning_rate``, ``depth``, ``parameters``,
            ``denoise``, ``epsilon``.

    Raises:
        OpBoostError: What happened, where, and what to do.
    """
    path = _file(federation)
    finished = _run(path, form, listener, "train", parties)
    owner = finished.federation.label_holder
    registry = _registry(path, finished.federation, owner)
    said = finished.summaries[owner]
    made = card(path, finished.run)
    return Trained(
        federation=finished.federation,
        version=finished.run,
        champion=said["register"]["champion"],
        why=said["register"]["why"],
        metrics=_metrics(made.metrics),
        model=model_in(registry.files(finished.run)),
        card=made,
        seconds=finished.seconds(),
    )


def score(
    federation: str | Path,
    version: str | None = None,
    *,
    parties: local.Parties = "processes",
    listener: local.Listener | None = None,
) -> Scored:
    """Score the parties' tables of new rows.

    Args:
        federation: ``federation.yaml``, or the folder that it lies in.
        version: A model; the champion when absent.
        parties: How parties run.
        listener: Called with party and event for every stage.

    Raises:
        OpBoostError: What happened, where, and what to do.
    """
    path = _file(federation)
    finished = _run(path, {"version": version}, listener, "score", parties)
    owner = finished.federation.label_holder
    said = finished.summaries[owner]
    site = load_site(site_files(path, finished.federation)[owner])
    used = said["score"]["version"]
    file = site.scores / finished.federation.name / used / said["write_scores"]["file"]
    # By this path alone: polars would take brackets in a folder's name for a pattern.
    scores = pl.read_parquet(file.read_bytes())
    return Scored(used, said["score"]["mode"], file, scores, said["write_scores"]["new"])


def card(federation: str | Path, version: str | None = None) -> Card:
    """A model's card, at the label holder.

    Args:
        federation: ``federation.yaml``, or the folder that it lies in.
        version: A model; the champion when absent.

    Raises:
        ContractError: There is no such model, or its card is not of this software's form.
    """
    path = _file(federation)
    declared = load_federation(path)
    registry = _registry(path, declared, declared.label_holder)
    chosen = version or registry.champion()
    if chosen is None:
        raise ContractError(
            f"{declared.name} has no champion.", "Train a model, or name a version."
        )
    try:
        return Card.model_validate_json(registry.files(chosen)["card.json"])
    except ValueError:
        problem = f"The card of {chosen} has a form that this software does not read."
    raise ContractError(problem, "See it with `opboost models show`.")


def ledger(site: str | Path) -> Statement:
    """What a party has released, by its own books.

    Args:
        site: Folder of the party's ``site.yaml``.

    Raises:
        ConfigError: The site or its database cannot be read.
    """
    folder = Path(site)
    declared, policy = load_site(folder / "site.yaml"), load_policy(folder / POLICY)
    with open_books(declared) as books:
        releases = books.ledger.releases()
    words = statement.protections(releases)
    columns = [
        {
            "feature": found.feature,
            "column": str(uuid),
            "mechanism": words.get(uuid),
            "releases": found.account.releases,
            "loss_1": float(found.account.step),
            "loss_whole": float(found.account.whole),
            "retrainings_left": found.retrainings,
        }
        for uuid, found in statement.forecasts(releases, policy).items()
    ]
    exact = [asdict(line) for line in statement.exact_lines(releases)]
    return Statement(
        party=declared.party,
        columns=pl.DataFrame(columns, infer_schema_length=None),
        exact=pl.DataFrame(exact, infer_schema_length=None),
        model_epsilon=float(model_epsilon(releases)),
    )


def _run(
    path: Path,
    form: Mapping[str, Any],
    listener: local.Listener | None,
    purpose: Purpose,
    parties: local.Parties,
) -> local.Finished:
    return local.run_federation(path, form, listener, purpose, parties)


def _metrics(metrics: Mapping[str, Mapping[str, float]]) -> pl.DataFrame:
    lines = [{"model": name, **found} for name, found in metrics.items()]
    return pl.DataFrame(lines, infer_schema_length=None)


def _registry(path: Path, federation: Federation, owner: str) -> Registry:
    return Registry(load_site(site_files(path, federation)[owner]).models, federation.name)


def _file(federation: str | Path) -> Path:
    path = Path(federation)
    return path / "federation.yaml" if path.is_dir() else path
