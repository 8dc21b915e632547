"""What a party keeps of exact vectors: one mask is never used for two, whatever came between."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from opboost_ops.errors import ContractError
from opboost_ops.exchange.rounds.protocol import Round
from opboost_ops.exchange.rounds.sent_vectors import DIGESTS, SentVectors

FIRST, SECOND = Round("trees", 0, 0), Round("trees", 0, 1)


def refuses(sent, name, raw):
    with pytest.raises(ContractError, match="computed a different vector"):
        sent.keep(name, raw)


def test_another_process_and_a_later_one_keep_to_what_was_sent(tmp_path):
    one, other = SentVectors(tmp_path / "rounds"), SentVectors(tmp_path / "rounds")
    one.keep(FIRST, b"1")
    other.keep(FIRST, b"1")
    one.keep(SECOND, b"2")
    # It has read the file before that line was there.
    refuses(other, SECOND, b"3")
    refuses(SentVectors(tmp_path / "rounds"), FIRST, b"2")
    SentVectors(tmp_path / "rounds").keep(SECOND, b"2")
    assert len((tmp_path / "rounds" / DIGESTS).read_text().split()) == 4, "each is there once"


@pytest.mark.parametrize("left", [b"\ntrees-00000-01 0a1b", b"\ntrees-00000-01 ", b"\ntree", b"\n"])
def test_a_line_that_a_kill_cut_off_is_of_a_vector_that_was_not_sent(tmp_path, left):
    SentVectors(tmp_path).keep(FIRST, b"1")
    with (tmp_path / DIGESTS).open("ab") as file:
        file.write(left)
    SentVectors(tmp_path).keep(SECOND, b"2")
    refuses(SentVectors(tmp_path), SECOND, b"3")
    refuses(SentVectors(tmp_path), FIRST, b"3")
    SentVectors(tmp_path).keep(SECOND, b"2")


def test_two_processes_at_once_draw_noise_once(tmp_path):
    numbers = count()

    def draw():
        drawn = bytes([next(numbers)])
        time.sleep(0.2)
        return drawn

    def send(_):
        return SentVectors(tmp_path / "rounds").keep_noisy(FIRST, b"exact", draw)

    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(send, range(2)))) == 1
    assert next(numbers) == 1
