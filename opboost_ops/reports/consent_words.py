"""The consent sheet as a page to sign: tables and texts for pages, print and the terminal."""

from opboost_ops.config.federation import Federation
from opboost_ops.config.public_keys import fingerprint
from opboost_ops.privacy.consent.exposure import guess_words, share_words
from opboost_ops.reports.consent_sheet import ConsentSheet, ReleasedColumn
from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Fold,
    Note,
    Table,
    count,
    number,
)
from opboost_ops.reports.ledger_tables import odds_cell, odds_of

_PRIOR = (
    "Guesses assume that the receiver knows everything public, that each value is equally likely "
    "before the release, and that columns are independent. Guesses among two or three values are "
    "for the two or three that the release distinguishes best, equally likely. An attacker who "
    "knows more about a person guesses better, before and after."
)


def title(sheet: ConsentSheet) -> str:
    """Return the title of the sheet."""
    return f"What {sheet.party} agrees to in {sheet.federation}"


def meaning(sheet: ConsentSheet) -> list[str]:
    """Return the meaning for one person in plain words, one sentence per line."""
    worst, record = sheet.most_exposed, sheet.whole_record
    if worst is None or record is None:
        lines = [f"No column of {sheet.party} is released, randomised or not."]
        return [*lines, f"Each training: {sheet.models}."] if sheet.models else lines
    lines = [guess_words(worst.column, worst.type, worst.guess, sheet.receiver)]
    little = [line for line in sheet.guessed if line.guess.protects_little]
    if little:
        lines.append(_protects_little(little, sheet.receiver))
    lines.append(
        f"Of one person's {len(sheet.guessed)} columns, {sheet.receiver} guesses "
        f"{record.right_after:.1f} right, instead of {record.right_before:.1f} without the "
        f"release, and all of them at once for {share_words(record.after)} of people, instead of "
        f"{share_words(record.before)}."
    )
    lines.append(
        f"An attacker who knows a person's record links it to the right one of {record.among:,} "
        f"releases in {share_words(record.first)} of cases (± {share_words(record.first_error)}; "
        f"by chance {share_words(1 / record.among)}), for the most exposed 1 % of people in "
        f"{share_words(record.first_exposed)}."
    )
    lines.append(_record_odds(sheet))
    return lines


def _protects_little(lines: list[ReleasedColumn], receiver: str) -> str:
    names = ", ".join(f"{line.column} ({share_words(line.guess.after)})" for line in lines)
    return f"This protects little: {receiver} guesses the value right for most people in {names}."


def _record_odds(sheet: ConsentSheet) -> str:
    loss = sheet.totals.loss_whole_ever
    if loss == float("inf"):
        return (
            "The odds of a person's whole record over all releases have no limit: "
            "a budget is missing, or a mechanism rules out values."
        )
    return (
        "Over all releases that the budgets allow, the odds between two whole records of a person "
        f"may reach {odds_of(loss)} (loss {loss:.1f}, the sum over the columns)."
    )


def blocks(sheet: ConsentSheet) -> list[Block]:
    """Return the blocks of the sheet."""
    little = any(line.guess.protects_little for line in sheet.guessed)
    parts: list[Block] = [
        _terms(sheet),
        Note("warn" if little else "", "What this means for one person", "",
             (*meaning(sheet), *([_PRIOR] if sheet.columns else []))),
    ]  # fmt: skip
    if sheet.columns:
        parts.append(_features(sheet))
    parts += [_exact(sheet), _received(sheet), _leaks(sheet), _ways_out(sheet)]
    if sheet.columns:
        parts.append(Fold("Mechanisms and losses", (_charges(sheet),)))
    return parts


def signature(federation: Federation) -> list[Block]:
    """Return the keys' fingerprints, and lines to sign on paper."""
    keys = tuple(
        (party, fingerprint(spec.signing_key, spec.encryption_key))
        for party, spec in federation.parties.items()
    )
    note = "Compare each by telephone with the fingerprint that its party reads out."
    return [
        Table("keys", "Fingerprints of the keys", ("party", "fingerprint"), keys, note),
        Facts([Fact(label, "\N{NO-BREAK SPACE}") for label in ("Date", "Name", "Signature")]),
    ]


def _terms(sheet: ConsentSheet) -> Facts:
    terms, caps = sheet.terms, {cap.name: cap for cap in sheet.caps}
    most = terms.runs_per_month
    facts = [
        Fact("Purpose", terms.purpose),
        Fact("End", str(terms.until), f"then {sheet.party} stops answering"),
        Fact("Runs", f"{most.train:,} training, {most.score:,} scoring", "per month, at most"),
        Fact(
            "Retention",
            f"{terms.retention_days:,} days",
            "then receivers have to delete it; the software does not enforce this",
        ),
    ]
    if "all_features.budget" in caps:
        month, ever = (
            "no limit" if value is None else f"{value:,g}"
            for value in (
                caps["alignment.max_new_queries"].value,
                caps["alignment.max_queries_total"].value,
            )
        )
        cap = caps["all_features.budget"]
        facts += [
            Fact("Each value", sheet.refresh, "and sent again in every run"),
            Fact("People queried", f"{month} per month", f"{ever} in all, at most"),
            Fact("Budget of all columns", "none" if cap.value is None else f"{cap.value:,g}",
                 f"loss, set by {cap.set_by}", "warn" if cap.value is None else ""),
        ]  # fmt: skip
    return Facts(facts)


def _features(sheet: ConsentSheet) -> Table:
    budgets = {cap.name: cap for cap in sheet.caps}
    rows = []
    for line in sheet.guessed:
        charges = [
            charge for charge in sheet.record if charge.column.partition("=")[0] == line.column
        ]
        cap = budgets.get(f"features.{line.column}.budget")
        budget = Cell("none", state="warn")
        if cap is not None and cap.value is not None:
            budget = Cell(f"{cap.value:,g}", cap.value, title=f"set by {cap.set_by}")
        releases, edges = line.releases, sheet.edges.get(line.column, 0.0)
        rows.append(
            (
                line.column,
                line.guess.values,
                Cell(share_words(line.guess.before), line.guess.before),
                Cell(share_words(line.guess.after), line.guess.after),
                _share(line.guess.of_two),
                _share(line.guess.of_three),
                _odds([charge.loss_1 for charge in charges], releases, edges, "loss(1)"),
                _odds([charge.loss_whole for charge in charges], releases, edges, "loss(R-L)"),
                Cell("no limit", state="bad") if releases is None else count(releases),
                budget,
            )
        )
    heads = (
        "column",
        "values",
        "guessed before",
        "guessed after",
        "of two",
        "of three",
        "odds, nearby values",
        "odds, any two values",
        "releases",
        "budget",
    )
    note = (
        f"Each person's value is randomised and sent to {sheet.receiver}. Guessed: how often the "
        "best attack is right, before and after one release; of two, of three: if a person has one "
        "of two or three equally likely values, those that help the attack most. Odds: the largest "
        "factor by which one value becomes likelier than another, over all releases that the "
        "budget allows and the private edges."
    )
    others = [cap for cap in sheet.caps if cap.set_by == "a person"]
    if others:
        note += f" A person has set {', '.join(cap.name for cap in others)}."
    return Table("released", f"Randomised, to {sheet.receiver}", heads, rows, note)


def _odds(losses: list[float], releases: int | None, edges: float, what: str) -> Cell:
    whole = float("inf") if releases is None else releases * sum(losses) + edges
    return odds_cell(whole, what)


def _charges(sheet: ConsentSheet) -> Table:
    rows = [
        (
            line.column,
            line.type,
            line.domain,
            line.scale,
            line.mechanism,
            number(line.epsilon, 4),
            number(line.loss_1, 4),
            number(line.loss_whole, 4),
            number(line.loss_whole_ever, 4),
            line.bounds,
        )
        for line in sheet.columns
    ]
    losses = ("epsilon", "loss(1)", "loss(R-L)", "over all releases")
    form = ("column", "type", "released as", "scale", "mechanism")
    heads = (*form, *losses, "bounds or categories")
    note = (
        "The loss is the logarithm of the odds: loss(1) for a move by one step of the domain, "
        "loss(R-L) across its full range, both for one release."
    )
    if sheet.edges:
        once = ", ".join(f"{name} {loss:.3g}" for name, loss in sheet.edges.items())
        note += f" Private edges cost once, in addition: {once}."
    return Table("charges", "Charged by column", heads, rows, note, once=heads[1:-1])


def _share(success: float | None) -> Cell:
    return Cell("") if success is None else Cell(share_words(success), success)


def _exact(sheet: ConsentSheet) -> Table:
    rows = [(to, what) for to, what in sheet.exact]
    note = "None of this is randomised: an epsilon bounds it only where the line names one."
    title = f"Sent by {sheet.party} exactly"
    return Table("exact", title, ("receiver", "what it discloses"), rows, note, "Nothing.")


def _received(sheet: ConsentSheet) -> Table:
    rows = [(sender, what) for sender, what in sheet.received]
    title = f"Sent to {sheet.party} exactly"
    return Table("received", title, ("sender", "what it discloses"), rows, "", "Nothing.")


def _leaks(sheet: ConsentSheet) -> Table:
    """Return the consequences and remedies of each leaked key."""
    party, receiver = sheet.party, sheet.receiver
    revoke = "opboost keys renew SITE {} --revoke; all parties agree again"
    keys: dict[str, tuple[str, str]] = {
        f"signing key of {party}": (
            f"act as {party} in the store until the key is revoked; it reads nothing",
            revoke.format("signing"),
        ),
        f"encryption key of {party}": (
            f"read everything in the store that is encrypted to {party}, also earlier files",
            revoke.format("encryption"),
        ),
    }
    # Only feature holders have pins and sealed rows.
    keys[f"secret of {party}"] = (
        "read the responses that were sent, and exact domain values of columns with routed: once, "
        "but only with a copy of pins/; and in the store split values"
        if sheet.columns
        else f"read the files in the store that {party} encrypted to others",
        "remove the copies and change the store's credentials; the secret removes no noise",
    )
    if sheet.columns:
        keys[f"monthly key of {party} (keys/psi)"] = (
            f"find IDs in the tables that {party} sealed in that month, and open their rows, "
            f"but only with what is encrypted to {receiver}",
            "delete it; the next run fails, and the run after that queries all people again",
        )
        keys[f"encryption key of {receiver}"] = (
            f"read what {receiver} may read: the randomised values, with the odds above",
            f"{receiver} revokes it; all parties agree again",
        )
    keys["access to the store"] = (
        "read who sends how many rows of which columns; withhold or remove files, "
        "but alter none unnoticed",
        "change the store's credentials",
    )
    rows = [(key, f"A thief can {can}. Then: {do}.") for key, (can, do) in keys.items()]
    return Table("leaks", "If a key leaks", ("key", "consequence and remedy"), rows)


def _ways_out(sheet: ConsentSheet) -> Table:
    rows = (
        ("stop at once, also current runs", 'opboost stop SITE FEDERATION --because "..."'),
        ("end this agreement", "opboost agree SITE --withdraw NUMBER"),
        ("forget a person: later runs leave them out", "opboost forget SITE ID"),
        ("see everything that left", "opboost ledger show SITE"),
    )
    note = f"SITE is the folder of {sheet.party}. No command recalls what was sent."
    cells = [(aim, command) for aim, command in rows]
    return Table("ways", "Afterwards", ("to", "run"), cells, note)
