"""A real server that speaks S3, and the stores that all keep the same promises."""

import contextlib
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from opboost_ops.exchange.store.store import Store, open_store

#: Opens the same store once more, as another party's process does.
Opener = Callable[[], Store]


class _Quiet(WSGIRequestHandler):
    def log(self, *args: object) -> None:
        pass


@contextlib.contextmanager
def serving(host: str) -> Iterator[str]:
    """Its URL. One request at a time: a write on a condition is one step, as it is in S3."""
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server(host, 0, application, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    with serving("127.0.0.1") as url:
        yield url


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of a store in a bucket of its own; the environment says where the server is."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-a-test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-a-test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    bucket = f"bucket-{uuid.uuid4().hex}"
    boto3.client("s3", endpoint_url=s3_server, region_name="us-east-1").create_bucket(Bucket=bucket)
    return f"s3://{bucket}/some/prefix"


@pytest.fixture(params=["folder", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty store."""
    if request.param == "s3":
        return str(request.getfixturevalue("s3"))
    return f"file://{tmp_path}/store"


@pytest.fixture
def store(url: str) -> Store:
    return open_store(url)
