"""The label holder's model versions and the champion."""

import getpass
import json
from pathlib import Path
from typing import Any, Literal

import polars as pl

from opboost_ops.api.model import Model
from opboost_ops.config.loading import POLICY, load_federation, load_policy, load_site
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.extras.export.export import export_model, model_columns
from opboost_ops.extras.outcomes import id_columns, report
from opboost_ops.extras.setup.tables import read_table
from opboost_ops.learning.registry.card import Card
from opboost_ops.learning.registry.registry import Registry, federation_in
from opboost_ops.pipeline.party.admin_actions import ActionRequest, do
from opboost_ops.pipeline.party.party_sites import federation_file, site_files
from opboost_ops.reports import versions
from opboost_ops.reports.display.html import Picture
from opboost_ops.reports.outcomes import Outcomes
from opboost_ops.reports.plots import held_out_figures, importance_figures
from opboost_ops.reports.versions import Version


class Models:
    """The model versions of a federation, read from the label holder's registry.

    Attributes:
        site: The label holder's site.
        federation: Name of the federation.
    """

    def __init__(self, site: Site, federation: str) -> None:
        self.site, self.federation = site, federation
        self._registry = Registry(site.models, federation)

    def __repr__(self) -> str:
        names = self._registry.versions()
        return f"Models({self.federation}: {len(names)} versions, champion {self.champion})"

    @property
    def champion(self) -> str | None:
        """Id of the version that scores new rows; None before the first one."""
        return self._registry.champion()

    @property
    def view(self) -> versions.Models:
        """The registry's view that the pages show."""
        return versions.Models(self.site.models, self.federation)

    @property
    def versions(self) -> pl.DataFrame:
        """Frame with a row per version, oldest first, and a column per mode and metric."""
        return pl.DataFrame([_flat(line) for line in self.lines()[0]], infer_schema_length=None)

    def lines(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the entries of `opboost models list --json`, and errors of damaged versions."""
        view = self.view
        damages = [str(view.fault)] if view.fault else []
        lines = []
        for version in map(view.version, view.names[::-1]):
            try:
                evaluation = json.loads(view.registry.files(version.name)["evaluation.json"])
            except ContractError as error:
                damages.append(str(error))
                evaluation = {}
            lines.append(
                {
                    "version": version.name,
                    "champion": version.champion,
                    "damaged": not evaluation,
                    "mode": evaluation.get("mode"),
                    "metrics": evaluation.get("metrics", {}),
                    "decision": version.decision and version.decision.model_dump(),
                }
            )
        return lines, damages

    def files(self, version: str | None = None) -> dict[str, bytes]:
        """Return a version's files, by default the champion's.

        Raises:
            ContractError: There is none, or it is damaged.
        """
        name = version or self.champion
        if name is None:
            raise ContractError(
                f"{self.federation} has no champion.", "Train a model, or name a version."
            )
        return self._registry.files(name)

    def card(self, version: str | None = None) -> Card:
        """Return a version's card, by default the champion's.

        ContractError: There is no such model, or this release cannot read its card.
        ContractError: There is no such model, or its card is not of this software's form.
        """
        try:
            return Card.model_validate_json(self.files(version)["card.json"])
        except ValueError:
            pass
        raise ContractError(
            f"The card of {version or 'the champion'} has a form that this release cannot read.",
            "View it with `opboost models show`.",
        )

    def version(self, version: str | None = None) -> Version:
        """Return what a version's page shows, by default the champion's.

        Raises:
            ContractError: There is none.
        """
        return self.view.version(version or self.champion or "")

    def pictures(self, version: str | None = None) -> dict[str, Picture]:
        """Return a version's plots by title: feature importance, and curves of held-out rows.

        Args:
            version: Id of a version; the champion by default.

        Returns:
            For two classes ROC, precision-recall, gains (lift) and calibration; for regression
            residuals; for a differentially private model the importance only. Notebooks render
            them.

        Raises:
            ContractError: There is no such version.
        """
        record = self.version(version)
        named = {name.replace("_", " "): of for name, of in record.curves.items()}
        figures = [*importance_figures(record.shares, record.parties), *held_out_figures(named)]
        return {figure.caption: Picture(figure) for figure in figures}

    def model(self, version: str | None = None) -> Model:
        """Return a version, by default the champion, as an estimator for raw columns.

        Raises:
            ContractError: There is no such version, or it cannot predict from raw columns.
        """
        return Model(self.files(version), version or self.champion or "")

    def export(
        self, out: str | Path, version: str | None = None, form: str | None = None
    ) -> tuple[Path, ...]:
        """Export a model for other software, with a description of its column mapping.

        Args:
            out: Path of the new file.
            version: Id of a version; the champion by default.
            form: ``text``, ``json`` or ``onnx``; by default the model's own format.

        Returns:
            The new files. The second describes the column mapping; ONNX contains it.

        Raises:
            ConfigError: A file exists already, or cannot be written.
        """
        target = Path(out)
        files = self.files(version)
        contents = {target: export_model(files, form)}
        if form != "onnx":
            columns = target.with_name(f"{target.name}.columns.json")
            contents[columns] = model_columns(files).json_bytes()
        for path in contents:
            if path.exists():
                raise ConfigError(
                    f"{path.name} already exists; nothing was written.", "Name another file."
                )
        try:
            for path, content in contents.items():
                path.write_bytes(content)
        except OSError as error:
            raise ConfigError(f"{target.name} cannot be written: {error.strerror}.") from None
        return tuple(contents)

    def promote(self, version: str, because: str = "by hand") -> str:
        """Make a version champion, whatever the gate decided, and return its id."""
        return self._act("promote", version, because)

    def rollback(self, version: str | None = None, because: str = "by hand") -> str:
        """Make a former champion, by default the previous one, champion again; return its id."""
        return self._act("roll_back", version, because)

    def _act(self, act: Literal["promote", "roll_back"], version: str | None, because: str) -> str:
        return do(
            self.site, self.federation, ActionRequest(act, because, getpass.getuser(), version)
        )


def models(federation: str | Path) -> Models:
    """Return a federation's model versions.

    Args:
        federation: ``federation.yaml``, or its folder.

    Raises:
        ConfigError: The label holder's site is not on this machine.
    """
    path = federation_file(Path(federation))
    declared = load_federation(path)
    return Models(load_site(site_files(path, declared)[declared.label_holder]), declared.name)


def models_at(site: str | Path, federation: str | None = None) -> Models:
    """Return the model versions at a label holder's site.

    Args:
        site: Folder of its ``site.yaml``.
        federation: Name of the federation; required if the site has several.

    Raises:
        ConfigError: The site has several federations and none is named, or none of that name.
    """
    loaded = load_site(Path(site) / "site.yaml")
    names = versions.federations_in(loaded.models)
    if federation is None and len(names) == 1:
        return Models(loaded, names[0])
    if federation is None or federation not in names:
        listed = f"They are {', '.join(names)}." if names else "There are none yet."
        raise ConfigError("Name a federation that has models with --federation.", listed)
    return Models(loaded, federation)


def outcomes(
    site: str | Path, file: str | Path, version: str | None = None, federation: str | None = None
) -> Outcomes:
    """Compare a version's scores with outcomes that became known later, at the label holder.

    The report stays at the label holder and replaces the version's last one; ``file`` is only read.

    Args:
        site: Folder of the label holder's ``site.yaml``.
        file: All known outcomes, Parquet or CSV: the ID and the label, named as in the training
            table.
        version: Id of a version; the champion by default.
        federation: Name of the federation; required if the site has several.

    Raises:
        OpBoostError: The file lacks these columns, or the version scored too few of its people.
    """
    registry = models_at(site, federation)
    policy = load_policy(Path(site) / POLICY)
    files = registry.files(version)
    columns = id_columns(federation_in(files), policy)
    table, _, _ = read_table(policy.party, str(file), None, columns)
    version = version or str(registry.champion)
    return report(registry.site, policy, registry.federation, version, table)


def card(federation: str | Path, version: str | None = None) -> Card:
    """Return the card of a model at the label holder.

    Args:
        federation: ``federation.yaml``, or its folder.
        version: Id of a version; the champion by default.

    Raises:
        ContractError: There is no such model, or this release cannot read its card.
    """
    return models(federation).card(version)


def _flat(line: dict[str, Any]) -> dict[str, Any]:
    """Flatten an entry of `Models.lines` to a row with a column per mode and metric."""
    measured = {f"{m} {n}": value for m, by in line["metrics"].items() for n, value in by.items()}
    decision = line["decision"] or {}
    return {
        **{name: line[name] for name in ("version", "champion", "damaged", "mode")},
        "decided_at": decision.get("at"),
        "decision": decision.get("event"),
        "why": decision.get("why"),
        **measured,
    }
