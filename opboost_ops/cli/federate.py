"""`opboost federate`: the federation file, from the parties' offers."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer


def command(
    offers: Annotated[list[Path], typer.Argument(help="All offers, or folders of parties.")],
    out: Annotated[Path, typer.Option(help="The federation file.")] = Path("federation.yaml"),
) -> None:
    """Write federation.yaml from the parties' offers, also when a party joins or leaves.

    An existing file keeps its training, scoring, schedule and renewed keys. Its parties become
    those of the offers, and all must agree again. For a party's folder, the completed bounds.csv is
    merged into the offer first.
    """
    from opboost_ops import api

    federated = api.federate(offers, out)
    for party, fingerprint in federated.fingerprints.items():
        role = "has the label" if party == federated.label_holder else "sends randomised columns"
        print(f"{party} ({role}), fingerprint {fingerprint}")
    for word, parties in (("Joins", federated.joined), ("Leaves", federated.left)):
        if parties:
            print(f"{word}: {', '.join(parties)}.")
    print(
        f"Wrote {federated.file}. Send it to every party; each reads it and agrees: "
        f"opboost agree SITE {quote(federated.file.name)}"
    )
