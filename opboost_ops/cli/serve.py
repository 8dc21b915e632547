"""`opboost serve`: scores for programs, by HTTP, from the label holder alone."""

from typing import Annotated

import typer

from opboost_ops.cli.arguments import FederationFile, Site


def command(
    site: Site,
    federation: FederationFile,
    host: Annotated[
        str, typer.Option(help="Address to listen on; put TLS in front of any but 127.0.0.1.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8750,
) -> None:
    """Serve scores of single rows over HTTP, without the other parties."""
    from opboost_ops.config.loading import load_site
    from opboost_ops.extras.serving.app import require_server, serve
    from opboost_ops.extras.serving.scorer import Scorer

    require_server()
    token = load_site(site / "site.yaml").serving_token()
    scorer = Scorer(site, federation, record=True)
    print(f"Version {scorer.version} scores in mode {scorer.mode} at http://{host}:{port}/score")
    serve(scorer, token, host, port)
