"""Notifiers for ``OPBOOST_NOTIFIERS=notifiers:NOTIFIERS``, in a file on the worker's PYTHONPATH.

Any of Airflow's notifiers serves: Slack, Apprise, PagerDuty, an e-mail. Templates know the words
``event``, ``federation``, ``party``, ``stage``, ``run``, ``message``, ``dag_id``, ``task_id`` and
``run_id``, and nothing else of Airflow's context.
"""

import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import BaseNotifier


class JsonLines(BaseNotifier):
    """Writes a line of JSON for each event.

    Args:
        path: The file; it is made if absent.
    """

    template_fields = ("path",)

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def notify(self, context: Mapping[str, Any]) -> None:
        """Append the event's words."""
        words = {name: context[name] for name in ("event", "federation", "party", "stage")}
        line = json.dumps({**words, "run": context["run"], "message": context["message"]})
        with Path(self.path).open("a") as file:
            file.write(f"{line}\n")


class Webhook(BaseNotifier):
    """Posts each event as JSON; the header X-Signature-256 is the body's HMAC, as GitHub sends it.

    Args:
        url: Environment variable of this worker that holds the address.
        key: One that holds the key that the receiver knows, too.
    """

    def __init__(self, url: str, key: str) -> None:
        super().__init__()
        self.url, self.key = url, key

    def notify(self, context: Mapping[str, Any]) -> None:
        """Send the event's words; a failure is a warning in the task's log."""
        import httpx

        words = {name: str(context[name]) for name in ("event", "federation", "run", "message")}
        body = json.dumps(words).encode()
        signature = hmac.new(os.environ[self.key].encode(), body, "sha256").hexdigest()
        headers = {"Content-Type": "application/json", "X-Signature-256": f"sha256={signature}"}
        sent = httpx.post(os.environ[self.url], content=body, headers=headers, timeout=10)
        sent.raise_for_status()


#: The server is the connection smtp_default: AIRFLOW_CONN_SMTP_DEFAULT on this worker alone.
MAIL = SmtpNotifier(
    from_email="airflow@example.org",
    to="people@example.org",
    subject="{{ federation }}: {{ event }} at {{ party }}",
    html_content="<p>{{ message | e }}</p><p>{{ stage }} of run {{ run }} ({{ run_id | e }})</p>",
)

LINES = JsonLines(os.environ.get("NOTIFICATIONS_FILE", "notifications.jsonl"))

HOOKS = [Webhook("PROMOTIONS_URL", "PROMOTIONS_KEY")] if "PROMOTIONS_URL" in os.environ else []

NOTIFIERS = {
    "failure": [LINES, MAIL],
    "refused_budget": [LINES, MAIL],
    "champion_changed": [LINES, *HOOKS],
    "model_kept": [LINES],
    "drift": [LINES, MAIL],
    "approval_waiting": [LINES, MAIL],
    "budget_low": [LINES, MAIL],
    "key_expires": [LINES, MAIL],
}
