"""Folders of rows and keys: those of killed processes go, those in use stay."""

import multiprocessing
import os
import signal
from pathlib import Path

from opboost_ops.tables.spill.files import working_folder


def killed_in(parent: Path) -> None:
    with working_folder(parent, ".rows-") as folder:
        (folder / "people").write_text("a person")
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_process_left_goes_with_the_next_one(tmp_path: Path) -> None:
    with working_folder(tmp_path, ".rows-") as in_use:
        (in_use / "people").write_text("another")
        process = multiprocessing.get_context("fork").Process(target=killed_in, args=(tmp_path,))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        assert len(list(tmp_path.glob(".rows-*/people"))) == 2
        with working_folder(tmp_path, ".rows-") as folder:
            assert {*tmp_path.iterdir()} == {in_use, folder}
            assert (in_use / "people").is_file()
    assert not list(tmp_path.iterdir())


def nested(parent: Path) -> None:
    with working_folder(parent, ".rows-") as outer, working_folder(outer, ".rows-") as inner:
        (inner / "people").write_text("a person")


def test_one_within_another_waits_for_nobody(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=nested, args=(tmp_path,))
    process.start()
    process.join(20)
    waits = process.is_alive()
    process.kill()
    assert not waits and process.exitcode == 0
    assert not list(tmp_path.iterdir())


def test_what_was_killed_before_it_had_its_name_goes_once_it_is_old(tmp_path: Path) -> None:
    old, begun = tmp_path / ".new.rows-old", tmp_path / ".new.rows-begun"
    full, other = tmp_path / ".new.rows-full", tmp_path / ".new.keys-old"
    for folder in (old, begun, full, other):
        folder.mkdir()
    (full / "people").write_text("it is in use, or somebody else's")
    for folder in (old, full, other):
        os.utime(folder, (1, 1))
    with working_folder(tmp_path, ".rows-") as folder:
        assert {*tmp_path.iterdir()} == {begun, full, other, folder}
