"""The ledger page's part on differentially private models: what each cost, and what is left."""

from fractions import Fraction

from opboost_ops.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    State,
    Table,
    count,
    moment,
    number,
)
from opboost_ops.privacy.accountant import model_epsilon
from opboost_ops.privacy.lines import Lines

#: How many lines are shown.
_NEWEST = 20


def models(everything: Lines, shown: Lines, cap: float | None) -> list[Block]:
    """Figures of all models together, and a line for each that is asked for.

    Args:
        everything: All lines of the ledger with their times, oldest first.
        shown: Those of them that the page shows.
        cap: The policy's budget.
    """
    drawn = everything.of_forms(lambda line: line.account == "model")
    spent = model_epsilon(release for _, release in drawn)
    trained = sum(times for line, times in everything.counted if line.kind == "model")
    worst = "worst case" if cap is None else f"worst case, of {cap:g}"
    left = None if cap is None else max(0.0, cap - float(spent))
    facts = [
        Fact(
            "Models: epsilon, a row added or removed",
            number(float(spent)).text,
            worst,
        ),
        Fact("Models: epsilon, a row replaced", number(2 * float(spent)).text, "twice as much"),
        Fact("Models trained", f"{trained:,}", "champions or not"),
    ]
    if left is not None:
        state: State = "bad" if left == 0 else "good"
        facts.append(Fact("Epsilon left for models", number(left).text, "of policy.yaml", state))
    rows = []
    listed = set(shown.numbers)
    newest = [i for i, number in enumerate(drawn.numbers) if number in listed][-_NEWEST:]
    for i in newest:
        at, release = drawn[i]
        before = (release for _, release in drawn[: i + 1])
        rows.append(
            (
                moment(at),
                Cell(release.federation),
                Cell(release.run, href=f"run?id={release.run}"),
                Cell(release.kind),
                number(release.epsilon),
                _so_far(model_epsilon(before), cap),
                count(release.rows),
                Cell(release.receiver),
            )
        )
    heads = ("reserved (UTC)", "federation", "run", "what", "epsilon", "epsilon so far")
    table = Table(
        "models",
        "What models have cost",
        (*heads, "rows", "told to"),
        tuple(reversed(rows)),
        "Differentially private models, and metrics with noise, of the label holder's own rows. "
        "Trained on the same rows they add up, also those that never became champion. Epsilon is "
        "for a row added or removed; a row replaced costs twice as much.",
    )
    return [Facts(tuple(facts)), table]


def _so_far(spent: Fraction, cap: float | None) -> Cell:
    cell = number(float(spent))
    if cap is None:
        return cell
    return Cell(cell.text, cell.value, share=min(1.0, float(spent) / cap), limited=True)
