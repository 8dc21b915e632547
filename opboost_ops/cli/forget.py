"""`opboost forget`: a person leaves a party's cells and its next releases."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    site: Annotated[Path, typer.Argument(help="Folder of the party's site.yaml.")],
    person: Annotated[str, typer.Argument(help="The ID. Put - to read it from stdin.")],
    integer: Annotated[bool, typer.Option(help="IDs are integers.")] = False,
) -> None:
    """Forget a person: from the next run on no row of theirs is used; say what stays outside."""
    import sys

    import numpy as np
    import pyarrow as pa

    from opboost_ops.config.loading import POLICY, load_policy, load_site
    from opboost_ops.errors import ConfigError
    from opboost_ops.exchange.books import open_books
    from opboost_ops.mechanisms import noise
    from opboost_ops.privacy.forgotten import Forgotten

    declared, policy = load_site(site / "site.yaml"), load_policy(site / POLICY)
    given = sys.stdin.readline().strip() if person == "-" else person
    if not given or (integer and not given.lstrip("-").isdigit()):
        raise ConfigError("This is no ID.", "Give the ID as it is in the table.")
    identity = int(given) if integer else given
    secret = declared.noise_secret()
    Forgotten(declared.forgotten).add(secret, identity)
    kind = "integer" if integer else "string"
    with open_books(declared) as books:
        releases = [r for r in books.ledger.releases() if r.account == "local_dp"]
        hashes = []
        for receiver in sorted({release.receiver for release in releases}):
            towards = noise.receiver_secret(secret, policy.noise_group(receiver))
            keys = noise.person_keys(towards, pa.array([identity]), kind)  # type: ignore[arg-type]
            hashes.append(noise.person_hashes(towards, keys))
        removed = books.cells.forget(np.concatenate(hashes)) if hashes else 0
        books.audit.add("forgotten", "cells", declared.party, detail=f"{removed} cells")
    print(f"{declared.party} forgot the person: {removed} cell states were removed.")
    print("From its next run on no release holds a row of theirs.")
    artifacts = {(r.receiver, r.artifact) for r in releases}
    if removed:
        for receiver in sorted({receiver for receiver, _ in artifacts}):
            count = sum(r == receiver for r, _ in artifacts)
            print(
                f"Cannot be recalled: up to {count} artifacts that {receiver} has received, and "
                "models trained on them."
            )
    print(
        "Still here: the row in the party's own table, and intermediate tables of earlier runs "
        "until `opboost store gc` removes those runs."
    )
