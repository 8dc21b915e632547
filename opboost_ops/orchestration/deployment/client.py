"""A client for the few calls of Airflow's REST API that the demo needs."""

from typing import Any

import httpx

from opboost_ops.orchestration.pages.airflow import FAILURE

#: Airflow's default maximum of instances per page of the API.
_PAGE = 100

_ERRORS = (httpx.TransportError, httpx.HTTPStatusError)


class Client:
    """A client of one Airflow.

    Args:
        url: Base URL of its API server.
    """

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=30, trust_env=False)

    def login(self, user: str, password: str) -> bool:
        """Log in; False if the server does not answer yet."""
        credentials = {"username": user, "password": password}
        try:
            reply = self.http.post("/auth/token", json=credentials)
            reply.raise_for_status()
        except _ERRORS:
            return False
        self.http.headers["Authorization"] = f"Bearer {reply.json()['access_token']}"
        return True

    def get(self, path: str, **query: Any) -> Any:
        """Return the JSON content of a path of the API."""
        reply = self.http.get(f"/api/v2/{path}", params=query)
        reply.raise_for_status()
        return reply.json()

    def healthy(self) -> bool:
        """True if the scheduler and the DAG processor are healthy."""
        try:
            health = self.get("monitor/health")
        except _ERRORS:
            return False
        parts = [health[name] for name in ("scheduler", "dag_processor")]
        return all(part and part["status"] == "healthy" for part in parts)

    def has_dag(self, dag: str) -> bool:
        """True if a DAG is known, current and ready to be triggered."""
        try:
            details = self.get(f"dags/{dag}")
        except _ERRORS:
            return False
        return not details["is_stale"]

    def trigger(self, dag: str, form: dict[str, Any] | None = None) -> str:
        """Start a run of a DAG.

        Args:
            dag: Its id.
            form: Values of the trigger form.

        Returns:
            Airflow's id of the run.
        """
        reply = self.http.post(
            f"/api/v2/dags/{dag}/dagRuns", json={"logical_date": None, "conf": form or {}}
        )
        reply.raise_for_status()
        return str(reply.json()["dag_run_id"])

    def run(self, dag: str, run: str) -> dict[str, Any]:
        """Return a run's details, such as its ``state``."""
        details: dict[str, Any] = self.get(f"dags/{dag}/dagRuns/{run}")
        return details

    def tasks(self, dag: str, run: str) -> list[dict[str, Any]]:
        """Return the task instances of a run."""
        instances: list[dict[str, Any]] = []
        while True:
            # Sorted, so that pages do not overlap.
            page = self.get(
                f"dags/{dag}/dagRuns/{run}/taskInstances",
                limit=_PAGE,
                offset=len(instances),
                order_by="id",
            )
            instances += page["task_instances"]
            if len(instances) >= page["total_entries"] or not page["task_instances"]:
                return instances

    def summary(self, dag: str, run: str, task: str, stage: str = "return_value") -> dict[str, Any]:
        """Return the summary that a task pushed to XCom.

        Args:
            dag: Id of the DAG.
            run: Airflow's id of the run.
            task: Id of the task.
            stage: A stage of the task other than its last; the last by default.
        """
        path = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/{stage}"
        return dict(self.get(path, deserialize=True)["value"])

    def error(self, dag: str, run: str, task: str, attempt: int) -> str:
        """Return the message of a failed task; empty if its log has none.

        Args:
            dag: Id of the DAG.
            run: Airflow's id of the run.
            task: Id of the task.
            attempt: Number of the try, from 1.
        """
        task_instance = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}"
        entries = self.get(f"{task_instance}/xcomEntries")["xcom_entries"]
        if any(entry["key"] == FAILURE for entry in entries):
            path = f"{task_instance}/xcomEntries/{FAILURE}"
            failure = self.get(path, deserialize=True)["value"]
            return f"{failure['problem']} {failure['remedy']}".strip()
        path = f"{task_instance}/logs/{attempt}"
        message = ""
        for line in self.get(path, full_content=True)["content"]:
            for part in (line.get("error_detail") or []) if isinstance(line, dict) else []:
                message = str(part["exc_value"])
        return message
