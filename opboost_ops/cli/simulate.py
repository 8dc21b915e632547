"""`opboost simulate` and `leakage`: the expected gain of a federation, and what it discloses."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opboost_ops.cli.arguments import AsJson, FederationFile
from opboost_ops.errors import ConfigError, ContractError

if TYPE_CHECKING:
    from opboost_ops.extras.lab.leakage import Attacked


def simulate_command(
    table: Annotated[Path, typer.Argument(help="A Parquet or CSV table.")],
    label: Annotated[str, typer.Option(help="The label column.")],
    split: Annotated[
        list[str],
        typer.Option(metavar="PARTY=a,b,c", help="Columns of an imagined party; repeatable."),
    ],
    upper: Annotated[int, typer.Option(help="R of the domain, whose L is 1.")] = 10,
    dialect: Annotated[
        str | None,
        typer.Option(
            help="Entries for a CSV file: \"encoding: cp1252, decimal: ',', dates: '%d.%m.%Y'\"."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The picture's file.")] = Path("simulation.html"),
    as_json: AsJson = False,
) -> None:
    """Split a table among imagined parties, and show what a federation would gain at each loss."""
    import json

    from opboost_ops import api
    from opboost_ops.cli.output import counting
    from opboost_ops.extras.lab.simulation import NOT_CHARGED, answer
    from opboost_ops.tables.local import dialect_of

    with counting("trainings") as progress:
        result = api.simulate(
            table,
            label,
            _columns_by_party(split),
            upper=upper,
            out=out,
            dialect=None if dialect is None else dialect_of(dialect),
            progress=progress,
        )
    if as_json:
        print(json.dumps({**result.document(), "picture": str(out), "note": NOT_CHARGED}))
        return
    _show_simulation(result)
    print("\n".join(answer(result)))
    for name, why in result.left_out.items():
        print(f"Left out {name}: {why}.")
    print(f"Picture: {out}\n{NOT_CHARGED}")


def _columns_by_party(entries: list[str]) -> dict[str, list[str]]:
    by_party: dict[str, list[str]] = {}
    for entry in entries:
        party, sign, names = entry.partition("=")
        if not (party and sign):
            raise ConfigError(f"--split {entry} is not of the form PARTY=a,b,c.")
        if party in by_party:
            raise ConfigError(f"--split names {party} twice.", "Give all its columns at once.")
        by_party[party] = [name.strip() for name in names.split(",") if name.strip()]
    return by_party


def _show_simulation(simulation: Any) -> None:
    from opboost_ops.cli.output import print_table
    from opboost_ops.extras.lab.simulation import DRAWS

    heads = ("mode", "epsilon", "loss(R-L)", simulation.metric, "gain over alone")
    rows = [
        ("alone", "", "", simulation.alone, ""),
        ("centralised", "", "", simulation.centralised, simulation.pooled_gain),
        *((p.mode, f"{p.epsilon:g}", f"{p.loss:.3g}", p.metric, p.gain) for p in simulation.points),
    ]
    print_table(
        f"{simulation.metric} of {simulation.rows[1]:,} held-out rows; means of {DRAWS} draws, "
        "with 95 % intervals of rows and draw",
        heads,
        rows,
    )


def leakage_command(
    federation: FederationFile,
    party: Annotated[str | None, typer.Option(help="The feature holder.")] = None,
    gate: Annotated[
        float | None, typer.Option(help="Fail if an attack gains more than this share of rows.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Attack a party's next release; report and picture stay in its home."""
    import json

    from opboost_ops import api

    attacked = api.leakage(federation, party)
    if as_json:
        print(json.dumps(attacked.document()))
    else:
        _show_attacks(attacked)
    name, worst = attacked.attacks.worst
    if gate is not None and worst.gain > gate:
        raise ContractError(
            f"The attack {worst.name} on {name} gains {worst.gain:.3f}, above the gate of {gate}.",
            "Declare a smaller epsilon or another mechanism; `opboost plan` ranks them.",
        )


def _show_attacks(attacked: "Attacked") -> None:
    from opboost_ops.cli.output import print_line, print_table
    from opboost_ops.privacy.consent.exposure import share_words

    result = attacked.attacks
    heads = ("column", "attack", "success", "95 % interval", "without release", "verdict")
    rows = (
        (name, attack.name, f"{attack.success:.3f}", f"{attack.low:.3f} to {attack.high:.3f}",
         f"{attack.baseline:.3f}", attack.verdict)
        for name, tried in result.columns.items()
        for attack in tried
    )  # fmt: skip
    print_table(f"{attacked.party}: attacks on the release it would make now", heads, rows)
    stated = [
        (name, guess.values, *(share_words(rate) if rate else "" for rate in rates))
        for name, guess in result.stated.items()
        for rates in [(guess.after, guess.of_two, guess.of_three)]
    ]
    priors = ("column", "values", "all equally likely", "of two, at worst", "of three, at worst")
    print_table("Guessed right, as the consent sheet states it", priors, stated)
    for name, curves in result.averaging.items():
        first, last = curves.pinned[0].success, curves.pinned[-1].success
        print_line(
            f"{name}: averaging {len(curves.pinned)} retrainings places {last:.3f} of the rows, "
            f"after {first:.3f} with one; fresh noise would let it place "
            f"{curves.fresh[-1].success:.3f}."
        )
    linked = result.linked
    print(f"Linking two receivers' rows: {linked.success:.3f}, {linked.verdict}.")
    print(f"Report and picture stay at home: {attacked.picture}")
