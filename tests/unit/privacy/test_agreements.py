"""Which agreement stands, after withdrawals and under a former one."""

from opboost_ops.privacy.consent.agreements import Agreement, Agreements


def agreement(
    number: int, digest: str, federation: str = "toy", withdrawn: bool = False
) -> Agreement:
    at = "2030-01-01T00:00:00+00:00"
    return Agreement(
        number=number, federation=federation, at=at, digest=digest * 64, content={},
        withdrawn=at if withdrawn else None,
    )  # fmt: skip


def test_what_was_withdrawn_does_not_stand() -> None:
    first, gone, other = (
        agreement(1, "a"),
        agreement(2, "b", withdrawn=True),
        agreement(3, "a", "other"),
    )
    kept = {"toy": {"f" * 16: 1, "e" * 16: 2}}
    all_of = Agreements(party="bank", agreements=(first, gone, other), kept=kept)
    assert all_of.of("toy") == (first, gone)
    assert all_of.newest("toy") is None
    assert all_of.newest("other") == other
    assert all_of.newest("none") is None
    assert all_of.standing("toy", "a" * 64) == first
    assert all_of.standing("toy", "b" * 64) is None
    assert all_of.standing("other", "b" * 64) is None
    assert all_of.kept_under("toy", "f" * 16) == first
    for version in ("e" * 16, "d" * 16, None):
        assert all_of.kept_under("toy", version) is None
    assert Agreements(party="bank", agreements=(first,)).newest("toy") == first


def test_the_newest_of_equal_agreements_stands() -> None:
    again = agreement(2, "a")
    both = Agreements(party="bank", agreements=(agreement(1, "a"), again))
    assert both.newest("toy") == both.standing("toy", "a" * 64) == again
