"""The HTTP endpoint of a `Scorer`: JSON in, JSON out, for programs with a token.

No response, log line or metric shows a value that was sent.
"""

import asyncio
import contextlib
import hashlib
import hmac
import logging
import re
import time
from collections.abc import AsyncIterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from opboost_ops.config.documents import read_json
from opboost_ops.errors import ConfigError, OpBoostError, PolicyError
from opboost_ops.extras.serving.recording import Counters
from opboost_ops.extras.serving.rows import Score
from opboost_ops.extras.serving.scorer import POLL_SECONDS, Scorer
from opboost_ops.quality.live import Live
from opboost_ops.reports.outcomes import Outcomes

if TYPE_CHECKING:
    from starlette.applications import Starlette

#: Maximum rows and bytes of a request.
MOST_ROWS, MOST_BYTES = 10_000, 8 << 20

#: Seconds within which a request's body must arrive.
BODY_SECONDS = 30.0

#: Maximum number of reasons per score, as in a batch.
MOST_REASONS = 50

#: Bodies up to this many bytes are scored in the event loop, larger ones in a thread.
_FEW_BYTES = 4096

#: Start of an object or list, or a whole string; an unterminated one extends to the end.
_TOKEN = re.compile(rb'[{\[]|"(?:[^"\\]++|\\.)*+"?', re.DOTALL)

_LOG = logging.getLogger("opboost_ops")


class _RequestError(Exception):
    """An error response to a request.

    Args:
        status: HTTP status of the response.
        problem: Public description of the problem.
    """

    def __init__(self, status: int, problem: str, remedy: str = "") -> None:
        self.status, self.problem, self.remedy = status, problem, remedy


def make_app(scorer: Scorer, token: str) -> "Starlette":
    """Return the endpoint as an ASGI application.

    Args:
        scorer: The scorer.
        token: Token that programs must send as ``Authorization: Bearer TOKEN``.

    Raises:
        ConfigError: Starlette is not installed.
    """
    require_server()
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    counters, expected = Counters(), _digest(token.encode())

    def require_token(request: Request) -> None:
        # If there are two tokens, a proxy may have checked the other one.
        headers = request.headers.getlist("authorization")
        kind, _, sent = (headers[0] if len(headers) == 1 else "").partition(" ")
        # Compare digests, so that the time depends on neither a character nor the length.
        same = hmac.compare_digest(_digest(sent.strip().encode("utf-8", "replace")), expected)
        if kind.lower() != "bearer" or not same:
            raise _RequestError(401, "Send the serving token: Authorization: Bearer TOKEN.")

    async def health(_: Request) -> Response:
        ready = version_in_use(scorer) != ""
        status = {"status": "ready" if ready else "not ready"}
        return JSONResponse(status, 200 if ready else 503)

    async def version(request: Request) -> Response:
        try:
            require_token(request)
            return JSONResponse({"version": scorer.version, "mode": scorer.mode})
        except (_RequestError, OpBoostError) as error:
            return refusal(error)

    async def metrics(request: Request) -> Response:
        try:
            require_token(request)
        except _RequestError as error:
            return refusal(error)
        figures = await asyncio.to_thread(_production, scorer)
        return PlainTextResponse(counters.text(version_in_use(scorer), *figures))

    def scored(body: bytes) -> Response:
        rows, reasons, single = _parse_request(body)
        scores = scorer.score_rows(rows, reasons)
        response = JSONResponse(_response_document(scores, single))
        for score in scores:
            counters.row(score.refused, {p: of.state for p, of in score.partners.items()})
        return response

    async def score(request: Request) -> Response:
        begin = time.perf_counter()
        try:
            require_token(request)
            body = await _body(request)
            if len(body) <= _FEW_BYTES:
                response = scored(body)
            else:
                response = await asyncio.to_thread(scored, body)
        except (_RequestError, OpBoostError) as error:
            response = refusal(error)
        except ClientDisconnect:
            # The client is gone, and the server has not failed: proxies log 499.
            response = Response(status_code=499)
        except Exception as error:
            # Messages of such errors may contain cells.
            _LOG.error("A request for scores failed: %s.", type(error).__name__)
            response = refusal(_RequestError(500, f"Scoring failed ({type(error).__name__})."))
        counters.request(response.status_code, time.perf_counter() - begin)
        return response

    def refusal(error: _RequestError | OpBoostError) -> Response:
        headers = {}
        if isinstance(error, _RequestError):
            status = error.status
            headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        elif isinstance(error, PolicyError):
            status = 403
        elif version_in_use(scorer):
            status = 422
        else:
            status = 503
        return JSONResponse({"error": error.problem, "remedy": error.remedy}, status, headers)

    async def unknown(_: Request, __: Exception) -> Response:
        return JSONResponse({"error": "There is no such page.", "remedy": ""}, 404)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        # Refresh in a thread, so that no request waits until a new version is loaded.
        refreshing = asyncio.create_task(_keep_fresh(scorer))
        yield
        refreshing.cancel()
        # Count the last rows.
        await asyncio.to_thread(scorer.refresh)

    routes = [
        Route("/health", health),
        Route("/version", version),
        Route("/metrics", metrics),
        Route("/score", score, methods=["POST"]),
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={404: unknown},
        middleware=[Middleware(_OneLength)],
    )
    # A redirect could send rows to another host, or without TLS.
    app.router.redirect_slashes = False
    return app


class _OneLength:
    """Rejects requests with two lengths, and closes their connection.

    A proxy that uses the other length would treat the rest as another client's request (RFC 9112,
    section 6.3).
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        names = {name for name, _ in scope.get("headers", ())}
        app = self._app
        if {b"content-length", b"transfer-encoding"} <= names:
            from starlette.responses import JSONResponse

            error = {
                "error": "A request must have one of Content-Length and Transfer-Encoding.",
                "remedy": "Check the proxy that forwards it.",
            }
            app = JSONResponse(error, 400, {"Connection": "close"})
        await app(scope, receive, send)


def serve(scorer: Scorer, token: str, host: str, port: int) -> None:
    """Serve until the process is stopped.

    Args:
        scorer: The scorer.
        token: Token that programs must send.
        host: Address to listen at.
        port: Port to listen at.

    Raises:
        ConfigError: Uvicorn is not installed.
    """
    require_server()
    import uvicorn

    app = make_app(scorer, token)
    # The access log would have one line per request, and no more information than the counters.
    uvicorn.run(
        app,
        host=host,
        port=port,
        access_log=False,
        server_header=False,
        log_level="warning",
        limit_concurrency=1000,
        # The other parser accepts headers of any length, even without a token.
        http="h11",
    )


def require_server() -> None:
    """Check that the server's libraries are installed.

    Raises:
        ConfigError: A library is missing.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ConfigError(
            "Serving needs Starlette and Uvicorn, which are not installed.",
            "Install the extra: pip install 'opboost-ops[airflow]'. `opboost_ops.api.Scorer` does "
            "not need it.",
        ) from None


def version_in_use(scorer: Scorer) -> str:
    """Return the version in use; empty if nothing can be scored."""
    try:
        return scorer.version
    except OpBoostError:
        return ""


def _production(scorer: Scorer) -> tuple[Live | None, Outcomes | None]:
    try:
        return scorer.live(), scorer.outcomes()
    except (OpBoostError, OSError, ValueError, KeyError, TypeError):
        # The version's page shows what is damaged.
        return None, None


async def _keep_fresh(scorer: Scorer) -> None:
    while True:
        await asyncio.sleep(POLL_SECONDS / 2)
        await asyncio.to_thread(scorer.refresh)


async def _body(request: Any) -> bytes:
    """Read the body, within the limits of size and time."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise _RequestError(
                        413,
                        f"A request may have {MOST_BYTES >> 20} MiB at most.",
                        "Send fewer rows.",
                    )
    except TimeoutError:
        raise _RequestError(
            408, f"The request did not arrive within {BODY_SECONDS:g} seconds.", "Send it again."
        ) from None
    return bytes(body)


def _parse_request(body: bytes) -> tuple[list[dict[str, Any]], int, bool]:
    """Return rows, the number of reasons, and whether a single row was sent."""
    form = _RequestError(
        400,
        "The body is not a JSON object of the required form.",
        'Send {"row": {...}} or {"rows": [{...}, ...]}, and "reasons": N for at most 50 reasons.',
    )
    if last := _beyond_rows(body):
        raise _too_many_rows() if last == b"{" else form
    try:
        request = read_json(body)
    except (ValueError, RecursionError):
        raise form from None
    if not isinstance(request, dict) or not request.keys() <= {"row", "rows", "reasons"}:
        raise form
    reasons, single = request.get("reasons", 0), "row" in request
    rows: Any = [request["row"]] if single else request.get("rows")
    if single == ("rows" in request) or not isinstance(rows, list):
        raise form
    if not all(isinstance(row, dict) for row in rows):
        raise form
    if type(reasons) is not int or not 0 <= reasons <= MOST_REASONS:
        raise form
    if len(rows) > MOST_ROWS:
        raise _too_many_rows()
    return rows, reasons, single


def _beyond_rows(body: bytes) -> bytes:
    """Return the first bracket beyond those that the maximum of rows needs; empty if none.

    Checked before parsing, which would otherwise create millions of objects.
    """
    most = MOST_ROWS + 2
    if sum(map(body.count, (b"{", b"["))) <= most:
        return b""
    begins = (piece[0] for piece in _TOKEN.finditer(body) if piece[0] in (b"{", b"["))
    return next(islice(begins, most, None), b"")


def _too_many_rows() -> _RequestError:
    return _RequestError(413, f"A request may have {MOST_ROWS:,} rows at most.", "Send fewer rows.")


def _response_document(scores: list[Score], single: bool) -> dict[str, Any]:
    documents = [score.document() for score in scores]
    return documents[0] if single else {"scores": documents}


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
