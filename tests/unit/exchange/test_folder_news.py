"""What comes into a folder store is told by the system, and by looks where it tells nothing."""

import threading
import time

import numpy as np
import pytest

from opboost_ops.exchange.rounds.protocol import Round
from opboost_ops.exchange.store.folder import LocalStore
from tests.horizontal import Banks
from tests.unit.exchange.rounds.test_mailbox import Sum, plain

PLACES = ["credit/r/masked/a/one", "credit/r/masked/b/one"]
FILES = {"manifest.json": b"{}"}


def test_a_place_is_told_as_soon_as_it_is_published(tmp_path):
    store = LocalStore(tmp_path)
    store.put_once("credit/r/masked/a/zero", FILES)
    store.put_once("credit/r/masked/b/zero", FILES)
    news = store.news()
    assert not news.watch(PLACES), "nothing was watched before"
    assert news.watch(PLACES)
    assert news.wait(0.0) == set()
    later = threading.Timer(0.05, store.put_once, (PLACES[1], FILES))
    begin = time.monotonic()
    later.start()
    assert news.wait(20.0) == {PLACES[1]}
    assert time.monotonic() - begin < 10
    store.put_once(PLACES[0], FILES)
    assert news.wait(20.0) == {PLACES[0]}, "one that came between two calls is not lost"


def test_a_folder_that_is_removed_and_made_again_is_watched_again(tmp_path):
    store = LocalStore(tmp_path)
    store.put_once("credit/0123456789abcdef/masked/a/zero", FILES)
    place = "credit/0123456789abcdef/masked/a/one"
    news = store.news()
    news.watch([place])
    store.remove_run("credit", "0123456789abcdef")
    news.wait(1.0)
    store.put_once("credit/0123456789abcdef/masked/a/zero", FILES)
    assert not news.watch([place])
    store.put_once(place, FILES)
    assert news.wait(20.0) == {place}


class Silent:
    """News of a mount that other machines write to: none ever comes."""

    def watch(self, places):
        return True

    def wait(self, seconds):
        time.sleep(seconds)
        return set()


@pytest.mark.parametrize("news", [Silent, lambda: None])
def test_where_nothing_is_told_the_parties_look(tmp_path, monkeypatch, news):
    monkeypatch.setattr(LocalStore, "news", lambda self: news())
    banks = Banks(tmp_path)

    def work(box, i):
        for level in range(5):
            name = Round("lookup", level=level)
            found = box.step(name, 1, lambda: np.array([i]), plain, Sum)
        return found.total, box._messages._news

    found, errors = banks.together(work)
    assert not errors
    assert {total for total, _ in found.values()} == {(3,)}
    assert {told for _, told in found.values()} == {None}, "who was told nothing stops listening"
