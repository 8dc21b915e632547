"""`opboost keys`: a party's secrets, its public keys, and those of others."""

from typing import Annotated, cast

import typer

from opboost_ops.cli.arguments import AsJson, Site
from opboost_ops.errors import ConfigError

app = typer.Typer(help="Make, show and renew a party's keys.", no_args_is_help=True)


@app.command("init")
def init(
    site: Site,
) -> None:
    """Make noise secret, signing key and encryption key; print what the federation file needs."""
    from opboost_ops.extras.setup.keys import make_keys

    for name, key in make_keys(site).items():
        print(f"{name}: {key}")


@app.command("show")
def show(site: Site, as_json: AsJson = False) -> None:
    """Print a party's public keys and their fingerprint."""
    import json

    from opboost_ops.extras.setup.keys import show_keys

    keys = show_keys(site)
    if as_json:
        print(json.dumps(keys))
        return
    for name, value in keys.items():
        print(f"{name}: {value if isinstance(value, str) else ', '.join(value)}")


@app.command("trust")
def trust(
    site: Site,
    party: Annotated[str, typer.Argument(help="The receiver, as the federation file names it.")],
    key: Annotated[str, typer.Argument(help="Its public signing key.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace another key that is pinned for it.")
    ] = False,
) -> None:
    """Pin a receiver's public signing key in a party's policy.yaml.

    `opboost agree` pins the first key by itself; this is for a later one. Compare it over another
    channel with the one that `opboost keys show` prints at its party.
    """
    from opboost_ops.config.loading import POLICY
    from opboost_ops.exchange.encryption import key_name
    from opboost_ops.extras.setup.policy_file import pin_key

    changed = pin_key(site / POLICY, party, key, replace)
    done = "is pinned now" if changed else "was pinned already"
    print(f"{party}: signing key {key_name(key)} {done} in {POLICY}.")


@app.command("renew")
def renew(
    site: Site,
    use: Annotated[str, typer.Argument(help="signing or encryption.")],
    days: Annotated[
        int, typer.Option(min=0, max=92, help="How many days the old key stays valid.")
    ] = 14,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="The old key is refused at once.")
    ] = False,
) -> None:
    """Make a new signing or encryption key; print what the federation file needs.

    Keeps the old key beside the new one: current runs, and runs that start before everybody has
    agreed to the new key, use the old one. Nothing changes until the federation file names the new
    key and everybody has agreed to it. A party without an encryption key gets one.
    """
    from datetime import UTC, datetime, timedelta

    from opboost_ops.config.public_keys import KeyUse
    from opboost_ops.extras.setup.keys import renew_key

    if use not in ("signing", "encryption"):
        raise ConfigError(f"There is no {use} key to renew.", "Give signing or encryption.")
    today = datetime.now(UTC).date()
    until = None if revoke else today + timedelta(days=days)
    for line in renew_key(site, cast(KeyUse, use), today, until):
        print(line)
