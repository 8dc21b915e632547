"""Stores of objects: what only they must withstand, against a real server that speaks S3."""

import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterable
from wsgiref.simple_server import WSGIRequestHandler, make_server

import boto3
import pytest

from opboost_ops.errors import ArtifactError, ConfigError
from opboost_ops.exchange.store.objects import Bucket, ObjectStore
from opboost_ops.exchange.store.store import open_store
from opboost_ops.pipeline.party.trust import accept_store, pin_store
from opboost_ops.tables.s3 import ListedObject, S3Bucket
from tests.federation import Workspace
from tests.party_state import state_of

FILES = {"manifest.json": b"{}", "manifest.sig": b"s", "table.parquet": b"t"}
OTHER = {**FILES, "table.parquet": b"u"}
PLACE = "toy/run/ranks/bank"
SECRETS = ("key-of-a-test", "secret-of-a-test", "127.0.0.1", "bucket-", "prefix")


class Around:
    """A bucket around a bucket; subclasses are slow or fail."""

    def __init__(self, inner: Bucket) -> None:
        self.inner = inner

    def get(self, key: str, most: int = 2**31) -> bytes | None:
        return self.inner.get(key, most)

    def put(self, key: str, content: bytes) -> None:
        self.inner.put(key, content)

    def put_new(self, key: str, content: bytes) -> bool:
        return self.inner.put_new(key, content)

    def list(self, prefix: str) -> Iterable[ListedObject]:
        return self.inner.list(prefix)

    def folders(self, prefix: str) -> Iterable[str]:
        return self.inner.folders(prefix)

    def delete(self, key: str) -> None:
        self.inner.delete(key)


@pytest.fixture
def bucket(s3: str) -> S3Bucket:
    return S3Bucket(s3.split("/")[2], "some/prefix")


def keys(bucket: Bucket) -> list[str]:
    return sorted(item.key for item in bucket.list(""))


def told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) if error else ""


def test_objects_lie_below_the_prefix(s3: str, bucket: S3Bucket) -> None:
    open_store(s3).put_once(PLACE, FILES)
    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    found = [o["Key"] for o in client.list_objects_v2(Bucket=s3.split("/")[2])["Contents"]]
    assert len(found) == 4
    assert all(key.startswith(f"some/prefix/{PLACE}/") for key in found)
    assert f"some/prefix/{PLACE}/published.json" in found
    at_root = open_store("/".join(s3.split("/")[:3]))
    assert at_root.list("some") == [f"some/prefix/{PLACE}"]
    assert at_root.get(f"some/prefix/{PLACE}") == FILES


def test_throwaway_is_an_object_below_the_prefix(s3: str, bucket: S3Bucket) -> None:
    assert open_store(s3).throwaway is False
    bucket.put(".throwaway", b"")
    assert open_store(s3).throwaway is True
    assert open_store("/".join(s3.split("/")[:3])).throwaway is False


def test_reading_needs_no_listing(s3: str, bucket: S3Bucket) -> None:
    class Lags(Around):
        def list(self, prefix: str) -> Iterable[ListedObject]:
            return []

    store = ObjectStore(Lags(bucket))
    assert store.put_once(PLACE, FILES) is True
    assert store.put_once(PLACE, FILES) is False
    assert store.get(PLACE) == store.wait(PLACE, 0) == FILES
    with pytest.raises(ArtifactError, match="already published"):
        store.put_once(PLACE, OTHER)
    assert (store.list(""), open_store(s3).list("")) == ([], [PLACE])


@pytest.mark.parametrize("name", FILES)
def test_an_artifact_is_there_only_if_all_its_files_are(bucket: S3Bucket, name: str) -> None:
    """A service in which an object becomes visible later than one that was written after it."""

    class Late(Around):
        looks = 0

        def get(self, key: str, most: int = 2**31) -> bytes | None:
            if key.endswith(name):
                self.looks += 1
            return None if key.endswith(name) and self.looks < 4 else super().get(key, most)

    store = ObjectStore(Late(bucket))
    store.put_once(PLACE, FILES)
    assert store.get(PLACE) is None
    assert store.wait(PLACE, 10) == FILES


def test_a_changed_object_is_refused(bucket: S3Bucket) -> None:
    store = ObjectStore(bucket)
    store.put_once(PLACE, FILES)
    (key,) = (key for key in keys(bucket) if key.endswith("table.parquet"))
    bucket.put(key, b"other")
    with pytest.raises(ArtifactError, match=r"table\.parquet was changed"):
        store.get(PLACE)
    bucket.put(f"{PLACE}/published.json", b'{"version": 1, "attempt": "../../x", "files": {}}')
    for read in (store.get, lambda place: store.put_once(place, FILES)):
        with pytest.raises(ArtifactError, match="damaged"):
            read(PLACE)
    assert ObjectStore(bucket, longest_write=0).collect(0) == []


def test_a_lost_answer_to_the_commit_is_no_loss(bucket: S3Bucket) -> None:
    """The service wrote the object, the answer was lost, and the client asked again."""

    class Repeats(Around):
        def put_new(self, key: str, content: bytes) -> bool:
            super().put_new(key, content)
            return super().put_new(key, content)

    assert ObjectStore(Repeats(bucket)).put_once(PLACE, FILES) is True
    assert ObjectStore(bucket).get(PLACE) == FILES


class Ignores(Around):
    """A service that ignores If-None-Match."""

    def put_new(self, key: str, content: bytes) -> bool:
        self.inner.put(key, content)
        return True


class Replaces(Around):
    """A service that says no to the second writer, and keeps what it wrote."""

    def put_new(self, key: str, content: bytes) -> bool:
        new = super().put_new(key, content)
        self.inner.put(key, content)
        return new


@pytest.mark.parametrize("service", [Ignores, Replaces])
def test_a_service_that_forgets_the_first_writer_is_refused(
    bucket: S3Bucket, service: type[Around], workspace: Workspace
) -> None:
    store = ObjectStore(service(bucket))
    with pytest.raises(ConfigError, match="second writer of one place"):
        pin_store(workspace.site("bank"), store, "another", "a" * 64, workspace.run)
    assert keys(bucket) == []
    with state_of(workspace, "bank") as state:
        assert "another" not in state.stores.pins()
        # Nor does a person's decision accept it, in place of a pinned one.
        with pytest.raises(ConfigError, match="second writer of one place"):
            accept_store(state, store, "bank", "credit_scoring")


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("written", [False, True])
def test_a_writer_without_network_is_told_so_and_its_retry_completes(
    bucket: S3Bucket, at: int, written: bool
) -> None:
    class Fails(Around):
        calls = 0

        def fault(self) -> None:
            self.calls += 1
            if self.calls == at + 1:
                raise ConnectionError("no network")

        def put(self, key: str, content: bytes) -> None:
            if written:
                super().put(key, content)
            self.fault()
            super().put(key, content)

        def put_new(self, key: str, content: bytes) -> bool:
            new = super().put_new(key, content) if written else True
            self.fault()
            return new if written else super().put_new(key, content)

    with pytest.raises(ConnectionError):
        ObjectStore(Fails(bucket)).put_once(PLACE, FILES)
    published = written and at == 3
    assert ObjectStore(bucket).get(PLACE) == (FILES if published else None)
    assert ObjectStore(bucket).put_once(PLACE, FILES) is not published
    assert ObjectStore(bucket).get(PLACE) == FILES


def test_a_writer_that_was_too_slow_publishes_nothing(bucket: S3Bucket) -> None:
    with pytest.raises(ConnectionError, match="too long"):
        ObjectStore(bucket, longest_write=0).put_once(PLACE, FILES)
    assert ObjectStore(bucket).get(PLACE) is None
    assert len(keys(bucket)) == 3
    assert ObjectStore(bucket).collect(0) == []
    assert len(ObjectStore(bucket, longest_write=0).collect(0)) == 1
    assert keys(bucket) == []


def test_a_removal_that_was_cut_off_leaves_nothing_to_see(bucket: S3Bucket) -> None:
    class Cut(Around):
        calls = 0

        def delete(self, key: str) -> None:
            self.calls += 1
            if self.calls == 4:
                raise ConnectionError("no network")
            super().delete(key)

    for party in ("x", "y"):
        ObjectStore(bucket).put_once(f"toy/run/ranks/{party}", FILES)
    with pytest.raises(ConnectionError):
        ObjectStore(Cut(bucket)).remove_run("toy", "run")
    store = ObjectStore(bucket, longest_write=0)
    assert store.list("") == []
    assert keys(bucket) != []
    assert len(store.collect(0)) == 2
    assert keys(bucket) == []


def test_long_listings_are_read_to_the_end(
    bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    for number in range(31):
        bucket.put(f"many/{number}", b"")
    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    assert client.list_objects_v2(Bucket=bucket._bucket)["IsTruncated"] is True
    assert len(keys(bucket)) == 31


def test_no_server_is_a_fault_of_the_network(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:hunter2@127.0.0.1:9")
    store = open_store(s3)
    for call in (lambda: store.get(PLACE), lambda: store.put_once(PLACE, FILES),
                 lambda: store.list(""), lambda: store.wait(PLACE, 0),
                 lambda: store.throwaway):  # fmt: skip
        with pytest.raises(ConnectionError) as caught:
            call()
        assert not any(secret in str(caught.value) for secret in (*SECRETS, "hunter2"))
        assert "hunter2" not in told(caught.value)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (403, "AccessDenied", ConfigError),
        (403, "SignatureDoesNotMatch", ConfigError),
        (400, "ExpiredToken", ConfigError),
        (400, "RequestTimeout", ConnectionError),
        (500, "InternalError", ConnectionError),
        (503, "SlowDown", ConnectionError),
        (501, "NotImplemented", ConfigError),
        (418, "hunter2: a server's own words", ArtifactError),
    ],
)
def test_what_a_server_answers(
    s3: str, status: int, code: str, expected: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that answers everything in one way."""
    body = f"<Error><Code>{code}</Code><Message>hunter2</Message></Error>".encode()

    def answer(environ, start):  # type: ignore[no-untyped-def]
        start(f"{status} x", [("Content-Length", str(len(body)))])
        return [body]

    class Quiet(WSGIRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    server = make_server("127.0.0.1", 0, answer, handler_class=Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        store = open_store(s3)
        with pytest.raises(expected) as caught:
            store.get(PLACE)
        assert not any(secret in told(caught.value) for secret in ("hunter2", *SECRETS[:2]))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_no_login_is_a_fault_of_the_settings(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(ConfigError, match="no login"):
        open_store(s3).get(PLACE)


def test_without_the_extra_the_error_names_it() -> None:
    code = (
        "import sys; sys.modules['boto3'] = None\n"
        "from opboost_ops.exchange.store.store import open_store\n"
        "from opboost_ops.errors import ConfigError\n"
        "open_store('/folder')\n"
        "try: open_store('s3://bucket/x')\n"
        "except ConfigError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "opboost-ops[s3]" in done.stdout


def test_published_json_says_what_docs_say(bucket: S3Bucket) -> None:
    ObjectStore(bucket).put_once(PLACE, FILES)
    published = json.loads(bucket.get(f"{PLACE}/published.json") or b"")
    assert set(published) == {"version", "attempt", "files"}
    assert set(published["files"]) == set(FILES)
    assert f"{PLACE}/.{published['attempt']}/manifest.json" in keys(bucket)
