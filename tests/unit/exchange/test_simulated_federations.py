"""Honest federations go through; nothing that is out of place is ever accepted."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.config.federation import Purpose, ScoringMode
from opboost_ops.exchange.acceptance import Memory, Rejected
from opboost_ops.exchange.manifest import Manifest, sender_of
from opboost_ops.exchange.signing import RUN_DAYS
from tests.federation_attacks import Attack, attacks
from tests.federation_simulator import (
    BEFORE,
    LABEL,
    PEOPLE,
    TODAY,
    Files,
    Place,
    Simulation,
    digest,
    flipped,
    laid_out,
    sealed_rows,
)

ATTACKS = list(attacks())


@pytest.mark.parametrize("encrypted", [True, False])
@pytest.mark.parametrize("holders", [1, 2, 3])
@pytest.mark.parametrize(("purpose", "mode"), BEFORE)
def test_an_honest_federation_goes_through(
    holders: int, encrypted: bool, purpose: Purpose, mode: ScoringMode
) -> None:
    run = Simulation(holders, encrypted, purpose=purpose, mode=mode).until(None)
    for name, view in run.views.items():
        seen = {place for place in run.places() if name in run.readers(*place)}
        assert set(view.memory.accepted) == {f"{kind}/{about}" for kind, about in seen}
    run.finish()


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_every_attack_is_refused_for_its_reason_and_changes_nothing(attack: Attack) -> None:
    run = Simulation(**attack.options)
    run.until(*(attack.turn or attack.at))
    view = run.views[attack.reader]
    before = view.memory
    with pytest.raises(Rejected) as caught:
        run.take(attack.reader, *attack.at, attack.files(run))
    assert caught.value.reason == attack.reason
    assert view.memory == before
    kind, about = attack.at
    assert f"{run.name}/{run.run}/{kind}/{about}" in str(caught.value)
    assert caught.value.remedy
    # Where nobody may go on, the honest may not, either.
    if not run.expired and run.opened is None:
        run.finish()


@pytest.mark.parametrize("kind", ["shares", "ranks", "psi_answer", "split_values"])
def test_whoever_publishes_again_is_refused(kind: str) -> None:
    run = Simulation().until(None)
    again = {
        "shares": {"answers": None},
        "psi_answer": {"answers": None},
        "split_values": {"document": {"splits": {}}},
        "ranks": {"entries": sealed_rows(9), "rows": 8},
    }
    files = run.seal(kind, "b0", **again[kind])  # type: ignore[arg-type]
    with pytest.raises(Rejected) as caught:
        run.take(LABEL, kind, "b0", files)  # type: ignore[arg-type]
    assert caught.value.reason == "superseded"
    run.finish()


def test_a_party_that_published_something_else_before() -> None:
    run = Simulation().until(None)
    with pytest.raises(Rejected, match="published something else before"):
        run.views["b0"].published(run.draft("ranks", "b0"), "f" * 64)


def test_an_artifact_of_an_earlier_run_is_a_replay_only_where_it_was_accepted() -> None:
    first = Simulation(run="a" * 16).until(None)
    second = Simulation().until("ranks", "b0")
    replay = first.store[("ranks", "b0")]
    with pytest.raises(Rejected) as caught:
        second.take(LABEL, "ranks", "b0", replay)
    assert caught.value.reason == "wrong_run"
    view = second.view(LABEL, second.views[LABEL].memory, first.views[LABEL].memory.digests)
    view.accept("plan", LABEL, second.store[("plan", LABEL)], TODAY)
    with pytest.raises(Rejected) as caught:
        view.accept("ranks", "b0", replay, TODAY)
    assert caught.value.reason == "replayed"


@pytest.mark.parametrize("opened", [None, -1])
def test_a_key_that_expires_during_a_run_is_good_until_the_run_ends(opened: int | None) -> None:
    """The plan's day decides, or that of its acceptance; a run that lasts too long has neither."""
    run, yesterday = Simulation(1, expired="b0", opened=opened), TODAY - timedelta(days=1)
    run.publish("plan", LABEL)
    view = run.view(LABEL)
    # A plan that states its day may be accepted later.
    accepted = yesterday if opened is None else TODAY
    view.accept("plan", LABEL, run.store["plan", LABEL], accepted)
    files = run.seal("ranks", "b0")
    with pytest.raises(Rejected) as caught:
        view.accept("ranks", "b0", files, TODAY + timedelta(days=RUN_DAYS))
    assert caught.value.reason == "expired_key"
    assert view.accept("ranks", "b0", files, TODAY).manifest.party == "b0"


def test_an_artifact_is_read_again_only_after_it_was_accepted() -> None:
    run = Simulation().until("ranks", "b0")
    files = run.seal("ranks", "b0")
    with pytest.raises(Rejected) as caught:
        run.views[LABEL].manifest("ranks", "b0", files)
    assert caught.value.reason == "out_of_order"
    run.take(LABEL, "ranks", "b0", files)
    assert run.views[LABEL].manifest("ranks", "b0", files).digest == digest(files)


def test_a_file_for_somebody_else_is_refused_before_it_is_read() -> None:
    run = Simulation().until("ranks", "b0")
    admit = run.views[LABEL].admit("ranks", "b0")
    assert admit(run.seal("ranks", "b0")).keys() == {"entries.bin.enc", "document.json.enc"}
    for to in (None, "b1"):
        with pytest.raises(Rejected) as caught:
            admit(run.seal("ranks", "b0", to=to))
        assert caught.value.reason == "not_for_me"


def test_a_party_whose_state_was_rolled_back_is_not_accepted() -> None:
    run = Simulation().until("ranks", "b0")
    view, before = run.views[LABEL], run.views[LABEL].memory

    def judge(manifest: Manifest) -> None:
        raise Rejected("superseded", f"{manifest.reference}: its state was rolled back.")

    view.keep_checkpoint = judge
    with pytest.raises(Rejected, match="rolled back"):
        run.take(LABEL, "ranks", "b0", run.seal("ranks", "b0"))
    assert view.memory == before


def test_a_table_of_one_person_trains() -> None:
    run = Simulation(1).until("ranks", "b0")
    files = run.seal("ranks", "b0", rows=1, entries=sealed_rows(2))
    assert run.take(LABEL, "ranks", "b0", files).manifest.rows == 1


def test_routes_of_a_party_whose_columns_no_tree_uses() -> None:
    run = Simulation(mode="routed").until("route_request", "b0")
    request = run.seal("route_request", "b0", columns=(), document={"thresholds": {}})
    run.views[LABEL].published(run.draft("route_request", "b0", columns=()), digest(request))
    routes = run.seal("routes", "b0", columns=(), answers=digest(request), document=laid_out(0),
                      entries=sealed_rows(PEOPLE + 1, 0))  # fmt: skip
    assert run.take(LABEL, "routes", "b0", routes).manifest.columns == ()


def test_rows_that_the_reader_knows_better() -> None:
    run = Simulation().until("ranks", "b0")
    files = run.seal("ranks", "b0")
    with pytest.raises(Rejected) as caught:
        run.views[LABEL].accept("ranks", "b0", files, TODAY, rows=8)
    assert caught.value.reason == "wrong_row_count"
    assert run.views[LABEL].accept("ranks", "b0", files, TODAY, rows=15).manifest.rows == 15


@pytest.mark.parametrize("keys", ["none", "another's"])
def test_without_the_right_private_key_nothing_opens(keys: str) -> None:
    run = Simulation().until("ranks", "b0")
    view = run.views[LABEL]
    view.keys = None if keys == "none" else run.views["b1"].keys
    with pytest.raises(Rejected, match="has no key that decrypts it") as caught:
        view.accept("ranks", "b0", run.seal("ranks", "b0"), TODAY)
    assert caught.value.reason == "not_for_me"


@pytest.mark.parametrize(("purpose", "mode"), BEFORE)
def test_kinds_of_other_runs_are_out_of_order(purpose: Purpose, mode: ScoringMode) -> None:
    run = Simulation(purpose=purpose, mode=mode).until(None)
    foreign = sorted({k for before in BEFORE.values() for k in before} - set(run.before))
    for kind in foreign:
        reader = LABEL if sender_of(kind, "b0", LABEL) == "b0" else "b0"
        with pytest.raises(Rejected, match=f"has no {kind}") as caught:
            run.take(reader, kind, "b0", run.seal(kind, "b0"))
        assert caught.value.reason == "out_of_order"


def pool(encrypted: bool) -> tuple[Simulation, dict[Place, Files], list[tuple[Place, Files]]]:
    """A finished run, its honest artifacts, and what a store may hold besides."""
    run = Simulation(encrypted=encrypted, mode="routed").until(None)
    other = Simulation(encrypted=encrypted, run="a" * 16).until(None)
    found = [(place, files) for place, files in run.store.items()]
    found += [(place, files) for place, files in other.store.items()]
    found += [(place, flipped(files, name)) for place, files in run.store.items() for name in files]
    found += [(place, run.seal(*place, answers="e" * 64)) for place in run.places()]
    found += [(place, run.seal(*place, by="stranger")) for place in run.places()]
    return run, run.store, found


POOLS = {encrypted: pool(encrypted) for encrypted in (True, False)}


@pytest.mark.parametrize("encrypted", [True, False])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_is_delivered_only_the_protocol_is_accepted(
    encrypted: bool, data: st.DataObject
) -> None:
    """Any order, with duplicates and foreign artifacts, at any place, over several processes."""
    run, honest, found = POOLS[encrypted]
    reader = data.draw(st.sampled_from(list(run.federation.parties)))
    mine = [place for place in run.places() if reader in run.readers(*place)]
    view, begun, accepted = run.view(reader), False, set[Place]()
    right = st.sampled_from(mine).map(lambda place: (place, honest[place]))
    anything = st.tuples(st.sampled_from(run.places()), st.sampled_from([f for _, f in found]))
    steps = st.lists(st.one_of(right, right, st.sampled_from(found), anything, st.none()),
                     max_size=30)  # fmt: skip
    for step in data.draw(steps):
        if step is None:
            # Another process takes over; only the memory is left, as JSON.
            memory = Memory.model_validate_json(view.memory.model_dump_json())
            view, begun = run.view(reader, memory), False
            continue
        place, files = step
        kind, about = place
        before = {(k, LABEL if k == "plan" else about) for k in run.before[kind]}
        due = place in mine and before <= accepted and (begun or kind == "plan")
        try:
            artifact = view.accept(kind, about, files, TODAY)
        except Rejected:
            assert not (due and files == honest[place])
        else:
            assert due
            assert files == honest[place]
            assert artifact.digest == digest(files)
            accepted.add(place)
            begun = True
        assert set(view.memory.accepted) == {f"{k}/{a}" for k, a in accepted}
    for kind, about in mine:
        artifact = view.accept(kind, about, honest[(kind, about)], TODAY)
        assert artifact.manifest.party == sender_of(kind, about, LABEL)
