"""What an Edge worker of some provider's version sends, written down from the worker itself.

Run by the Python of an environment with that version of apache-airflow-providers-edge3; it needs
nothing of this project:

    python tests/sites/record_worker.py tests/sites/recorded
"""

import asyncio
import http.server
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

#: Before anything of Airflow is imported: another home, and a coordinator that only writes down.
HOME = tempfile.mkdtemp()
QUEUE, WORKER = "queue.bank", "bank"
RUN = ("credit_scoring_train", "bank_release.check_table", "manual__2026-01-05T03:00:00+00:00")


class Coordinator(http.server.BaseHTTPRequestHandler):
    """Answers as Airflow's Edge API does where there is no job."""

    calls: list[dict[str, Any]] = []  # noqa: RUF012

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        kept = ("Content-Type", "Content-Length", "Transfer-Encoding", "Accept")
        headers = {name: self.headers[name] for name in kept if self.headers[name] is not None}
        call = {"method": self.command, "path": self.path, "headers": headers, "body": body}
        if all(call["body"] != known["body"] or self.path != known["path"] for known in self.calls):
            self.calls.append(call)
        worker = {"state": "idle", "queues": [QUEUE], "versions_match": True}
        now = datetime.now(UTC).isoformat()
        answers = {"POST": {"last_update": now, "versions_match": True}, "PATCH": worker}
        own = "/v1/worker/" in self.path
        content = json.dumps(answers.get(self.command) if own else None).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = _answer

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def main(folder: Path) -> None:
    """Write ``<version of the provider>.json``."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Coordinator) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        os.environ |= {
            "AIRFLOW_HOME": HOME,
            "AIRFLOW__API_AUTH__JWT_SECRET": "0" * 64,
            "AIRFLOW__CORE__EXECUTOR": "airflow.providers.edge3.executors.EdgeExecutor",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__EDGE__API_URL": f"http://127.0.0.1:{server.server_port}"
            "/edge_worker/v1/rpcapi",
            "AIRFLOW__EDGE__JOB_POLL_INTERVAL": "1",
            "AIRFLOW__EDGE__PUSH_LOGS": "False",
            "NO_PROXY": "127.0.0.1",
        }
        command = [Path(sys.executable).parent / "airflow", "edge", "worker", "--queues", QUEUE]
        worker = subprocess.Popen([*command, "--edge-hostname", WORKER, "--concurrency", "2"])
        deadline = time.monotonic() + 90
        while not any("/jobs/fetch/" in call["path"] for call in Coordinator.calls):
            assert worker.poll() is None and time.monotonic() < deadline, "the worker does not ask"
            time.sleep(0.2)
        time.sleep(5)
        worker.send_signal(signal.SIGINT)
        worker.wait(60)
        _speak_of_a_job()
        server.shutdown()
    airflow, provider = version("apache-airflow"), version("apache-airflow-providers-edge3")
    made = {"airflow": airflow, "provider": provider, "calls": Coordinator.calls}
    (folder / f"{provider}.json").write_text(json.dumps(made, indent=1) + "\n")


def _speak_of_a_job() -> None:
    """By the provider's own functions, since there is no job for a worker here."""
    from uuid import UUID

    from airflow.models.taskinstancekey import TaskInstanceKey
    from airflow.providers.edge3.cli import api_client
    from airflow.utils.state import TaskInstanceState

    key = TaskInstanceKey(*RUN[:2], run_id=RUN[2], try_number=1, map_index=-1)
    of_job = {"task_instance_id": UUID(int=7)}
    pushed = (datetime(2026, 1, 5, tzinfo=UTC), "a line\n")
    for function, given in (
        (api_client.jobs_set_state, (key, TaskInstanceState.RUNNING)),
        (api_client.jobs_set_state, (key, TaskInstanceState.SUCCESS)),
        (api_client.logs_push, (key, *pushed)),
    ):
        named = of_job if "task_instance_id" in inspect.signature(function).parameters else {}
        result = function(*given, **named)
        if inspect.isawaitable(result):
            asyncio.run(result)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
