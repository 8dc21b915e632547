"""A bucket of S3, for the exchange store, source tables and scores."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from opboost_ops.errors import ArtifactError, ConfigError

_LOGIN = "Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and their access rights."
_SETTINGS = "Check the AWS_ variables of this process: endpoint, region, profile."
_TRY_AGAIN = {408, 409, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Login:
    """Access to a bucket; empty values are taken from the environment.

    Attributes:
        key: Id of the access key.
        secret: The access key.
        token: Session token.
        endpoint: URL of a service other than Amazon's.
        region: Region of the bucket.
    """

    key: str = ""
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    endpoint: str = ""
    region: str = ""


@dataclass(frozen=True)
class ListedObject:
    """An object in a listing.

    Attributes:
        key: Its name below the store's prefix.
        modified: When it was last written, in seconds since 1970.
    """

    key: str
    modified: float


class S3Bucket:
    """The objects below a prefix of a bucket.

    Credentials, region and endpoint come from the usual AWS sources, first from the environment.

    Args:
        bucket: Name of the bucket.
        prefix: Prefix of all names, without leading and trailing slashes.
        login: Overrides the environment.

    Raises:
        ConfigError: The extra ``s3`` is not installed, or the environment's settings are invalid.
    """

    def __init__(self, bucket: str, prefix: str, login: Login | None = None) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        try:
            import boto3.session
            from botocore.config import Config
        except ImportError:
            raise ConfigError(
                "S3 needs the extra s3.", "Install opboost-ops[s3] on this machine."
            ) from None
        own = login or Login()
        endpoint = (
            own.endpoint
            or os.environ.get("AWS_ENDPOINT_URL_S3")
            or os.environ.get("AWS_ENDPOINT_URL")
        )
        region = own.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        with _faults():
            session = boto3.session.Session(
                own.key or None, own.secret or None, own.token or None, region or None
            )
            self._client: Any = session.client(
                "s3",
                endpoint_url=endpoint or None,
                region_name=region or None,
                config=Config(
                    connect_timeout=5,
                    read_timeout=60,
                    retries={"mode": "standard", "max_attempts": 3},
                    # Other services rarely have a host name per bucket.
                    s3={"addressing_style": "path" if endpoint else "auto"},
                ),
            )

    def get(self, key: str, most: int = 2**31) -> bytes | None:
        """See `Bucket.get`."""
        with _faults():
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
            except self._client.exceptions.NoSuchKey:
                return None
            content: bytes = answer["Body"].read(most + 1)
            return content

    def size(self, key: str) -> int:
        """Return the size of an object in bytes."""
        with _faults():
            return int(
                self._client.head_object(Bucket=self._bucket, Key=self._prefix + key)[
                    "ContentLength"
                ]
            )

    def download(self, key: str, path: Path) -> None:
        """Write an object into a file, in blocks."""
        with _faults():
            answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
            with path.open("wb") as file:
                for block in answer["Body"].iter_chunks(1 << 20):
                    file.write(block)

    def put(self, key: str, content: bytes | IO[bytes]) -> None:
        """See `Bucket.put`; a file is read as it is sent."""
        with _faults():
            self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=content)

    def put_new(self, key: str, content: bytes) -> bool:
        """See `Bucket.put_new`."""
        for tries in range(5):
            time.sleep(0.1 * tries)
            with _faults():
                try:
                    self._client.put_object(
                        Bucket=self._bucket, Key=self._prefix + key, Body=content, IfNoneMatch="*"
                    )
                except self._client.exceptions.ClientError as error:
                    status = _status(error)
                    if status == 412:
                        return False
                    # Another writer is writing the same object: retry to learn who was first.
                    if status != 409 or tries == 4:
                        raise
                else:
                    return True
        raise AssertionError("the last try returns or raises")

    def folders(self, prefix: str) -> list[str]:
        """See `Bucket.folders`."""
        with _faults():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix, Delimiter="/"
            )
            return [
                item["Prefix"].removeprefix(self._prefix + prefix).rstrip("/")
                for page in pages
                for item in page.get("CommonPrefixes", ())
            ]

    def list(self, prefix: str) -> list[ListedObject]:
        """See `Bucket.list`."""
        with _faults():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            return [
                ListedObject(
                    item["Key"].removeprefix(self._prefix), item["LastModified"].timestamp()
                )
                for page in pages
                for item in page.get("Contents", ())
            ]

    def delete(self, key: str) -> None:
        """See `Bucket.delete`."""
        with _faults():
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)


@contextmanager
def _faults() -> Iterator[None]:
    from botocore import exceptions as boto

    failure: Exception
    try:
        yield
        return
    except boto.ClientError as error:
        failure = _refusal(error)
    except (boto.ConnectionError, boto.HTTPClientError, boto.IncompleteReadError) as error:
        failure = ConnectionError(f"S3 cannot be reached ({type(error).__name__}).")
    except (boto.NoCredentialsError, boto.CredentialRetrievalError) as error:
        failure = ConfigError(f"There is no login for S3 ({type(error).__name__}).", _LOGIN)
    except (boto.BotoCoreError, ValueError) as error:
        failure = ConfigError(f"S3 is misconfigured ({type(error).__name__}).", _SETTINGS)
    except OSError as error:
        failure = ConnectionError(f"S3 cannot be reached ({type(error).__name__}).")
    # Not chained: the foreign exception's text contains URLs.
    raise failure from None


def _refusal(error: Any) -> Exception:
    status = _status(error)
    code = str(error.response.get("Error", {}).get("Code", ""))
    # The code is chosen by the server: show it only if it looks like one.
    shown = code if re.fullmatch(r"[A-Za-z]{1,40}", code) else str(status)
    if status in _TRY_AGAIN or code in ("RequestTimeout", "SlowDown", "Throttling"):
        return ConnectionError(f"S3 is temporarily unavailable ({shown}).")
    if code == "NoSuchBucket":
        return ConfigError(
            "The bucket does not exist in S3.", "Correct its URL, or create the bucket."
        )
    if status in (400, 401, 403):
        return ConfigError(f"S3 refused this party's login ({shown}).", _LOGIN)
    if status in (405, 501):
        return ConfigError(
            f"This S3 service has no conditional writes ({shown}).",
            "Use a service that supports If-None-Match.",
        )
    return ArtifactError(f"S3 answered {shown}.", "Check the service's own log.")


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
