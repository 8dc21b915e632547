"""The consent sheet as tables, words and a picture, for pages, print and the terminal."""

from opboost_ops.privacy.consent.exposure import guess_words, odds_words, share_words, values_words
from opboost_ops.reports.consent_sheet import ConsentSheet, ReleasedColumn
from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Figure,
    Figures,
    Note,
    Table,
    count,
    finite,
    number,
)
from opboost_ops.reports.display.charts import bars

#: Columns of the picture: those of which most is guessed.
_SHOWN = 8

_PRIOR = (
    "The receiver knows the mechanism and everything else that is public, every value counts as "
    "equally likely before the release, and columns as independent. An attacker who knows more "
    "about a person guesses better, before and after."
)


def title(sheet: ConsentSheet) -> str:
    """The title of the sheet."""
    return f"What {sheet.party} agrees to in {sheet.federation}"


def meaning(sheet: ConsentSheet) -> list[str]:
    """What it means for one person, in plain words: a sentence a line."""
    worst, record = sheet.most_exposed, sheet.whole_record
    if worst is None or record is None:
        lines = [f"No column of {sheet.party} is released, randomised or not."]
        return [*lines, f"Each training: {sheet.models}."] if sheet.models else lines
    lines = [guess_words(worst.column, worst.type, worst.guess, sheet.receiver)]
    little = [line for line in sheet.guessed if line.guess.protects_little]
    lines += [protects_little(line, sheet.receiver) for line in little]
    lines.append(
        f"Of one whole record, {sheet.receiver} guesses {record.right_after:.1f} of "
        f"{len(sheet.guessed)} columns right, instead of {record.right_before:.1f} without the "
        f"release, and all of them at once in {share_words(record.after)} of records, instead of "
        f"{share_words(record.before)}."
    )
    lines.append(
        f"Who knows a person's record links it to the right one of {record.among:,} releases in "
        f"{share_words(record.first)} of cases (± {share_words(record.first_error)}; by chance "
        f"{share_words(1 / record.among)}), of the most exposed 1 % of people in "
        f"{share_words(record.first_exposed)}, and has it among the nearest 1 % in "
        f"{share_words(record.nearest)} (by chance 1 %)."
    )
    totals = sheet.totals
    ever = (
        "unlimited over all releases, because a budget is missing"
        if totals.loss_whole_ever == float("inf")
        else f"at most {totals.loss_whole_ever:.1f} over all releases that the budgets allow"
    )
    lines.append(
        f"The loss of a whole record across the full range is {_loss(totals.loss_whole)} for one "
        f"release, and {ever}. Each value is released once, and sent again whatever changes. The "
        "loss bounds the odds of any two records; the success rates above are those of the best "
        "attack. Read both."
    )
    return lines


def protects_little(line: ReleasedColumn, receiver: str) -> str:
    """That a release protects little, in plain words.

    Args:
        line: The column.
        receiver: Who receives it.
    """
    return (
        f"This protects little: at this setting {receiver} learns which of "
        f"{values_words(line.guess, line.type)} of {line.column} it is for "
        f"{share_words(line.guess.after)} of people."
    )


def blocks(sheet: ConsentSheet) -> list[Block]:
    """The whole sheet."""
    totals, words = sheet.totals, meaning(sheet)
    little = any(line.guess.protects_little for line in sheet.guessed)
    found: list[Block] = [
        Note("warn" if little else "", "What this means for one person", "", (*words, _PRIOR)),
        _terms(sheet),
    ]
    if sheet.columns:
        found += [_picture(sheet), _totals(totals, len(sheet.record)), _columns(sheet)]
        found.append(_guesses(sheet))
    found += [_exact(sheet), _received(sheet)]
    if sheet.caps:
        found.append(_caps(sheet))
    return found


def _terms(sheet: ConsentSheet) -> Facts:
    terms = sheet.terms
    most = terms.runs_per_month
    return Facts(
        (
            Fact("Purpose", terms.purpose),
            Fact("Until", str(terms.until), "after it this party answers nothing"),
            Fact("Deleted by receivers", f"after {terms.retention_days:,} days"),
            Fact("Runs a month", f"{most.train:,} training, {most.score:,} scoring", "at most"),
        )
    )


def _totals(totals: object, columns: int) -> Facts:
    names = {
        "loss_1": "loss(1), one release",
        "loss_whole": "loss(R-L), one release",
        "loss_whole_ever": "loss(R-L), all releases",
    }
    return Facts(
        tuple(
            Fact(
                f"One person, all columns: {text}",
                number(getattr(totals, name)).text,
                f"sum over {columns} columns",
            )
            for name, text in names.items()
        )
    )


def _columns(sheet: ConsentSheet) -> Table:
    rows = tuple(
        (
            Cell(line.column),
            Cell(line.type),
            Cell(line.bounds),
            Cell(line.scale),
            Cell(line.domain),
            Cell(line.mechanism),
            number(line.epsilon, 4),
            number(line.loss_1, 4),
            number(line.loss_whole, 4),
            Cell("no budget", state="bad") if line.releases is None else count(line.releases),
            number(line.loss_whole_ever, 4),
        )
        for line in sheet.columns
    )
    what = ("column", "type", "bounds or categories", "scale", "released as", "mechanism")
    costs = ("epsilon", "loss(1)", "loss(R-L)", "releases", "loss(R-L), all of them")
    note = (
        f"Every row's value, randomised, to {sheet.receiver}. loss(1) is the loss of a move by one "
        "step of the domain, loss(R-L) of one across the full range. A person's response is drawn "
        "once a release, and sent again whatever changes; the budget allows so many releases."
    )
    return Table("released", f"Randomised, to {sheet.receiver}", (*what, *costs), rows, note)


def _guesses(sheet: ConsentSheet) -> Table:
    rows = tuple(
        (
            Cell(line.column),
            count(line.guess.values),
            Cell(share_words(line.guess.before), line.guess.before),
            Cell(share_words(line.guess.after), line.guess.after, share=line.guess.after),
            Cell(f"{odds_words(line.guess.odds)} to 1", finite(line.guess.odds)),
        )
        for line in sheet.guessed
    )
    heads = ("column", "values", "guessed before", "guessed after", "odds at most")
    note = "Of one release, by the best attack, computed from the exact channel."
    return Table("guesses", "What the receiver can guess", heads, rows, note)


def _exact(sheet: ConsentSheet) -> Table:
    rows = tuple((Cell(to), Cell(what)) for to, what in sheet.exact)
    note = "None of this is randomised: no epsilon bounds it, unless the line names one."
    title = f"Sent by {sheet.party} exactly"
    return Table("exact", title, ("receiver", "what it discloses"), rows, note, "Nothing.")


def _received(sheet: ConsentSheet) -> Table:
    rows = tuple((Cell(sender), Cell(what)) for sender, what in sheet.received)
    title = f"Sent to {sheet.party} exactly"
    return Table("received", title, ("sender", "what it discloses"), rows, "", "Nothing.")


def _caps(sheet: ConsentSheet) -> Table:
    rows = tuple(
        (
            Cell(cap.name),
            Cell("none", state="warn") if cap.value is None else Cell(f"{cap.value:,g}", cap.value),
            Cell(cap.set_by),
        )
        for cap in sheet.caps
    )
    note = "Caps as `opboost init` writes them count as its own; a person has set all others."
    return Table("caps", "Caps of policy.yaml", ("cap", "value", "set by"), rows, note)


def _picture(sheet: ConsentSheet) -> Figures:
    gains = sorted(sheet.guessed, key=lambda one: one.guess.before - one.guess.after)[:_SHOWN]
    rows: list[tuple[str, float, int]] = []
    for line in gains:
        rows.append((f"{line.column}: without it", 100 * line.guess.before, 3))
        rows.append((f"{line.column}: with it", 100 * line.guess.after, 0))
    caption = "How often the exact value is guessed, without and with the release"
    note = f"The {len(gains)} columns whose guesses gain most."
    return Figures("", (Figure(bars(rows, title=caption, unit=" %"), caption),), note)


def _loss(loss: float) -> str:
    return "∞" if loss == float("inf") else f"{loss:.1f}"
