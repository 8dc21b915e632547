"""The reference of HTTP endpoints lists every path that the servers have, and no other."""

import re
from pathlib import Path
from typing import cast

from starlette.applications import Starlette
from starlette.routing import Route

from opboost_ops.extras.serving.app import make_app as make_scoring_app
from opboost_ops.extras.serving.scorer import Scorer
from opboost_ops.orchestration.pages.app import make_app

TEXT = (Path(__file__).parents[4] / "docs" / "reference" / "http.md").read_text(encoding="utf-8")


def documented(heading: str) -> set[str]:
    part = TEXT.partition(f"## {heading}")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`(?:GET |POST )?/.*?) \|", part, re.MULTILINE)
    return {path for row in rows for path in re.findall(r"`(?:GET |POST )?(/[^`]*)`", row)}


def paths(app: Starlette) -> set[str]:
    return {route.path for route in app.routes if isinstance(route, Route)}


def test_the_paths_of_the_serving_endpoint() -> None:
    # Which paths there are does not depend on what is scored with.
    app = make_scoring_app(cast(Scorer, None), "token")
    assert documented("`opboost serve`") == paths(app)


def test_the_paths_of_the_pages() -> None:
    assert documented("Pages in Airflow's API server") == paths(make_app())
