"""The label holder's model versions, and which one is champion."""

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
    """The model versions of a federation, at its label holder.

    Attributes:
        site: The label holder's.
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
        """The version that scores new rows; None before there is one."""
        return self._registry.champion()

    @property
    def view(self) -> versions.Models:
        """The view of them that the pages show."""
        return versions.Models(self.site.models, self.federation)

    @property
    def versions(self) -> pl.DataFrame:
        """A row a version, oldest first, with a column for each metric of each mode."""
        return pl.DataFrame([_flat(line) for line in self.lines()[0]], infer_schema_length=None)

    def lines(self) -> tuple[list[dict[str, Any]], list[str]]:
        """As `opboost models list --json`, and what is damaged."""
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

        Raises:
            ContractError: There is no such model, or its card is not of this software's form.
        """
        try:
            return Card.model_validate_json(self.files(version)["card.json"])
        except ValueError:
            pass
        raise ContractError(
            f"The card of {version or 'the champion'} has a form that this software does not read.",
            "See it with `opboost models show`.",
        )

    def version(self, version: str | None = None) -> Version:
        """Return what the page of a version shows, by default of the champion.

        Raises:
            ContractError: There is none.
        """
        return self.view.version(version or self.champion or "")

    def pictures(self, version: str | None = None) -> dict[str, Picture]:
        """Return a version's pictures by title: importance, and curves of the held-out rows.

        Args:
            version: The champion when absent.

        Returns:
            Of two classes: ROC, precision and recall, gains (lift) and calibration; of a number:
            residuals; of a private model none but the splits. A notebook shows each.

        Raises:
            ContractError: There is none.
        """
        record = self.version(version)
        named = {name.replace("_", " "): of for name, of in record.curves.items()}
        figures = [*importance_figures(record.shares, record.parties), *held_out_figures(named)]
        return {figure.caption: Picture(figure) for figure in figures}

    def model(self, version: str | None = None) -> Model:
        """Return a version, by default the champion, that predicts from raw columns.

        Raises:
            ContractError: There is none, or it cannot be predicted from raw columns.
        """
        return Model(self.files(version), version or self.champion or "")

    def export(
        self, out: str | Path, version: str | None = None, form: str | None = None
    ) -> tuple[Path, ...]:
        """Write a model for other programs, and a file that says how to map its columns.

        Args:
            out: The new file.
            version: The champion when absent.
            form: ``text``, ``json`` or ``onnx``; the model's own when absent.

        Returns:
            The new files: the second says how columns are mapped, which ONNX does itself.

        Raises:
            ConfigError: One of them exists, or cannot be written.
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
                    f"{path.name} exists already; nothing was written.", "Name another file."
                )
        try:
            for path, content in contents.items():
                path.write_bytes(content)
        except OSError as error:
            raise ConfigError(f"{target.name} cannot be written: {error.strerror}.") from None
        return tuple(contents)

    def promote(self, version: str, because: str = "by hand") -> str:
        """Make a version champion, whatever the gate decided; its name."""
        return self._act("promote", version, because)

    def rollback(self, version: str | None = None, because: str = "by hand") -> str:
        """Make a former champion champion again, the one before when absent; its name."""
        return self._act("roll_back", version, because)

    def _act(self, act: Literal["promote", "roll_back"], version: str | None, because: str) -> str:
        return do(
            self.site, self.federation, ActionRequest(act, because, getpass.getuser(), version)
        )


def models(federation: str | Path) -> Models:
    """Return the models of a federation.

    Args:
        federation: ``federation.yaml``, or its folder.

    Raises:
        ConfigError: The label holder's site is not known here.
    """
    path = federation_file(Path(federation))
    declared = load_federation(path)
    return Models(load_site(site_files(path, declared)[declared.label_holder]), declared.name)


def models_at(site: str | Path, federation: str | None = None) -> Models:
    """Return the models at a label holder's site.

    Args:
        site: Folder of its ``site.yaml``.
        federation: Whose models; needed where there are several.

    Raises:
        ConfigError: There are several federations and none is named, or none of that name.
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
    """Compare a version's scores with labels that became known later, at the label holder.

    The report is kept at home, in place of the version's last one; the file is not kept.

    Args:
        site: Folder of the label holder's ``site.yaml``.
        file: All outcomes that are known, Parquet or CSV: the ID and the label, named as in the
            training table.
        version: A model; the champion when absent.
        federation: Whose model; needed where there are several.

    Raises:
        OpBoostError: The file is not of that form, or the version has scored too few of them.
    """
    registry = models_at(site, federation)
    policy = load_policy(Path(site) / POLICY)
    files = registry.files(version)
    columns = id_columns(federation_in(files), policy)
    table, _, _ = read_table(policy.party, str(file), None, columns)
    version = version or str(registry.champion)
    return report(registry.site, policy, registry.federation, version, table)


def card(federation: str | Path, version: str | None = None) -> Card:
    """Return a model's card at the label holder.

    Args:
        federation: ``federation.yaml``, or its folder.
        version: A model; the champion when absent.

    Raises:
        ContractError: There is no such model, or its card is not of this software's form.
    """
    return models(federation).card(version)


def _flat(line: dict[str, Any]) -> dict[str, Any]:
    """One of `Models.lines` as a row of a table: a column for each metric of each mode."""
    measured = {f"{m} {n}": value for m, by in line["metrics"].items() for n, value in by.items()}
    decision = line["decision"] or {}
    return {
        **{name: line[name] for name in ("version", "champion", "damaged", "mode")},
        "decided_at": decision.get("at"),
        "decision": decision.get("event"),
        "why": decision.get("why"),
        **measured,
    }
