"""The coordinator's proxy before a server that only writes down: what comes through, and what not.

`recorded` has what real workers of several versions of the Edge provider have sent
(`record_worker.py`).
"""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from airflow.api_fastapi.auth.tokens import JWTGenerator

from tests.processes import Processes
from tests.programs import program
from tests.servers.conftest import free_port
from tests.sites import compose
from tests.sites.conftest import start_proxy, to_proxy, written
from tests.waiting import until

RECORDED = {path.stem: path for path in sorted((Path(__file__).parent / "recorded").glob("*.json"))}
EDGE = "/edge_worker/v1"
FETCH, WORKER = f"{EDGE}/jobs/fetch/bank", f"{EDGE}/worker/bank"
OWN, OTHER = str(UUID(int=1)), str(UUID(int=2))


@dataclass
class Proxy:
    address: str
    keys: Path
    processes: Processes
    arrived: list[tuple[str, str, bytes]] = field(default_factory=list)

    def call(
        self,
        party: str,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        chunked: bool = False,
        twice: str = "",
    ) -> int:
        with contextlib.closing(to_proxy(self.address, self.keys, self.keys / party)) as connection:
            given = {"Content-Type": "application/json", **(headers or {})}
            sent: Any = iter([body]) if chunked else body
            if twice:
                connection.putrequest(method, path, skip_accept_encoding=True)
                for name, value in {**given, "Content-Length": str(len(body))}.items():
                    connection.putheader(name, value)
                connection.putheader("Authorization", twice)
                connection.endheaders(body)
            else:
                connection.request(method, path, sent, given, encode_chunked=chunked)
            return connection.getresponse().status

    def said(self) -> list[str]:
        return self.processes.output("proxy").splitlines()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    program("haproxy")
    root = tmp_path_factory.mktemp("proxy")
    places = written(root)
    processes = Processes(root)
    made = Proxy(f"127.0.0.1:{free_port()}", root / "keys", processes)

    class Behind(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            made.arrived.append((self.command, self.path, self.rfile.read(length)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Behind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        start_proxy(processes, places, made.address, f"127.0.0.1:{server.server_port}")
        try:
            until(lambda: _answers(made), "the proxy", 30)
            yield made
        finally:
            processes.stop()
            server.shutdown()


def _answers(proxy: Proxy) -> bool:
    assert proxy.processes.running["proxy"].poll() is None, proxy.processes.output("proxy")
    try:
        return proxy.call("bank", "GET", "/nothing") == 403
    except ConnectionError:
        return False


def _calls(version: str) -> list[dict[str, Any]]:
    read = json.loads(RECORDED[version].read_text())
    assert read["provider"] == version
    calls: list[dict[str, Any]] = read["calls"]
    assert len(calls) == 7
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("version", RECORDED)
def test_what_workers_of_a_range_of_providers_send_comes_through(
    proxy: Proxy, version: str
) -> None:
    for call in _calls(version):
        body = call["body"].encode()
        del proxy.arrived[:]
        assert proxy.call("bank", call["method"], call["path"], body, call["headers"]) == 200
        logs = "/logs/push/" in call["path"]
        assert proxy.arrived == ([] if logs else [(call["method"], call["path"], body)])
        # Of another party the same is refused.
        assert proxy.call("shop", call["method"], call["path"], body, call["headers"]) == 403


def _forged(body: bytes) -> list[bytes]:
    own = b'"queues":["queue.bank"]'
    other = own.replace(b"bank", b"shop")
    assert body.startswith(b"{" + own)
    rest = body[1 + len(own) :]
    nested = b',"sysinfo":{' + own + b"}"
    return [
        # Another queue, every queue, two, and a name that only looks like one.
        b"{" + other + rest,
        b'{"queues":null' + rest,
        b'{"queues":[]' + rest,
        b'{"queues":["queue.bank","queue.shop"]' + rest,
        b'{"queues":["queue.bank",null]' + rest,
        b'{"queues":[["queue.bank"]]' + rest,
        b'{"queues":"queue.bank"' + rest,
        b'{"queues":["queue.bank "]' + rest,
        b'{"queues":["QUEUE.BANK"]' + rest,
        b'{"queues":["queue.nobody"]' + rest,
        # Two of them: most parsers take the last, some the first.
        b"{" + own + b"," + other + rest,
        b"{" + other + b"," + own + rest,
        b"{" + own + rest[:-1] + b"," + other + b"}",
        b"{" + own + rest[:-1] + b',"queues":null}',
        b"{" + own + rest[:-1] + b',\n"queues" :null}',
        b"{" + own + rest[:-1] + b',"\\u0071ueues":null}',
        b"{" + own + rest[:-1] + b',"queue\\u0073":["queue.shop"]}',
        # Only inside another one, or beside the whole.
        b'{"team_name":null' + nested + b"}",
        b'{"sysinfo":{' + own + b"}" + rest,
        b"[" + body + b"," + body.replace(b"bank", b"shop") + b"]",
        b"{" + own + b"}" + body.replace(own, other),
        # Written in another way, which the one may read and the other not.
        body.replace(b"queues", b"\\u0071ueues"),
        body.decode().encode("utf-16"),
        b"\xef\xbb\xbf" + body,
        b" " + b"{" + other + rest,
        b"\x00" + body,
        b"{" + own + b"\x00" + other + rest,
        body + b" " * 20_000 + b"{" + other + rest,
        b"{" + own + rest[:-1] + b',"x":"' + b"x" * 20_000 + b'",' + other + b"}",
        b"",
        b"null",
        b"queues=queue.bank",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("version", RECORDED)
def test_no_body_asks_for_another_queue(proxy: Proxy, version: str) -> None:
    asked = [call for call in _calls(version) if call["body"].startswith('{"queues"')]
    assert {call["path"] for call in asked} == {FETCH, WORKER}
    del proxy.arrived[:]
    for call in asked[:3]:
        for body in _forged(call["body"].encode()):
            got = proxy.call("bank", call["method"], call["path"], body)
            assert (got, body) == (403, body)
        # Not all of it is looked at where its length is not told.
        assert (
            proxy.call("bank", call["method"], call["path"], call["body"].encode(), chunked=True)
            == 403
        )
    assert proxy.arrived == []


@pytest.mark.slow
def test_what_a_worker_says_of_itself_is_its_own_affair(proxy: Proxy) -> None:
    """Fields of tomorrow, and a comment that people write, with quotes and lines."""
    body = {
        "queues": ["queue.bank"],
        "state": "maintenance mode",
        "sysinfo": {"edge_provider_version": "9.9.9", "nested": [{"a": None}]},
        "maintenance_comments": 'new "disk"\nof queues \\ tomorrow é',
        "field_of_tomorrow": {"x": 1},
    }
    sent = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    assert proxy.call("bank", "PATCH", WORKER, sent) == 200
    assert proxy.arrived[-1] == ("PATCH", WORKER, sent)


@pytest.mark.slow
def test_an_unknown_provider_is_told_in_one_line(proxy: Proxy) -> None:
    body = b'{"free_concurrency":2,"queues":["queue.bank"]}'
    assert proxy.call("bank", "POST", FETCH, body) == 403
    line = f"bank POST {FETCH} 403 provider: "
    until(lambda: any(said.startswith(line) for said in proxy.said()), "a line of the log", 10)
    (told,) = {said for said in proxy.said() if said.startswith(line)}
    known = sorted(RECORDED, key=lambda version: tuple(map(int, version.split("."))))
    assert f"providers {known[0]} to {known[-1]} send it" in told
    # The page names the same range.
    page = (compose.FOLDER.parent / "docs" / "sites.md").read_text()
    assert f"{known[0]} to {known[-1]}" in page


def _token(subject: str | None, scope: str = "execution") -> str:
    claims = {"scope": scope} | ({} if subject is None else {"sub": subject})
    audience = "urn:airflow.apache.org:task"
    made = JWTGenerator(secret_key="x" * 64, valid_for=600, audience=audience).generate(claims)
    return f"Bearer {made}"


@pytest.mark.slow
def test_a_task_is_spoken_of_with_its_own_token_alone(proxy: Proxy) -> None:
    own, other = OWN, OTHER
    good = {"Authorization": _token(own)}
    for method, name in (("PATCH", "run"), ("PATCH", "state"), ("PUT", "heartbeat")):
        path = f"/execution/task-instances/{own}/{name}"
        assert proxy.call("bank", method, path, b"{}", good) == 200
        for headers in (
            {},
            {"Authorization": _token(other)},
            {"Authorization": _token(None)},
            {"Authorization": _token(own).replace("Bearer", "Basic")},
            {"Authorization": "Bearer x.y.z"},
            {"Authorization": f"{_token(own)}, {_token(other)}"},
        ):
            assert proxy.call("bank", method, path, b"{}", headers) == 403
        for first, second in ((own, other), (other, own)):
            headers = {"Authorization": _token(first)}
            assert proxy.call("bank", method, path, b"{}", headers, twice=_token(second)) == 403
        elsewhere = path.replace(own, other)
        assert proxy.call("bank", method, elsewhere, b"{}", good) == 403
    assert {path.split("/")[3] for _, path, _ in proxy.arrived if "/execution/" in path} == {own}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", f"{EDGE}/worker/queues/bank"),
        ("POST", f"{EDGE}/worker/bank/"),
        ("POST", f"{EDGE}/worker/bank-2-3"),
        ("POST", f"{EDGE}/worker/bankshop"),
        ("DELETE", f"{EDGE}/worker/bank"),
        ("GET", f"{EDGE}/logs/logfile_path/a/b/c/1/-1"),
        ("GET", f"{EDGE}/health"),
        ("POST", f"{EDGE}/rpcapi"),
        ("GET", "/edge_worker/ui/jobs"),
        ("GET", "/execution/variables/any"),
        ("GET", "/execution/connections/any"),
        ("PUT", "/execution/variables/any"),
        ("GET", "/execution/dag-runs/count"),
        ("POST", "/execution/dag-runs/credit_scoring_train/forged"),
        ("GET", "/execution/task-instances/states"),
        ("GET", "/execution/xcoms/credit_scoring_train/r/shop_release.check_table/summary"),
        ("DELETE", "/execution/xcoms/credit_scoring_train/r/shop_release.check_table/summary"),
        ("GET", "/execution/../api/v2/dags"),
        ("GET", "/execution//xcoms/a/b/c/d"),
        ("GET", "/execution/xcoms/credit_scoring_train/r%2f..%2fx/bank_release.check_table/y"),
        ("GET", "//api/v2/connections"),
        ("GET", f"{EDGE}/../../api/v2/dags"),
        ("GET", "/opboost/ledger"),
        ("GET", "/"),
    ],
)
def test_no_other_route_is_a_sites(proxy: Proxy, method: str, path: str) -> None:
    del proxy.arrived[:]
    body = b'{"queues":["queue.bank"],"free_concurrency":2}'
    assert proxy.call("bank", method, path, body, {"Authorization": _token(OWN)}) == 403
    assert proxy.arrived == []
