"""`opboost federate`: the federation file, from the parties' offers."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    offers: Annotated[list[Path], typer.Argument(help="All offers, or folders of parties.")],
    out: Annotated[Path, typer.Option(help="The federation file.")] = Path("federation.yaml"),
) -> None:
    """Write federation.yaml from the parties' offers, also when a party joins or leaves.

    A file that is there keeps its training, scoring and schedule, and keys that were renewed. Its
    parties become those of the offers: all must then agree again. Of a party's folder, its
    filled-in bounds.csv is taken into its offer first.
    """
    from opboost_ops import api

    made = api.federate(offers, out)
    for party, known in made.fingerprints.items():
        role = "has the label" if party == made.label_holder else "sends randomised columns"
        print(f"{party} ({role}), fingerprint {known}")
    for word, parties in (("Joins", made.joined), ("Leaves", made.left)):
        if parties:
            print(f"{word}: {', '.join(parties)}.")
    print(
        f"Wrote {made.file}. Send it to every party; each reads it and agrees: "
        f"opboost agree SITE {made.file.name}"
    )
