"""`opboost ui` of one's own federations, up to where Airflow starts."""

from pathlib import Path
from typing import Any, Never

import pytest

from opboost_ops.orchestration.deployment import standalone
from tests.commands import printed
from tests.federation import Workspace


def test_it_finds_the_sites_beside_a_federation_file(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `opboost run` and `opboost airflow install` do; else every task is without a site."""
    started: list[dict[str, Path]] = []

    def start(_home: Path, _folder: Path, sites: dict[str, Path], *_: Any) -> Never:
        started.append(sites)
        raise KeyboardInterrupt

    monkeypatch.setattr(standalone, "Standalone", start)
    for party in ("CREDIT", "BANK", "SHOP"):
        monkeypatch.delenv(f"OPBOOST_SITE_{party}")
    (workspace.folder / "faulty.yaml").write_text("version: [")
    words = ("ui", "--federations", workspace.folder, "--work", tmp_path / "work")
    printed(*words)
    monkeypatch.setenv("OPBOOST_PARTIES", "shop")
    printed(*words)
    everybody, shop = ({p: f.resolve() for p, f in sites.items()} for sites in started)
    of = {p: workspace.folder / p / "site.yaml" for p in ("credit", "bank", "shop")}
    assert everybody == of
    assert shop == {"shop": of["shop"]}
