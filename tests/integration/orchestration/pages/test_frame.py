"""From a page in Airflow's frame a link leads to Airflow's own pages, in Airflow's window."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from opboost_ops.reports.display.html import static
from tests.browser import chromium

pytestmark = pytest.mark.slow

#: As Airflow 3.3 shows a plugin's page: no right to lead the window elsewhere.
SANDBOX = "allow-scripts allow-same-origin allow-forms allow-downloads"
PAGES = {
    "/": f'<p>Airflow</p><iframe sandbox="{SANDBOX}" src="/opboost/run"></iframe>',
    "/opboost/run": '<script src="theme.js"></script><a href="/dags/x" data-airflow>task</a>',
    "/dags/x": "<h1>The task</h1>",
}


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.endswith("theme.js"):
            kind, content = "text/javascript", static("theme.js")
        else:
            kind, content = "text/html", PAGES.get(self.path, "").encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_a_link_to_airflow_opens_in_airflows_window(url: str) -> None:
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{url}/")
        page.frame_locator("iframe").get_by_text("task").click()
        page.wait_for_url(f"{url}/dags/x")
        assert page.inner_text("h1") == "The task"
