"""Where DAGs are kept: nothing of somebody else's is read there, and no damage is harm."""

import hashlib
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.orchestration import kept_dags
from opboost_ops.orchestration.dags import build_dags
from opboost_ops.orchestration.kept_dags import FOLDER
from tests.dags.kept import entries, parse, serialized


@pytest.mark.parametrize("fault", ["cut", "other", "empty", "of another version"])
def test_what_is_damaged_is_built_anew(
    federations: Path, home: Path, built: list[str], fault: str
) -> None:
    parse(federations, home)
    (entry,) = entries(home)
    head, _, body = entry.read_bytes().partition(b"\n")
    entry.write_bytes(
        {
            "cut": head + b"\n" + body[:-9],
            "other": head + b"\n" + body[:-1] + bytes([body[-1] ^ 1]),
            "empty": b"",
            "of another version": b"2 " + body,
        }[fault]
    )
    assert serialized(parse(federations, home)) == serialized(build_dags(federations))
    assert built == ["credit.yaml"] * 3
    parse(federations, home)
    assert len(built) == 3


class Planted:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {os.environ['PLANTED']}",)


@pytest.mark.parametrize("way", ["writable", "readable", "a link", "a file", "another's"])
def test_nothing_is_read_that_somebody_else_may_have_written(
    federations: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("PLANTED", str(tmp_path / "planted"))
    parse(federations, home)
    (entry,) = entries(home)
    head, _, _ = entry.read_bytes().partition(b"\n")
    body = pickle.dumps(Planted())
    key = head.split()[0].decode()
    entry.write_bytes(f"{key} {hashlib.sha256(body).hexdigest()}\n".encode() + body)
    (entry.parent / "precious").touch()
    own = home / FOLDER
    if way == "a link":
        own.rename(tmp_path / "elsewhere")
        own.symlink_to(tmp_path / "elsewhere")
    elif way == "another's":
        monkeypatch.setattr(kept_dags.os, "geteuid", lambda: os.getuid() + 1)
    elif way == "a file":
        entry.chmod(0o644)
    else:
        own.chmod(0o777 if way == "writable" else 0o750)
    before = entry.resolve().read_bytes() if way == "a link" else entry.read_bytes()
    assert "credit_scoring_train" in parse(federations, home)
    assert not (tmp_path / "planted").exists()
    if way != "a file":
        # Nor is anything written or removed there.
        assert before in [path.read_bytes() for path in entries(home)]
        assert "precious" in [path.name for path in entries(home)]
    monkeypatch.undo()
    monkeypatch.setenv("PLANTED", str(tmp_path / "planted"))
    if way == "another's":
        # The same bytes in one's own folder would have run.
        parse(federations, home)
        assert (tmp_path / "planted").exists()


def test_it_is_this_users_alone(federations: Path, home: Path) -> None:
    before = os.umask(0)
    try:
        parse(federations, home)
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in [home / FOLDER, *entries(home)]}
    assert sorted(modes.values()) == [0o600, 0o700]


@pytest.mark.parametrize("obstacle", ["a file", "no home"])
def test_where_nothing_can_be_kept_they_are_built(
    federations: Path, home: Path, built: list[str], obstacle: str
) -> None:
    if obstacle == "a file":
        (home / FOLDER).write_text("")
    else:
        home.rmdir()
    for _ in range(2):
        assert "credit_scoring_train" in parse(federations, home)
    assert len(built) == 2
