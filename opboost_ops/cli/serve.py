"""`opboost serve`: scores for programs, by HTTP, from the label holder alone."""

from typing import Annotated

import typer

from opboost_ops.cli.arguments import FederationFile, Site


def command(
    site: Site,
    federation: FederationFile,
    host: Annotated[
        str, typer.Option(help="Address to listen at; others than this machine need TLS before it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at.")] = 8750,
) -> None:
    """Score single rows by HTTP, without the other parties: /score, /version, /health, /metrics."""
    from opboost_ops.config.loading import load_site
    from opboost_ops.serving.app import require_server, serve
    from opboost_ops.serving.scorer import Scorer

    require_server()
    token = load_site(site / "site.yaml").serving_token()
    scorer = Scorer(site, federation, record=True)
    print(f"Version {scorer.version} scores in mode {scorer.mode} at http://{host}:{port}/score")
    serve(scorer, token, host, port)
