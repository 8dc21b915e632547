"""What people meet in Airflow's UI: the button that tests a store, and what they may not see."""

from typing import Any

import pytest

from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.standalone import Standalone
from tests.browser import log_in, shot
from tests.e2e.conftest import READER
from tests.unit.exchange.conftest import s3 as s3
from tests.unit.exchange.conftest import s3_server as s3_server

pytestmark = pytest.mark.slow

SECRET = "secret-of-a-connection"
NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize("well", [True, False])
def test_the_button_tests_a_store_and_tells_no_secret(
    page: Any, airflow: Standalone, client: Client, s3: str, s3_server: str, well: bool
) -> None:
    bucket, _, prefix = s3.removeprefix("s3://").partition("/")
    endpoint = s3_server if well else NOWHERE
    fields = {"host": bucket, "schema": prefix, "login": "key", "password": SECRET, "port": 443}
    extra = f'{{"endpoint": "{endpoint}", "region": "us-east-1"}}'
    name = "store_that_is_there" if well else "store_that_is_not"
    body = {"connection_id": name, "conn_type": "opboost_store", "extra": extra, **fields}
    client.http.post("/api/v2/connections", json=body).raise_for_status()
    page.goto(f"{airflow.url}/connections")
    row = page.get_by_role("row").filter(has=page.get_by_text(name, exact=True))
    said = "can be read and listed" if well else "S3 cannot be reached"
    with page.expect_response(lambda answer: "/connections/test" in answer.url) as heard:
        row.get_by_role("button", name="Test Connection").click()
    page.get_by_text(said).first.wait_for()
    # Airflow's own list shows the bucket as the host; what ours adds names neither it nor the rest.
    told = heard.value.json()
    assert told["status"] is well and said in told["message"]
    assert not [secret for secret in (SECRET, endpoint, bucket) if secret in told["message"]]
    assert SECRET not in shot(page, f"connection-{name}")
    log = (airflow.home / "output" / "api-server.log").read_text(errors="replace")
    assert SECRET not in log


def test_who_may_not_read_plugins_meets_no_page_and_no_entry(
    page: Any, airflow: Standalone, client: Client
) -> None:
    with page.context.browser.new_context() as context:
        page = context.new_page()
        log_in(page, airflow, READER)
        page.get_by_role("link", name="Dags").first.wait_for()
        assert page.get_by_role("link", name="OpBoost", exact=True).count() == 0
        page.goto(f"{airflow.url}/dags/credit_scoring_train")
        page.get_by_text("credit_scoring_train").first.wait_for()
        assert page.get_by_text("OpBoost", exact=True).count() == 0
        for path in ("", "status", "ledger", "status.json", "models", "icon.svg"):
            answer = page.request.get(f"{airflow.url}/opboost/{path}")
            assert answer.status == 403, path
            assert "credit" not in answer.text(), path
        page.goto(f"{airflow.url}/opboost/status")
        assert page.inner_text("body").strip() == "You may not see this."
