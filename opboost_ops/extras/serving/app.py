"""The HTTP endpoint of a `Scorer`: JSON in, JSON out, for programs that show a token.

No answer, log line or metric shows a value that was sent.
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
from opboost_ops.extras.serving.scorer import LOOK, Scorer
from opboost_ops.quality.live import Live
from opboost_ops.reports.outcomes import Outcomes

if TYPE_CHECKING:
    from starlette.applications import Starlette

#: Most rows, and most bytes, of one request.
MOST_ROWS, MOST_BYTES = 10_000, 8 << 20

#: Seconds in which a request's body must have arrived.
BODY_SECONDS = 30.0

#: Most features that are named beside a score, as in a batch.
MOST_REASONS = 50

#: Bodies of so few bytes are answered at once; others in a thread, while others are answered.
_FEW_BYTES = 4096

#: The beginning of an object or list, or a whole text; one that nothing ends goes on to the end.
_PIECE = re.compile(rb'[{\[]|"(?:[^"\\]++|\\.)*+"?', re.DOTALL)

_LOG = logging.getLogger("opboost_ops")


class _RequestError(Exception):
    """A request that is answered with an error.

    Args:
        status: Of the answer.
        problem: In public words.
    """

    def __init__(self, status: int, problem: str, remedy: str = "") -> None:
        self.status, self.problem, self.remedy = status, problem, remedy


def make_app(scorer: Scorer, token: str) -> "Starlette":
    """The endpoint as an ASGI application.

    Args:
        scorer: What it scores with.
        token: What programs must show as ``Authorization: Bearer TOKEN``.

    Raises:
        ConfigError: Starlette is not installed.
    """
    require_server()
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    counters, wanted = Counters(), _digest(token.encode())

    def require_token(request: Request) -> None:
        # Of two tokens a proxy may have read the other one.
        shown_tokens = request.headers.getlist("authorization")
        kind, _, shown = (shown_tokens[0] if len(shown_tokens) == 1 else "").partition(" ")
        # Digests, so that neither a character nor the length is told by how long it takes.
        same = hmac.compare_digest(_digest(shown.strip().encode("utf-8", "replace")), wanted)
        if kind.lower() != "bearer" or not same:
            raise _RequestError(401, "This needs the serving token: Authorization: Bearer TOKEN.")

    async def health(_: Request) -> Response:
        ready = in_use(scorer) != ""
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
        return PlainTextResponse(counters.text(in_use(scorer), *figures))

    def scored(body: bytes) -> Response:
        rows, reasons, single = _asked(body)
        scores = scorer.score_rows(rows, reasons)
        response = JSONResponse(_answer(scores, single))
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
            # Nobody reads it, and no server has failed: 499 is what proxies log.
            response = Response(status_code=499)
        except Exception as error:
            # The text of a foreign error may print cells.
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
        elif in_use(scorer):
            status = 422
        else:
            status = 503
        return JSONResponse({"error": error.problem, "remedy": error.remedy}, status, headers)

    async def unknown(_: Request, __: Exception) -> Response:
        return JSONResponse({"error": "There is nothing here.", "remedy": ""}, 404)

    @contextlib.asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        # By a thread of its own, so that no request waits until a new version is loaded.
        looking = asyncio.create_task(_look_again(scorer))
        yield
        looking.cancel()
        # Rows that wait to be counted.
        await asyncio.to_thread(scorer.look)

    routes = [
        Route("/health", health),
        Route("/version", version),
        Route("/metrics", metrics),
        Route("/score", score, methods=["POST"]),
    ]
    app = Starlette(
        routes=routes,
        lifespan=life,
        exception_handlers={404: unknown},
        middleware=[Middleware(_OneLength)],
    )
    # A redirect would send rows to the host that the request names, perhaps without TLS.
    app.router.redirect_slashes = False
    return app


class _OneLength:
    """Refuses a request that states its length twice, and ends its connection.

    A proxy that reads the other length would take what follows for somebody else's request (RFC
    9112, section 6.3).
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        names = {name for name, _ in scope.get("headers", ())}
        app = self._app
        if {b"content-length", b"transfer-encoding"} <= names:
            from starlette.responses import JSONResponse

            error = {
                "error": "A request has one length: Content-Length or Transfer-Encoding.",
                "remedy": "Look at what forwards it.",
            }
            app = JSONResponse(error, 400, {"Connection": "close"})
        await app(scope, receive, send)


def serve(scorer: Scorer, token: str, host: str, port: int) -> None:
    """Serve until the process is told to end.

    Args:
        scorer: What it scores with.
        token: What programs must show.
        host: The address to listen at.
        port: The port there.

    Raises:
        ConfigError: Uvicorn is not installed.
    """
    require_server()
    import uvicorn

    app = make_app(scorer, token)
    # Its access log would have a line a request, and tells nothing that the counters do not.
    uvicorn.run(
        app,
        host=host,
        port=port,
        access_log=False,
        server_header=False,
        log_level="warning",
        limit_concurrency=1000,
        # The other parser takes headers of any length, from those who have no token, too.
        http="h11",
    )


def require_server() -> None:
    """Make sure that the server's libraries are installed.

    Raises:
        ConfigError: They are not.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ConfigError(
            "Serving needs Starlette and Uvicorn, which are not installed here.",
            "Install the extra: pip install 'opboost-ops[airflow]'; `opboost_ops.api.Scorer` "
            "works without.",
        ) from None


def in_use(scorer: Scorer) -> str:
    """The version in use; empty where nothing can be scored."""
    try:
        return scorer.version
    except OpBoostError:
        return ""


def _production(scorer: Scorer) -> tuple[Live | None, Outcomes | None]:
    try:
        return scorer.live(), scorer.outcomes()
    except (OpBoostError, OSError, ValueError, KeyError, TypeError):
        # The version's page says what is damaged.
        return None, None


async def _look_again(scorer: Scorer) -> None:
    while True:
        await asyncio.sleep(LOOK / 2)
        await asyncio.to_thread(scorer.look)


async def _body(request: Any) -> bytes:
    """The body, which is read no further and no longer than the limits."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise _RequestError(
                        413, f"A request has at most {MOST_BYTES >> 20} MiB.", "Send fewer rows."
                    )
    except TimeoutError:
        raise _RequestError(
            408, f"The request did not arrive within {BODY_SECONDS:g} seconds.", "Send it again."
        ) from None
    return bytes(body)


def _asked(body: bytes) -> tuple[list[dict[str, Any]], int, bool]:
    """Rows, how many reasons, and whether it is a single row."""
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
    """The first object or list beyond those that rows need; empty if there is none.

    Millions of them would be made before the first is refused.
    """
    most = MOST_ROWS + 2
    if sum(map(body.count, (b"{", b"["))) <= most:
        return b""
    begins = (piece[0] for piece in _PIECE.finditer(body) if piece[0] in (b"{", b"["))
    return next(islice(begins, most, None), b"")


def _too_many_rows() -> _RequestError:
    return _RequestError(413, f"A request has at most {MOST_ROWS:,} rows.", "Send fewer rows.")


def _answer(scores: list[Score], single: bool) -> dict[str, Any]:
    documents = [score.document() for score in scores]
    return documents[0] if single else {"scores": documents}


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
