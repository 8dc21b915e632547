"""What a site could do to others, if the coordinator's proxy and its keys were not as they are."""

import http.client
import http.server
import json
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.auth.tokens import JWTGenerator

from opboost_ops.orchestration.sites.keys import write_sites
from tests.sites.conftest import BIN, Site, Sites
from tests.waiting import until

EDGE = "/edge_worker/v1"
TRAIN, SCORE = "credit_scoring_train", "credit_scoring_score"
SYSINFO = {"airflow_version": "3.3.2", "edge_provider_version": "5.1.0", "concurrency": 2}


def fetch(queues: str) -> str:
    return (
        f'{{"queues":{queues},"team_name":null,"free_concurrency":2,'
        '"supports_task_instance_uuid":true}'
    )


def register(queues: str) -> str:
    sysinfo = json.dumps(SYSINFO, separators=(",", ":"))
    return (
        f'{{"queues":{queues},"team_name":null,"state":"starting","jobs_active":0,'
        f'"sysinfo":{sysinfo}}}'
    )


OWN = '["queue.bank"]'
OTHERS = '["queue.shop"]'
TASK = f"{TRAIN}/shop_release.check_table/manual__x/1/-1"

#: What bank asks for and does not get, one of each kind; `test_proxy` has many.
REFUSED = [
    # Another's queue, and every queue.
    ("POST", f"{EDGE}/jobs/fetch/bank", fetch(OTHERS)),
    ("POST", f"{EDGE}/jobs/fetch/bank", fetch("null")),
    ("POST", f"{EDGE}/jobs/fetch/bank", fetch(f'{OWN},"queues":{OTHERS}')),
    ("POST", f"{EDGE}/worker/bank-2", register(OTHERS)),
    ("PATCH", f"{EDGE}/worker/queues/bank", '{"new_queues":["queue.shop"],"remove_queues":null}'),
    # Another's name.
    ("POST", f"{EDGE}/jobs/fetch/shop-2", fetch(OWN)),
    ("POST", f"{EDGE}/jobs/fetch/bank%2F..%2Fshop", fetch(OWN)),
    ("PATCH", f"{EDGE}/worker/shop", register(OWN)),
    # Another's task.
    ("PATCH", f"{EDGE}/jobs/state/{TASK}/success", ""),
    ("GET", f"{EDGE}/logs/logfile_path/{TASK}", ""),
    ("POST", f"/execution/xcoms/{TRAIN}/r/shop_release.check_table/return_value", '"forged"'),
    (
        "POST",
        f"/execution/xcoms/{TRAIN}/r%2Fshop_release.check_table%2Fx/bank_release.check_table/y",
        '"forged"',
    ),
    # What is everybody's in Airflow.
    ("GET", "/execution/variables/any", ""),
    ("POST", f"/execution/dag-runs/{TRAIN}/forged", "{}"),
    # What is not for sites at all.
    ("GET", "/api/v2/dags", ""),
    ("POST", "/auth/token", '{"username":"admin","password":"x"}'),
    ("GET", f"{EDGE}/%2e%2e/%2e%2e/api/v2/dags", ""),
    ("GET", "/execution/../api/v2/dags", ""),
]


@pytest.mark.deployment
def test_no_site_gets_what_is_not_its_own(sites: Sites) -> None:
    path = f"{EDGE}/jobs/fetch/bank"
    assert sites.call("bank", "POST", path, fetch(OWN), sites.edge_token(path)) == (200, None)
    got = []
    for method, path, body in REFUSED:
        token = (
            sites.edge_token(path) if EDGE in path else sites.client.http.headers["Authorization"]
        )
        status, _ = sites.call("bank", method, path, body, token)
        got.append((status, method, path, body[:80]))
    assert [entry for entry in got if entry[0] != 403] == []


@pytest.mark.deployment
def test_only_certificates_of_our_own_authority_are_let_in(sites: Sites, tmp_path: Path) -> None:
    path = f"{EDGE}/jobs/fetch/bank"
    write_sites(tmp_path / "other", ["bank"], ["127.0.0.1"])
    for party, keys in ((None, None), ("bank", tmp_path / "other")):
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            sites.call(party, "POST", path, fetch(OWN), sites.edge_token(path), keys)
    # Our own certificate, for one that is in no federation file.
    write_sites(sites.keys, ["ghost"])
    assert sites.call("ghost", "GET", f"/execution/task-instances/{'0' * 36}/run")[0] == 403
    # Nor does a site talk to a coordinator that another authority vouches for.
    site = Site(sites.root, "bank", sites.proxy, tmp_path / "other")
    site.start_tunnel(sites.processes, "mistaken")
    until(lambda: "503" in _through(site, path), "an answer of the tunnel")
    sites.processes.stop("mistaken-bank")


#: What a coordinator answers to a worker that asks for a job, and what becomes of it.
JOBS = {
    b"null": 200,
    b'{"command":{"type":"ExecuteTask","ti":{}}}': 200,
    b'{"command":{"type":"ExecuteCallback","callback":{}}}': 502,
    b'{"command":{"type":"Execute\\u0043allback"}}': 502,
    b'{"command":{"type":"ExecuteTask","type" : "ExecuteCallback"}}': 502,
    b'{"command":{"type":"ExecuteTask"},"x":"' + b"x" * 20_000 + b'","type":"RunTrigger"}': 502,
}


@pytest.mark.deployment
def test_a_site_takes_tasks_and_nothing_else(sites: Sites, tmp_path: Path) -> None:
    answers = iter(JOBS)

    class Coordinator(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Accept-Encoding"] is None
            answer = next(answers)
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sites.keys / "coordinator" / "server.pem")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Coordinator) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        site = Site(sites.root, "bank", f"127.0.0.1:{server.server_port}", sites.keys)
        site.start_tunnel(sites.processes, "strange")
        until(lambda: _through(site, "/elsewhere") == "403", "the tunnel")
        # A log is answered here; passed on, it would take the first of the answers.
        assert _through(site, f"{EDGE}/logs/push/{TASK}") == "200"
        statuses = [int(_through(site, f"{EDGE}/jobs/fetch/bank")) for _ in JOBS]
        sites.processes.stop("strange-bank")
        server.shutdown()
    assert statuses == list(JOBS.values())


def _through(site: Site, path: str) -> str:
    connection = http.client.HTTPConnection(site.address, timeout=30)
    try:
        connection.request("POST", path, fetch(OWN))
        return str(connection.getresponse().status)
    except ConnectionError:
        return ""


@pytest.mark.deployment
def test_what_sites_share_forges_no_token(sites: Sites) -> None:
    run = sites.client.trigger(TRAIN)
    until(lambda: _instances(sites, run, "bank"), "a task of bank")
    instance = _instances(sites, run, "bank")[0]
    key = (sites.keys / "coordinator" / "token.key").read_bytes()
    admin = {"sub": "admin", "role": "ADMIN", "teams": []}
    task = {"sub": instance, "scope": "execution"}
    audiences = {"apache-airflow": admin, "urn:airflow.apache.org:task": task}
    path = f"/execution/task-instances/{instance}/previous-successful-dagrun"
    for audience, claims in audiences.items():
        made = {"valid_for": 600, "audience": audience}
        forged = JWTGenerator(secret_key=sites.shared, **made).generate(claims)
        signed = JWTGenerator(private_key=key, **made).generate(claims)
        statuses = []
        for token in (f"Bearer {forged}", f"Bearer {signed}"):
            if claims is admin:
                statuses.append(sites.behind("GET", "/api/v2/dags", token=token)[0])
            else:
                statuses.append(sites.call("bank", "GET", path, token=token)[0])
        # The same words, signed by the coordinator's own key, are good.
        assert statuses in ([401, 200], [403, 200]), audience
    sites.client.http.patch(f"/api/v2/dags/{TRAIN}/dagRuns/{run}", json={"state": "failed"})


def _instances(sites: Sites, run: str, party: str) -> list[str]:
    return [t["id"] for t in sites.client.tasks(TRAIN, run) if t["task_id"].startswith(party)]


@pytest.mark.deployment
def test_a_worker_without_a_queue_is_turned_away(sites: Sites) -> None:
    site = sites.own["bank"]
    command = [BIN / "airflow", "edge", "worker", "--edge-hostname", "bank-2"]
    done = subprocess.run(
        command, env=site.worker_environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode != 0
    assert "403" in done.stderr + done.stdout


@pytest.mark.deployment
def test_airflow_itself_would_grant_what_the_proxy_refuses(sites: Sites) -> None:
    with sites.processes.asleep("worker-shop", "worker-bank", "worker-credit"):
        # Calls of the workers that were under way have been answered when this one is.
        assert sites.behind("GET", "/execution/health")[0] == 200
        runs = {dag: sites.client.trigger(dag) for dag in (TRAIN, SCORE)}
        _take_what_is_anothers(sites, runs)
        for dag, run in runs.items():
            path = f"/api/v2/dags/{dag}/dagRuns/{run}"
            sites.client.http.patch(path, json={"state": "failed"}).raise_for_status()


def _take_what_is_anothers(sites: Sites, runs: dict[str, str]) -> None:
    def waiting(dag: str) -> bool:
        tasks = sites.client.tasks(dag, runs[dag])
        return any(t["queue"] == "queue.credit" and t["state"] == "queued" for t in tasks)

    def granted(method: str, path: str, body: str) -> tuple[int, Any]:
        return sites.behind(method, path, body, sites.edge_token(path))

    until(lambda: all(waiting(dag) for dag in runs), "tasks in the queue of credit")
    assert granted("POST", f"{EDGE}/worker/bank-9", register(OTHERS))[0] == 200
    queues = '{"new_queues":["queue.credit"],"remove_queues":null}'
    assert granted("PATCH", f"{EDGE}/worker/queues/bank-9", queues)[0] == 200
    # Another's job by its queue, and all others' by none, with the tokens that stand for them.
    path = f"{EDGE}/jobs/fetch/bank-9"
    jobs = [granted("POST", path, fetch('["queue.credit"]'))[1]]
    while (job := granted("POST", path, fetch("null"))[1]) is not None:
        jobs.append(job)
    assert jobs[0]["task_id"].startswith("credit_")
    opening = [job for job in jobs if job["task_id"] == "credit_open.open_run"]
    assert {job["dag_id"] for job in opening} == set(runs)
    assert all(job["command"]["token"] for job in opening)
    # Another's summary, with a token for a task of one's own.
    run = runs[TRAIN]
    own = {"sub": _instances(sites, run, "bank")[0], "scope": "execution"}
    key = (sites.keys / "coordinator" / "token.key").read_bytes()
    audience = "urn:airflow.apache.org:task"
    generator = JWTGenerator(private_key=key, valid_for=600, audience=audience)
    path = f"/execution/xcoms/{TRAIN}/{run}/shop_release.desensitize/digest_ids"
    token = f"Bearer {generator.generate(own)}"
    assert sites.call("bank", "POST", path, '"forged"', token)[0] == 403
    assert sites.behind("POST", path, '"forged"', token)[0] == 201
