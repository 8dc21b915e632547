"""Histories of the model, repeated on the real code by its stages and commands."""

import shutil
from collections.abc import Callable
from typing import Any

import polars as pl

from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encryption import Envelope
from opboost_ops.exchange.manifest import Kind
from opboost_ops.exchange.signing import Signer
from tests.adversary.kit import forge_plan, send
from tests.commands import opboost
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace

#: Stages of a feature holder by step of the model; a reservation is part of its publication.
_STAGES = {
    "admit": ("check_table", "digest_ids"),
    "release": ("preprocess", "desensitize"),
    "publish": ("rank", "check_release", "seal"),
    "answer": ("psi_answer",),
    "splits": ("answer_splits",),
}


class Replay:
    """A federation in which the bank's steps are the model's.

    Args:
        workspace: Before its first run.
        foreign_query: Whether queries answer another plan than that of their run.
    """

    def __init__(self, workspace: Workspace, *, foreign_query: bool = False) -> None:
        self.foreign_query = foreign_query
        self.folder = workspace.folder
        self.runs = {
            1: Workspace(self.folder, FIRST_RUN),
            2: Workspace(self.folder, SECOND_RUN),
        }
        self.done: set[tuple[int, str]] = set()
        self.bank = self.folder / "bank"
        ids = [pl.read_parquet(workspace.table_path(party))["id"] for party in ("credit", "bank")]
        self.person = sorted(set(ids[0]) & set(ids[1]))[0]

    def refused(self, path: tuple[str, ...]) -> list[str]:
        """Take steps; those that the real code refuses."""
        found = []
        for step in path:
            name, *words = step.split()
            act: Callable[..., None] = getattr(self, f"_{name}", self._stages)
            try:
                act(name, *words)
            except (OpBoostError, AssertionError):
                found.append(step)
        return found

    def _plan(self, _: str, run: str, declaration: str) -> None:
        workspace = self.runs[int(run)]
        if not workspace.published():
            workspace.open()
        if declaration == "2" and not self.foreign_query:
            forge_plan(workspace, _wider)

    def _agree(self, *_: str) -> None:
        self.runs[1].edit_yaml("federation.yaml", _wider)

    def _lender(self, run: Workspace, last: str) -> None:
        for step in run.steps():
            if (
                step.party == run.declared.label_holder
                and (int(run.run), step.stage) not in self.done
            ):
                run.step(step.party, step.stage)
                self.done.add((int(run.run), step.stage))
                if step.stage == last:
                    return

    def _query(self, _: str, run: str, *__: str) -> None:
        workspace = self.runs[int(run)]
        self._lender(workspace, "psi_query")
        if self.foreign_query:
            send(workspace, "psi_query", "bank", answers="0" * 64)

    def _accept(self, _: str, run: str, *__: str) -> None:
        self._lender(self.runs[int(run)], "open_rows")

    def _request(self, _: str, run: str, *__: str) -> None:
        self._put(run, "split_request", "credit", document={"splits": {"income": [1]}})

    def _forge(self, _: str, run: str, kind: str, *__: str) -> None:
        kinds: dict[str, Kind] = {"ranks": "ranks", "request": "split_request"}
        document = {"splits": {"income": [1]}} if kind == "request" else {"nonce": "0", "width": 1}
        self._put(run, kinds[kind], "shop", document=document)

    def _put(self, run: str, kind: Kind, signer: str, **content: Any) -> None:
        """Put an artifact, signed by some party, in the bank's place."""
        workspace = self.runs[int(run)]
        draft = Draft(
            kind=kind,
            about="bank",
            rows=1,
            columns=("income",),
            answers="0" * 64,
            discloses="",
            **content,
        )
        key = Signer.from_file(self.folder / signer / "keys" / "signing.key")
        secret = workspace.site(signer).read_secret()
        receiver = "credit" if kind == "ranks" else "bank"
        public = workspace.declared.parties[receiver].encryption_key
        assert public is not None
        envelope = Envelope(secret, public)
        manifest, files = draft.seal(
            key, workspace.declared.name, workspace.run, signer, True, envelope, None
        )
        workspace.store.put_once(manifest.reference, files)

    def _stages(self, name: str, _: str, run: str) -> None:
        workspace = self.runs[int(run)]
        stages = {step.stage for step in workspace.steps() if step.party == "bank"}
        for stage in _STAGES[name]:
            if stage in stages:
                workspace.step("bank", stage)

    def _reserve(self, *_: str) -> None:
        """A part of the publication."""

    def _count(self, _: str, party: str, run: str) -> None:
        self._stages("answer", party, run)

    def _backup(self, *_: str) -> None:
        if (self.bank / "pins").is_dir():
            shutil.copytree(self.bank / "pins", self.bank / "pins.old")
        shutil.copy(self.bank / "ledger.sqlite", self.bank / "ledger.old")

    def _rollback(self, *_: str) -> None:
        for path in self.bank.glob("ledger.sqlite*"):
            path.unlink()
        shutil.copy(self.bank / "ledger.old", self.bank / "ledger.sqlite")
        shutil.rmtree(self.bank / "pins", ignore_errors=True)
        if (self.bank / "pins.old").is_dir():
            shutil.copytree(self.bank / "pins.old", self.bank / "pins")

    def _recover(self, *_: str) -> None:
        self._command("ledger", "recover", self.bank, "--yes")

    def _renew(self, *_: str) -> None:
        self._command("ledger", "renew", self.bank, "income", "--yes")

    def _forget(self, *_: str) -> None:
        self._command("forget", self.bank, self.person)

    def _stop(self, *_: str) -> None:
        self._command("stop", self.bank, "credit_scoring", "--because", "a test")

    def _command(self, *words: object) -> None:
        code, _, problem = opboost(*words)
        assert code == 0, problem


def _wider(federation: Any) -> None:
    lower, upper = federation["parties"]["bank"]["features"]["income"]["bounds"]
    federation["parties"]["bank"]["features"]["income"]["bounds"] = [lower, upper * 2]
