"""How many bits about a person hostile parties read, over many nights.

Parties with software of their own speak the protocol, really signed, to unmodified parties: a label
holder that chooses whom it asks about, what its plans and requests say, and how it opens what it
gets; a feature holder that spoils single rows; a coordinator that swaps artifacts in the store.

Bits per person are those of `benchmarks.bits`.
"""

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import yaml

from benchmarks.measure import parser_of, show
from opboost_ops.exchange.artifact import Draft
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps import open_rows, seal

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.bits import bits, reading
from tests.adversary.kit import forge_plan
from tests.adversary.nights import (
    ASK,
    COMMON,
    HOLDERS,
    LABEL,
    RELEASE,
    SIZE,
    Federation,
    Night,
    Opener,
    software,
)
from tests.party_state import state_of


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--only", choices=sorted(SERIES), help="one series of attacks alone")
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    for name in [options.only] if options.only else SERIES:
        with tempfile.TemporaryDirectory() as folder:
            found += SERIES[name](Path(folder), options.nights)
        print(f"{name}: done", file=sys.stderr, flush=True)
    result = {"nights": options.nights, "attacks": found, "load": os.getloadavg()[0]}
    show(result, options)


def line(number: int, attack: str, party: str, now: float, **more: Any) -> dict[str, Any]:
    """A line of the table; bits are per person."""
    return {"line": number, "attack": attack, "party": party, "bits_now": now, **more}


def chosen_rows(folder: Path, nights: int) -> list[dict[str, Any]]:
    """Lines 1, 2, 3 and 10: each night other people are asked about, most of them invented."""
    federation = Federation(folder, nights)
    expectation = {"type": "expect_column_mean_to_be_between",
                   "kwargs": {"column": "w", "min_value": 3, "max_value": 8}}  # fmt: skip
    for holder in HOLDERS:
        path = federation.workspace.folder / holder / "expectations.yaml"
        path.write_text(yaml.safe_dump({"preprocessed_table": [expectation]}))
    strangers = [person for person in federation.people["b0"] if person.startswith("stranger")]
    alone, common = list(federation.alone), [f"common-{i:04d}" for i in range(COMMON)]
    opener = Opener([*common, *strangers, *alone])
    gates, membership, draws = [], [], []
    for number in range(nights):
        target, named = strangers[number], alone[number]
        # Points of the month stay known: all people in common are asked about once.
        known = common if number == 0 else common[:20]
        invented = [f"nobody-{number}-{i}" for i in range(2)]
        night = federation.night(number, [target, named, *known, *invented])
        night.workspace.open()
        night.step(LABEL, *ASK)
        for holder in HOLDERS:
            night.step(holder, *RELEASE, "psi_answer")
        with software(open_rows=opener):
            night.step(LABEL, "open_rows")
        seen = night.outside("shares", "ranks", "psi_answer")
        by_rows = tuple(named in opener.rows[holder] for holder in HOLDERS)
        gates.append((federation.people["b0"][target], seen))
        membership.append((federation.alone[named], (seen, by_rows)))
        draws.append(_draws(federation, "b0"))
    asked = set(strangers[:nights])
    never = [person for person in strangers if person not in asked]
    truth = federation.people["b0"]
    opened = {p: tuple(sorted(set(rows))) for p, rows in opener.rows["b0"].items()}
    return [
        line(1, "a gate's bit, rows chosen", "label holder", **reading(gates)),
        # Randomised values; exact cells where scoring was routed.
        line(2, "rows of people never asked about", "label holder",
             **reading([(truth[p], opened.get(p, ())) for p in never]),
             opened=sum(p in opened for p in never)),
        line(3, "membership at one of two holders", "label holder",
             **reading(membership),
             opened=sum(p in opener.rows[h] for p in alone for h in HOLDERS)),
        line(10, "further draws by other rows each night", "label holder",
             0.0 if len(set(draws)) == 1 else float("nan"), draws_each_night=sorted(set(draws))),
        line(0, "for comparison: one agreed release of people asked about", "label holder",
             **reading([(truth[p], opened.get(p, ())) for p in common]),
             different_rows_a_person=max(len(opened[p]) for p in common),
             opened=sum(p in opened for p in common)),
    ]  # fmt: skip


def members_each(folder: Path, nights: int) -> list[dict[str, Any]]:
    """What the label holder reads about membership at one holder, as documented for ``each``."""
    return _membership(folder, nights, HOLDERS, "each", "documented: each person asked about")


def three_holders(folder: Path, nights: int) -> list[dict[str, Any]]:
    """The same of three holders, for ``all``: by shares of any of them."""
    return _membership(folder, nights, ("b0", "b1", "b2"), "all", "nothing")


def _membership(
    folder: Path, nights: int, holders: Sequence[str], members: str, documented: str
) -> list[dict[str, Any]]:
    """Each night one person is named who is at one holder alone; the label holder opens all."""
    federation = Federation(folder, nights, holders, members)
    alone, common = list(federation.alone), [f"common-{i:04d}" for i in range(COMMON)]
    opener, seen = Opener([*common, *alone], holders), []
    for number in range(nights):
        named = alone[number]
        night = federation.night(number, [named, *(common if number == 0 else common[:20])])
        night.workspace.open()
        night.step(LABEL, *ASK)
        for holder in holders:
            assert night.step(holder, *RELEASE, "psi_answer"), night.seen[-1]
        with software(open_rows=opener):
            assert night.step(LABEL, "open_rows"), night.seen[-1]
        by_rows = tuple(named in opener.rows[holder] for holder in holders)
        said = night.outside("shares", "ranks", "psi_answer")
        seen.append((federation.alone[named], (said, by_rows)))
    never = alone[nights:]
    return [
        line(3, f"membership at one of {len(holders)} holders, members: {members}", "label holder",
             **reading(seen), documented=documented,
             opened_never_asked=sum(p in opener.rows[h] for p in never for h in holders)),
    ]  # fmt: skip


def _draws(federation: Federation, holder: str) -> int:
    with state_of(federation.workspace, holder) as state:
        return sum(one.kind == "draw" for one in state.ledger.entries())


def dictionary(folder: Path, nights: int) -> list[dict[str, Any]]:
    """Line 9: guesses of who is a customer, under the caps that `opboost init` writes."""
    federation = Federation(folder, nights)
    rows = len(federation.people["b0"])
    real = [person for person in federation.people["b0"] if person.startswith("stranger")]
    cap = 2 * rows
    each = -(-2 * cap // nights)
    guesses = [f"nobody-{i}" for i in range(each * nights - len(real))] + real
    federation.random.shuffle(guesses)
    opener, told = Opener(guesses), {}
    for number in range(nights):
        tonight = guesses[number * each : (number + 1) * each]
        night = federation.night(number, tonight)
        night.workspace.open()
        night.step(LABEL, *ASK)
        fine = [night.step(holder, *RELEASE, "psi_answer") for holder in HOLDERS]
        if all(fine):
            with software(open_rows=opener):
                night.step(LABEL, "open_rows")
        for guess in tonight:
            told[guess] = "refused" if not all(fine) else guess in opener.rows["b0"]
    answered = [guess for guess in guesses if told[guess] != "refused"]
    member = [guess in federation.people["b0"] for guess in answered]
    return [
        line(9, "dictionary of guesses, default caps", "label holder",
             **reading([(guess in real, told[guess]) for guess in guesses]), cap=cap,
             answered=len(answered),
             bits_each_answered=bits(member, [told[guess] for guess in answered])),
    ]  # fmt: skip


def former_agreement(folder: Path, nights: int) -> list[dict[str, Any]]:
    """Line 5: plans under an agreement that another one has retired."""
    federation = Federation(folder, nights)
    workspace = federation.workspace
    with state_of(workspace, "b0") as state:
        former = state.agreements.read().newest("credit_scoring").digest

    def epsilon(value: float) -> Callable[[Any], None]:
        def change(data: Any) -> None:
            data["parties"]["b0"]["features"]["w"]["mechanism"]["epsilon"] = value

        return change

    workspace.edit_yaml("federation.yaml", epsilon(0.64))
    random, seen, answered = np.random.default_rng(2), [], 0
    for number in range(nights):
        member = bool(random.integers(2))
        guess = f"stranger-{number:04d}" if member else f"nobody-{number}"
        night = federation.night(number, [guess, *(f"common-{i:04d}" for i in range(20))])
        night.workspace.open()
        night.step(LABEL, *ASK)
        score = {"purpose": "score", "model": f"{number + 1:016x}"} if number % 2 else {}
        forge_plan(night.workspace, epsilon(1.28), agreed=former, **score)
        night.seen.clear()
        for stage in (*RELEASE, "psi_answer"):
            answered += night.step("b0", stage)
        seen.append((member, night.outside("shares", "ranks", "values", "psi_answer")))
        # It takes the plan away again, of which its own unmodified part knows nothing.
        store = workspace.folder / "exchange" / "credit_scoring"
        shutil.rmtree(store / night.workspace.run)
    return [
        line(5, "a retired agreement, a version that never was", "label holder",
             **reading(seen), answered=answered),
    ]  # fmt: skip


def routed_answers(folder: Path, nights: int) -> list[dict[str, Any]]:
    """Line 8: exact cells by routed scoring, all thresholds every night, cells that change."""
    federation = Federation(folder, nights, scoring={"mode": "routed"})
    workspace, people = federation.workspace, [f"common-{i:04d}" for i in range(COMMON)]
    workspace.all()
    total, exact, before = 0.0, 0, {person: set[int]() for person in people}

    def thresholds(context: Context) -> Outcome:
        asked = {"w": list(range(1, SIZE))}
        drafts = (
            Draft(kind="route_request", about=holder, document={"thresholds": asked},
                  rows=len(asked["w"]), columns=("w",), answers=context.plan, discloses="")
            for holder in HOLDERS
        )  # fmt: skip
        return Outcome(drafts=tuple(drafts))

    for number in range(nights):
        for holder in HOLDERS:
            cells = federation.random.integers(0, SIZE, len(federation.people[holder]))
            names = federation.people[holder]
            federation.people[holder] = dict(zip(names, cells.tolist(), strict=True))
            federation.write(holder, "score")
        night = federation.night(number, people, "score")
        night.workspace.open()
        with software(request_routes=thresholds):
            night.step(LABEL, *ASK, "request_routes")
        for holder in HOLDERS:
            night.step(holder, *RELEASE[:4], "psi_answer", "answer_routes")
        assert night.step(LABEL, "open_rows"), night.seen[-1]
        order = night.workspace.common_rows(LABEL)
        found = feather.read_table(
            night.workspace.home(LABEL) / f"{open_rows.opened_table('b0')}.arrow"
        )
        answers = found.column("w").to_pylist()
        truth = federation.people["b0"]
        pairs = [(people[row], answer) for row, answer in zip(order, answers, strict=True)]
        total += bits([truth[person] for person, _ in pairs], [answer for _, answer in pairs])
        for person, answer in pairs:
            exact += answer == truth[person] and answer not in before[person]
            before[person].add(answer)
    return [
        line(8, "new cells each night by routed scoring", "label holder",
             round(total, 3), people=COMMON,
             bound=round(2 * log2(SIZE), 2), different_answers=max(map(len, before.values())),
             exact_cells_a_person=round(exact / COMMON, 2)),
    ]  # fmt: skip


def spoiled_rows(folder: Path, nights: int) -> list[dict[str, Any]]:
    """A feature holder and a coordinator: is a person in the label holder's table?"""
    federation = Federation(folder, nights)
    strangers = [person for person in federation.people["b0"] if person.startswith("stranger")]
    random, seen, splits, swaps = np.random.default_rng(3), [], [], Counter[str]()
    target = ""

    def spoil(context: Context) -> Outcome:
        if context.party == "b0":
            table = context.home.table("ranks")
            ranks = np.array(table.column("w").to_pylist(), dtype=np.int64)
            ranks[list(federation.people["b0"]).index(target)] = 15
            context.home.write_table("ranks", pa.table({"w": ranks}))
        return seal.seal(context)

    for number in range(nights):
        target, other = strangers[number], strangers[-1 - number]
        member = bool(random.integers(2))
        people = [target if member else other, *(f"common-{i:04d}" for i in range(60))]
        night = federation.night(number, people)
        cells = dict(federation.people["b0"])
        if number % 2:
            federation.people["b0"].pop(target)  # It leaves the person out.
        federation.write("b0")
        night.workspace.open()
        night.step(LABEL, *ASK)
        with software(seal=spoil if number % 2 == 0 else seal.seal):
            for holder in HOLDERS:
                assert night.step(holder, *RELEASE, "psi_answer"), night.seen
        federation.people["b0"] = cells
        for swapped in swapped_artifacts(night, number):
            with swapped:
                swaps["tried"] += 1
                swaps["refused"] += not night.step(LABEL, "open_rows")
        assert night.step(LABEL, "open_rows", "assemble", "check_frame", "train"), night.seen
        night.step(LABEL, "request_splits")
        seen.append((member, night.outside("psi_query")))
        splits.append((member, str(night.workspace.artifact("split_request", "b0").document)))
    return [
        line(0, "one row spoiled or left out: was the person asked about?", "feature holder",
             **reading(seen)),
        line(0, "the same, by the splits that it is asked for", "feature holder",
             **reading(splits),
             documented="split requests may react to what it planted"),
        line(0, "artifacts of other nights and parties put into a run", "coordinator",
             **reading(seen), **swaps),
    ]  # fmt: skip


def swapped_artifacts(night: Night, number: int) -> Iterator[Any]:
    """What a coordinator may put before the label holder, one after the other."""
    root = night.workspace.folder / "exchange" / "credit_scoring"
    here = root / night.workspace.run
    others = [(here / "ranks/b0", here / "ranks/b1"), (here / "psi_answer/b1", here / "shares/b1")]
    if number:
        last = root / f"{number - 1 + 0x1000:016x}"
        others += [
            (here / kind, last / kind) for kind in ("ranks/b0", "psi_answer/b0", "shares/b1")
        ]

    @contextmanager
    def put(place: Path, other: Path) -> Iterator[None]:
        away = place.with_name("away")
        place.rename(away)
        shutil.copytree(other, place)
        try:
            yield
        finally:
            shutil.rmtree(place)
            away.rename(place)

    yield from (put(place, other) for place, other in others)


#: Series of attacks, each on a federation of its own.
SERIES: Mapping[str, Callable[[Path, int], list[dict[str, Any]]]] = {
    "chosen_rows": chosen_rows,
    "members_each": members_each,
    "three_holders": three_holders,
    "former_agreement": former_agreement,
    "routed_answers": routed_answers,
    "dictionary": dictionary,
    "spoiled_rows": spoiled_rows,
}


if __name__ == "__main__":
    main()
