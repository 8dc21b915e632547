"""The application that Airflow's API server mounts: routes behind its login, and HTTP headers."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Path, Request
from fastapi import Query as Field
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException as AnyHTTPException

from opboost_ops.errors import ContractError
from opboost_ops.exchange.manifest import run_id
from opboost_ops.orchestration.pages import (
    airflow,
    airflow_dags,
    answers,
    exchange,
    ledger,
    models,
    quality,
    runs,
    state,
    status,
)
from opboost_ops.orchestration.pages.access import (
    LOGGED_IN,
    Query,
    SeesDag,
    federations,
    guarded,
    of_state,
    parties,
    sections,
)
from opboost_ops.orchestration.pages.answers import PAGES, answer
from opboost_ops.orchestration.pages.runs import progress_text
from opboost_ops.reports.display.blocks import Block, Note, Section
from opboost_ops.reports.display.html import (
    Filter,
    Page,
    compile_templates,
    message_html,
    static,
    text_html,
)

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "img-src 'self'; form-action 'self'; frame-src 'self'; frame-ancestors 'self'; "
    "base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
}
#: Headers of pages that a run has written: inline style is allowed, and nothing else.
_SANDBOX = {
    "Content-Security-Policy": "sandbox; default-src 'none'; "
    "style-src 'unsafe-inline'; frame-ancestors 'self'"
}

_NAME = r"^[a-z][a-z0-9_]{0,47}$"
_RUN = r"^[0-9a-f]{16}$"
_BOUNDARY = r"^[a-z][a-z0-9_]{0,119}$"

PartyName = Annotated[str, Path(pattern=_NAME)]
FederationName = Annotated[str, Path(pattern=_NAME)]
Run = Annotated[str, Path(pattern=_RUN)]
Boundary = Annotated[str, Path(pattern=_BOUNDARY)]
QueryName = Annotated[str, Field(pattern=rf"{_NAME}|^$")]
QueryRun = Annotated[str, Field(pattern=rf"{_RUN}|^$")]
QueryPage = Annotated[int, Field(ge=1, le=10**6)]
QueryDay = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$|^$")]
QueryText = Annotated[str, Field(max_length=250)]

_BUILDERS = {
    "ledger": of_state(ledger.build, "Nothing was released yet: the party has no ledger."),
    "models": models.build,
    "exchange": of_state(exchange.build, "Nothing was exchanged yet: the party has no audit log."),
    "quality": quality.build,
}
_MODELS = ("Models", "models")
#: Suffixes of the ids of a federation's own DAGs.
_DAGS = ("train", "score", "tables", "join", "admin")
_STATIC = {
    "style.css": "text/css; charset=utf-8",
    "theme.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def make_app() -> FastAPI:
    """Return the application; all routes require a login."""
    compile_templates()
    app = FastAPI(
        title="OpBoost", dependencies=[LOGGED_IN], docs_url=None, redoc_url=None, openapi_url=None
    )
    app.middleware("http")(_secured)
    app.exception_handler(AnyHTTPException)(_refused)
    app.exception_handler(RequestValidationError)(_no_such_page)
    app.exception_handler(ContractError)(_no_such_page)
    app.get("/")(_home)
    for name, media in _STATIC.items():
        app.get(f"/{name}")(partial(_static, name, media))
    app.get("/status", name="status")(_status)
    for name, title, lead in PAGES:
        if name in _BUILDERS:
            app.get(f"/{name}", name=name)(_page(name, title, lead))
    app.get("/status.json")(_state)
    app.get("/status.schema.json")(_state_schema)
    app.get("/docs/{name}")(_document)
    app.get("/run")(_run)
    version = "/models/{party}/{federation}/{version}"
    app.get(version)(_version)
    app.get(version + "/{file}")(_version_file)
    app.get(version + "/beside/{run}")(_beside)
    boundary = "/quality/{party}/{federation}/{run}/{boundary}"
    app.get(boundary + ".html")(_report_html)
    app.get(boundary)(_report)
    return app


async def _secured(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await proceed(request)
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _refused(request: Request, error: Exception) -> HTMLResponse:  # noqa: ARG001
    assert isinstance(error, AnyHTTPException)
    titles = {401: "You are not logged in.", 403: "You may not see this.", 404: "No such page."}
    text = "Log in to Airflow and load this page again." if error.status_code == 401 else ""
    title = titles.get(error.status_code, "This cannot be done.")
    return HTMLResponse(message_html(title, text), error.status_code)


def _no_such_page(request: Request, error: Exception) -> HTMLResponse:  # noqa: ARG001
    text = error.problem if isinstance(error, ContractError) else "There is no such page."
    return HTMLResponse(message_html("No such page.", text), 404)


def _home(request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}/{PAGES[0][0]}")


def _static(name: str, media: str) -> Response:
    return Response(static(name), media_type=media)


def _query(
    request: Request,
    sees_dag: SeesDag,
    party: QueryName = "",
    federation: QueryName = "",
    page: QueryPage = 1,
    entries: QueryPage = 1,
    since: QueryDay = "",
    until: QueryDay = "",
) -> Query:
    return Query(
        sees_dag,
        party or None,
        federation or None,
        None,
        page,
        entries,
        bool(request.query_params.get("csv")),
        since,
        until,
    )


#: Query parameters common to all pages; the page of a run names the run differently.
PageQuery = Annotated[Query, Depends(_query)]


def _visible(sees_dag: SeesDag, party: PartyName, federation: FederationName) -> tuple[str, str]:
    if party not in parties():
        raise HTTPException(404)
    if not sees_dag(f"{federation}_train"):
        raise HTTPException(403)
    return party, federation


#: A party of this deployment and a federation that the reader may see.
Visible = Annotated[tuple[str, str], Depends(_visible)]


def _state(query: PageQuery) -> Response:
    return Response(state.state(query).model_dump_json(indent=1), media_type="application/json")


def _state_schema() -> Response:
    schema = json.dumps(state.State.model_json_schema(mode="serialization"), indent=1)
    return Response(schema, media_type="application/schema+json")


def _document(request: Request, name: Annotated[str, Path(max_length=60)]) -> HTMLResponse:
    content = answers.document(name)
    if content is None:
        raise HTTPException(404)
    base = request.scope.get("root_path", "")
    return HTMLResponse(text_html(*content, base=base, pages=PAGES))


def _status(request: Request, sees_dag: SeesDag) -> Response:
    _, title, lead = PAGES[0]
    top = status.blocks(state.state(Query(sees_dag)).federations) if parties() else []
    return answer(request, Page(title, lead, top=top))


def _page(name: str, title: str, lead: str) -> Callable[..., Response]:
    def page(request: Request, base_query: PageQuery, run: QueryRun = "") -> Response:
        query = replace(base_query, run=run or None)
        parts = [part for part in sections(_BUILDERS[name], query) if part.blocks]
        days = name == "ledger"
        filters = [Filter("run", "Run", "run"), *(ledger.fields(query) if days else ())]
        if len(names := federations(query)) > 1:
            filters.insert(0, Filter("federation", "Federation", "choice", names))
        if len(mine := parties()) > 1:
            filters.insert(0, Filter("party", "Party", "choice", mine))
        presets = ledger.period_links(query) if days and mine else ()
        return answer(request, Page(title, lead, parts, filters if mine else [], presets=presets))

    return page


def _run(
    request: Request,
    base_query: PageQuery,
    dag: QueryText = "",
    run: QueryText = "",
    id: QueryRun = "",  # noqa: A002  The name in the URL.
) -> Response:
    airflow_run = _find(base_query, dag, run)
    run_name = run_id(dag, run) if dag and run else id
    if not run_name:
        raise HTTPException(404)
    query = replace(base_query, run=run_name)
    if dag:
        # A DAG's id identifies only the federation that the DAG belongs to.
        query = replace(query, federation=_federation_of(dag, base_query))
    else:
        for name in federations(query):
            if query.wants(name, run_name) and airflow_run is None:
                airflow_run = airflow.find_run(run_name, query.dags(name))
                query = query if airflow_run is None else replace(query, federation=name)
    # Only Airflow knows about DAGs without a federation of these parties.
    parts = sections(runs.build, query) if query.federation or not dag else []
    shown = [*runs.worth_a_section(sorted(parts, key=runs.verdict_first))]
    lead = (
        f"Airflow calls it {airflow_run.name}."
        if airflow_run is not None
        else "What the parties of this deployment have of this run."
    )
    box = runs.of_run(airflow_run, partial(progress_text, query), _after(airflow_run, query))
    if dag and airflow_run is None:
        box = [Note("muted", "Airflow has no such run: it was deleted, or never began.")]
    top = [*box, *runs.run_links(airflow_run, box)]
    reply = answer(request, Page(f"Run {run_name}", lead, shown, top=top))
    if airflow_run is not None and airflow_run.state in ("running", "queued") and not query.whole:
        reply.headers["Refresh"] = "10"
    return reply


def _find(query: Query, dag: str, run: str) -> airflow.AirflowRun | None:
    """Return a run by Airflow's ids, if the user may see its DAG."""
    if dag and not query.sees_dag(dag):
        raise HTTPException(403)
    return next(iter(airflow.runs([dag], name=run)), None) if dag and run else None


def _federation_of(dag: str, query: Query) -> str | None:
    """Return the visible federation that a DAG belongs to or contains."""
    for name in federations(query):
        own = {f"{name}_{what}" for what in _DAGS}
        if query.wants(name, query.run) and (dag in own or dag in query.dags(name)):
            return name
    return None


def _after(run: airflow.AirflowRun | None, query: Query) -> tuple[str, ...]:
    """Return what a user needs to know after a failed run."""
    name = query.federation
    if run is None or run.state != "failed" or name is None:
        return ()
    for purpose in airflow.PURPOSES:
        if run.dag in (dags := query.dags(name, purpose)):
            due = [
                schedule.next_run for schedule in airflow_dags.schedules(dags) if schedule.next_run
            ]
            charges = runs.charged_in_run(name, run.run, query.party)
            champion = runs.champion_of(name)
            in_use = champion.name if champion else None
            return runs.failure_notes(charges, in_use, min(due, default=None))
    return ()


def _version(request: Request, place: Visible, version: Run) -> Response:
    party, federation = place
    parts = [Section(party, tuple(models.version(party, federation, version)))]
    title, lead = f"Model version {version}", f"Of {federation}, at {party}."
    return answer(request, Page(title, lead, parts, back=_MODELS))


def _beside(request: Request, place: Visible, version: Run, run: Run) -> Response:
    party, federation = place
    parts = [Section(party, tuple(models.beside(party, federation, version, run)))]
    lead = f"Of {federation}, at {party}: {version} and {run}."
    return answer(request, Page("Two versions", lead, parts, back=_MODELS))


def _version_file(place: Visible, version: Run, file: str, save: bool = False) -> Response:
    party, federation = place
    if file not in models.FILES:
        raise HTTPException(404)
    content = models.version_file(party, federation, version, file)
    headers = dict(_SANDBOX)
    if save:
        headers["Content-Disposition"] = f'attachment; filename="{federation}-{version}-{file}"'
    return Response(content, media_type=models.FILES[file], headers=headers)


def _report(
    request: Request, sees_dag: SeesDag, place: Visible, run: Run, boundary: Boundary
) -> Response:
    party, federation = place
    quality.report_file(party, federation, run, boundary, "json")
    blocks: list[Block] = guarded(partial(quality.report, party, federation, run, boundary))
    title, lead = boundary.replace("_", " "), f"Run {run} of {federation}."
    airflow_run = airflow.find_run(run, Query(sees_dag).dags(federation))
    top = [runs.check_links(airflow_run, party, run, boundary)]
    back = ("Data quality", "quality")
    return answer(request, Page(title, lead, [Section(party, tuple(blocks))], back=back, top=top))


def _report_html(place: Visible, run: Run, boundary: Boundary) -> Response:
    content = quality.report_file(*place, run, boundary, "html")
    return HTMLResponse(content, headers=_SANDBOX)
