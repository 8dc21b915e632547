"""A federation in a temporary folder, driven stage by stage in this process."""

import contextlib
import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.feather as feather
import pytest
import yaml

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import load_federation, load_policy, load_site
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ContractError, OpBoostError
from opboost_ops.exchange.artifact import Artifact, Draft
from opboost_ops.exchange.contents import opened
from opboost_ops.exchange.encryption import Envelope, PrivateKey
from opboost_ops.exchange.manifest import Kind, parse_manifest, receiver_of
from opboost_ops.exchange.sealed import month_keys
from opboost_ops.exchange.sealed.month_keys import month_key
from opboost_ops.exchange.signing import Signer
from opboost_ops.exchange.store.store import LocalStore
from opboost_ops.extras.datasets import load
from opboost_ops.extras.datasets.tables import Dataset
from opboost_ops.extras.datasets.workspace import agree_for_all, write_workspace
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.pipeline import redaction
from opboost_ops.pipeline.home import Home
from opboost_ops.pipeline.party.admission import REFUSED
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.phases import phases
from opboost_ops.pipeline.redaction import REASON
from opboost_ops.pipeline.runner.opening import open_run
from opboost_ops.pipeline.runner.runner import run_stage
from opboost_ops.privacy.ledger.checkpoints import Standing

ROWS = 400
FIRST_RUN = "0" * 15 + "1"
SECOND_RUN = "0" * 15 + "2"
SCORING_RUN = "0" * 15 + "a"


def small_credit(seed: int = 0, rows: int = ROWS, without: str = "") -> Dataset:
    """The generated three-party federation, with few customers, or two parties of it."""
    whole = load("credit", seed=seed, rows=rows)
    by_party = {name: getattr(whole, name) for name in ("tables", "features", "new_rows")}
    return replace(
        whole,
        **{n: {p: v for p, v in of.items() if p != without} for n, of in by_party.items()},
    )


#: A new ID for each, as of somebody who was not released before.
_SOMEBODY_NEW = (pl.lit("N") + pl.col("id")).alias("id")


@dataclass(frozen=True)
class Step:
    """One stage of one party."""

    party: str
    stage: str

    def __str__(self) -> str:
        return f"{self.party}.{self.stage}"


def merge(data: dict[str, Any], entries: Mapping[str, Any]) -> None:
    """Set entries of a mapping, those of mappings within it one by one."""
    for name, value in entries.items():
        if isinstance(value, dict) and isinstance(data.get(name), dict):
            merge(data[name], value)
        else:
            data[name] = value


@dataclass
class Workspace:
    """The folder of a whole federation, and how to run and spoil it."""

    folder: Path
    run: str = FIRST_RUN
    purpose: Purpose = "train"

    @classmethod
    def write(cls, folder: Path, dataset: Dataset | None = None, **options: Any) -> "Workspace":
        """A new one, with seeded keys and few trees; its policies let tests change mechanisms."""
        options = {"seed": 0, "training": {"trees": 4, "depth": 3}, "capped": False, **options}
        write_workspace(dataset or small_credit(), folder, **options)
        made = cls(folder)
        rules = {"alignment": {"least_common": 1}}
        made.edit_yaml(f"{made.declared.label_holder}/policy.yaml", lambda p: p.update(rules))
        month = month_keys.epoch_at(month_keys.now())
        for site in folder.glob("*/site.yaml"):
            # Made at its first use otherwise: copies of one workspace are to have the same.
            month_key(load_site(site).month_keys, month)
        return made

    def scoring(self, run: str = SCORING_RUN) -> "Workspace":
        """The same federation, about to score."""
        return Workspace(self.folder, run, "score")

    def copy(self, folder: Path, run: str, patch: pytest.MonkeyPatch | None = None) -> "Workspace":
        """The same federation elsewhere, about to begin another run; known as long as a patch."""
        shutil.copytree(self.folder, folder)
        made = Workspace(folder, run)
        if patch is not None:
            made.known_to(patch)
        return made

    @property
    def file(self) -> Path:
        """Its ``federation.yaml``."""
        return self.folder / "federation.yaml"

    @property
    def declared(self) -> Federation:
        """Its federation, as declared now."""
        return load_federation(self.file)

    @property
    def models(self) -> Path:
        """The label holder's versions."""
        return self.folder / "credit" / "models" / "credit_scoring"

    @property
    def store(self) -> LocalStore:
        """Its exchange."""
        return LocalStore(self.folder / "exchange")

    def environment(self) -> dict[str, str]:
        """Where each party's site is."""
        parties = [path.parent for path in self.folder.glob("*/site.yaml")]
        return {f"OPBOOST_SITE_{p.name.upper()}": str(p / "site.yaml") for p in parties}

    def known_to(self, patch: pytest.MonkeyPatch) -> None:
        """Let this process know every party's site, as long as the patch lasts."""
        for name, value in self.environment().items():
            patch.setenv(name, value)

    @contextlib.contextmanager
    def known(self) -> Iterator[None]:
        """Let this process know every party's site meanwhile."""
        with pytest.MonkeyPatch.context() as patch:
            self.known_to(patch)
            yield

    def site(self, party: str) -> Site:
        """A party's site."""
        return load_site(self.folder / party / "site.yaml")

    def policy(self, party: str) -> Policy:
        """A party's policy."""
        return load_policy(self.folder / party / "policy.yaml")

    @property
    def registry(self) -> Registry:
        """The label holder's model versions."""
        federation = self.declared
        return Registry(self.site(federation.label_holder).models, federation.name)

    def version(self, run: str = "") -> Path:
        """The label holder's folder of the version that a run has made; the present one's."""
        models = self.site(self.declared.label_holder).models
        return models / "credit_scoring" / (run or self.run)

    def home(self, party: str) -> Path:
        """A party's private folder of the present run."""
        return self.site(party).home / "credit_scoring" / self.run

    def home_json(self, party: str, name: str) -> Any:
        """A JSON value that the party kept in the present run."""
        return json.loads((self.home(party) / f"{name}.json").read_bytes())

    def steps(self) -> Iterator[Step]:
        """All stages of all parties in an order in which every input is there.

        Parties of a role go side by side, so that what the first fault leaves is the least.
        """
        federation = self.declared
        for phase in phases(federation, self.purpose):
            parties = phase.parties(federation)
            yield from (Step(party, stage) for stage in phase.stages for party in parties)

    def open(self, form: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Publish the plan."""
        with self.known():
            return open_run(self.file, self.run, form or {}, self.purpose)

    def step(self, party: str, stage: str) -> dict[str, Any]:
        """Run one stage of one party; its summary as the party's own people see it."""
        federation = self.declared
        with self.known():
            run = Run(federation.name, self.run, federation.label_holder)
            home = Home(self.site(party).home / federation.name / self.run)
            try:
                found = run_stage(party, stage, run)
            except ContractError as error:
                raise self.as_its_people_read(party, error) from None
        return redaction.whole(home, stage, found)

    def as_its_people_read(self, party: str, error: ContractError) -> ContractError:
        """A failure with the reason in the party's home, where the public message names it."""
        reason = self.home(party) / REASON
        if REASON not in error.remedy or "Traceback" in (text := reason.read_text()):
            return error
        return ContractError(text.partition(": ")[2], error.remedy)

    def until(self, stage: str, party: str | None = None) -> None:
        """Open the run and do everything that comes before a step."""
        self.open()
        for step in self.steps():
            if step.stage == stage and party in (None, step.party):
                return
            self.step(step.party, step.stage)
        raise AssertionError(f"no step {party}.{stage}")

    def all(self, form: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
        """A whole run; the summaries by step."""
        summaries = {"open_run": self.open(form)}
        for step in self.steps():
            summaries[str(step)] = self.step(step.party, step.stage)
        return summaries

    def first_failure(self) -> tuple[str, OpBoostError]:
        """Run until a step fails; which one it was, and its error."""
        try:
            self.open()
        except OpBoostError as error:
            return "open_run", error
        for step in self.steps():
            try:
                self.step(step.party, step.stage)
            except OpBoostError as error:
                return str(step), error
        raise AssertionError("the whole run succeeded")

    def edit_table(self, party: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Rewrite a party's table."""
        path = self.table_path(party)
        change(pl.read_parquet(path)).write_parquet(path)

    def replace_people(self) -> "Workspace":
        """The same with other people in every party's table: nobody was released before."""
        for party in self.declared.parties:
            self.edit_table(party, lambda t: t.with_columns(_SOMEBODY_NEW))
        return self

    def replace_label_holder(self, name: str) -> None:
        """Let another party, which has the label holder's table and keys, take its place."""
        former = self.declared.label_holder
        state = shutil.ignore_patterns("ledger.sqlite", "home", "models")
        shutil.copytree(self.folder / former, self.folder / name, ignore=state)
        for file in ("site", "policy"):
            self.declare(f"{name}/{file}.yaml", party=name)

        def rename(data: Any) -> None:
            data["parties"] = {name if n == former else n: of for n, of in data["parties"].items()}

        def pin(policy: Any) -> None:
            policy["receivers"][name] = policy["receivers"][former]

        for party in self.declared.feature_holders:
            self.edit_yaml(f"{party}/policy.yaml", pin)
        self.edit_yaml("federation.yaml", rename)

    def let_join(self, party: str, *changes: pl.Expr) -> None:
        """Add as many people as there are to a party's table, who are as these but for changes."""
        self.edit_table(party, lambda t: pl.concat([t, t.with_columns(_SOMEBODY_NEW, *changes)]))

    def table_path(self, party: str) -> Path:
        """A party's table: the training table, or that of new rows."""
        return self.folder / party / "tables" / f"{self.purpose}.parquet"

    def edit_yaml(self, name: str, change: Callable[[Any], Any], *, agree: bool = True) -> None:
        """Rewrite one of the declared files; the change works in place, and all agree to it."""
        path = self.folder / name
        data = yaml.safe_load(path.read_text())
        change(data)
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        if agree and name == "federation.yaml":
            # A faulty file, or a party without a site, is what many tests are about.
            with contextlib.suppress(OpBoostError):
                agree_for_all(path)

    def declare(self, name: str, *, agree: bool = True, **entries: Any) -> None:
        """Set entries of one of the declared files; a mapping is merged into what is there."""
        self.edit_yaml(name, lambda data: merge(data, entries), agree=agree)

    def allow(self, party: str, **rule: Any) -> None:
        """Set entries of every feature's rule in a party's policy."""
        self.edit_yaml(
            f"{party}/policy.yaml", lambda p: [of.update(rule) for of in p["features"].values()]
        )

    def agree(self, keep: Collection[str] = ()) -> None:
        """Let every party agree to the federation file as it is now, and keep versions."""
        agree_for_all(self.file, keep)

    def reason(self, party: str) -> str:
        """Why a party has refused the present run, as its own people read it."""
        return (self.home(party) / REFUSED).read_text()

    def plain(self) -> None:
        """Take the encryption keys out of the federation: the store shows what was sent."""

        def change(data: Any) -> None:
            for party in data["parties"].values():
                # Feature holders share keys with one another by theirs.
                if party["role"] == "label_holder":
                    party.pop("encryption_key", None)

        self.edit_yaml("federation.yaml", change)
        for path in self.folder.glob("*/policy.yaml"):
            self.edit_yaml(
                str(path.relative_to(self.folder)),
                lambda policy: policy.update(require_encryption=False),
            )

    def published(self) -> list[str]:
        """What the present run has published, as ``kind/party``."""
        prefix = f"credit_scoring/{self.run}"
        return [place.removeprefix(f"{prefix}/") for place in self.store.list(prefix)]

    def artifact(self, kind: Kind, about: str) -> Artifact:
        """What lies at a place of the present run, decrypted by its receiver's key."""
        place = f"{self.declared.name}/{self.run}/{kind}/{about}"
        files = self.store.get(place)
        assert files is not None
        manifest = parse_manifest(files["manifest.json"], place)
        decrypt = None
        if manifest.encrypted_to is not None:
            reader = receiver_of(kind, about, self.declared.label_holder)
            site = self.site(str(reader))
            decrypt = PrivateKey.from_file(site.encryption_key).decrypt
        return opened(manifest, files, decrypt, place)

    def common_rows(self, party: str) -> np.ndarray:
        """Which rows of a party's table are the common ones, in the common order."""
        label = self.declared.label_holder
        found = feather.read_table(self.home(label) / "alignment.arrow")
        mine = self._people(label)[found.column("position").to_numpy()]
        rows = {person: row for row, person in enumerate(self._people(party).to_list())}
        return np.array([rows[person] for person in mine.to_list()], dtype=np.int64)

    def _people(self, party: str) -> pl.Series:
        return pl.read_parquet(self.table_path(party)).get_column(self.declared.id.column)

    def files(self, *parts: str) -> dict[str, bytes]:
        """All files below a folder, by relative path."""
        root = self.folder.joinpath(*parts)
        return {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }

    def forge(self, kind: str, about: str, signer: str, **changes: Any) -> None:
        """Replace a published artifact by another one that its party really signed."""
        place = f"credit_scoring/{self.run}/{kind}/{about}"
        files = self.store.get(place)
        assert files is not None
        manifest = parse_manifest(files["manifest.json"], place)
        draft = Draft(
            **{
                "kind": manifest.kind,
                "about": about,
                "rows": manifest.rows,
                "discloses": "",
                "columns": manifest.columns,
                "answers": manifest.answers,
                "losses": manifest.losses,
                **changes,
            }
        )
        key = Signer.from_file(self.folder / signer / "keys" / "signing.key")
        envelope = None
        if manifest.encrypted_to:
            declared = self.declared
            receiver = receiver_of(manifest.kind, about, declared.label_holder)
            public = declared.parties[str(receiver)].encryption_key
            envelope = Envelope(self.site(signer).read_secret(), public)
        # As its party would have said it of its state, too.
        given = Standing(head=manifest.head, seen=manifest.seen) if manifest.head else None
        _, new = draft.seal(
            key, manifest.federation, self.run, signer, manifest.experiment, envelope, given
        )
        shutil.rmtree(self.folder / "exchange" / place)
        self.store.put_once(place, new)
