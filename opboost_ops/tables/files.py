"""Provides the files of a source, local or in S3, as Parquet."""

import fnmatch
import glob
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from opboost_ops.config.source import S3, Source, is_text
from opboost_ops.errors import ArtifactError, ConfigError, ContractError
from opboost_ops.tables.columns import Expected
from opboost_ops.tables.parquet import files_of
from opboost_ops.tables.text import text_table

#: Raises if there is no room for a number of bytes.
Room = Callable[[int], None]

#: Assumed compression ratio of gzipped files.
_GZIP_RATIO = 6

_LOGIN = "Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and their access rights."
_SETTINGS = "Check the AWS_ variables of this process: endpoint, region, profile."
_TRY_AGAIN = {408, 409, 429, 500, 502, 503, 504}


def local_files(pattern: str) -> list[Path]:
    """Return the files that a path or a pattern names, sorted by name.

    An existing path is never a pattern, whatever its characters; a folder stands for its Parquet
    files.
    """
    exact = Path(pattern)
    if exact.exists():
        return list(files_of(exact))
    folder, *rest = [exact.anchor or ".", *exact.parts[1 if exact.anchor else 0 :]]
    while rest and (Path(folder) / rest[0]).is_dir():
        folder = str(Path(folder) / rest.pop(0))
    names = sorted(glob.glob("/".join(rest), root_dir=folder)) if rest else []
    files = [Path(folder) / name for name in names]
    return [path for path in files if path.is_file() and not path.name.startswith(".")]


def local_parts(
    pattern: str,
    source: Source,
    party: str,
    folder: Path,
    columns: Mapping[str, Expected],
    room: Room,
) -> tuple[list[Path], dict[str, str]]:
    """Return the files that a path or a pattern names as Parquet, and reasons for omitted columns.

    Args:
        pattern: Path or pattern.
        source: The files' format.
        party: Name of the party.
        folder: Folder for Parquet files that are converted from others.
        columns: Declared columns by raw name.
        room: Called with a size before anything is written.

    Raises:
        ContractError: There is no such file, or one cannot be read.
    """
    files = local_files(pattern)
    if not files:
        raise ContractError(
            f"The table of {party} is missing: no file matches the path or pattern in site.yaml.",
            "Check tables there, and the job that writes the files.",
        )
    room(sum(_size(path.name, path.stat().st_size) for path in files))
    return _parquet(files, source, party, folder, columns)


def s3_parts(
    url: str,
    source: Source,
    party: str,
    folder: Path,
    columns: Mapping[str, Expected],
    room: Room,
) -> tuple[list[Path], dict[str, str]]:
    """Do the same for S3: ``s3://bucket/path/file.parquet``, or a pattern.

    Raises:
        OpBoostError: There is no such object, or S3 refuses.
        ConnectionError: S3 cannot be reached.
    """
    bucket, _, pattern = url.removeprefix(S3).partition("/")
    if not bucket or not pattern:
        raise ContractError(
            f"The URL of {party}'s table does not have the form s3://bucket/path.",
            "Correct tables in site.yaml.",
        )
    store = S3Bucket(bucket, "")
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    names = [item.key for item in store.list(fixed)]
    keys = [pattern] if pattern in names else sorted(n for n in names if _matches(n, pattern))
    if not keys:
        raise ContractError(
            f"The table of {party} is missing: its bucket has no object of that name.",
            "Check tables in site.yaml, and the job that writes the objects.",
        )
    room(sum(_size(key, store.size(key)) for key in keys))
    loaded = []
    for number, key in enumerate(keys):
        loaded.append(folder / f"{number}-{key.rsplit('/', 1)[-1]}")
        store.download(key, loaded[-1])
    return _parquet(loaded, source, party, folder, columns)


def _matches(key: str, pattern: str) -> bool:
    """True if a pattern matches an object as it would match a file: ``*`` stops at a slash."""
    parts, wanted = key.split("/"), pattern.split("/")
    same = len(parts) == len(wanted) and not parts[-1].startswith(".")
    return same and all(map(fnmatch.fnmatchcase, parts, wanted))


def _size(name: str, size: int) -> int:
    return size * (_GZIP_RATIO if name.lower().endswith(".gz") else 1)


def _parquet(
    files: Sequence[Path],
    source: Source,
    party: str,
    folder: Path,
    columns: Mapping[str, Expected],
) -> tuple[list[Path], dict[str, str]]:
    texts = [path for path in files if is_text(path.name)]
    parts = [path for path in files if not is_text(path.name)]
    if not texts:
        return parts, {}
    target = folder / "text.parquet"
    notes = text_table(texts, source, party, target, columns)
    return [*parts, target], notes


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
                "store: S3 needs the extra s3.", "Install opboost-ops[s3] on this machine."
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
        failure = ConnectionError(f"The S3 store cannot be reached ({type(error).__name__}).")
    except (boto.NoCredentialsError, boto.CredentialRetrievalError) as error:
        failure = ConfigError(f"There is no login for S3 ({type(error).__name__}).", _LOGIN)
    except (boto.BotoCoreError, ValueError) as error:
        failure = ConfigError(f"S3 is misconfigured ({type(error).__name__}).", _SETTINGS)
    except OSError as error:
        failure = ConnectionError(f"The S3 store cannot be reached ({type(error).__name__}).")
    # Not chained: the foreign exception's text contains URLs.
    raise failure from None


def _refusal(error: Any) -> Exception:
    status = _status(error)
    code = str(error.response.get("Error", {}).get("Code", ""))
    # The code is chosen by the server: show it only if it looks like one.
    shown = code if re.fullmatch(r"[A-Za-z]{1,40}", code) else str(status)
    if status in _TRY_AGAIN or code in ("RequestTimeout", "SlowDown", "Throttling"):
        return ConnectionError(f"The S3 store is temporarily unavailable ({shown}).")
    if code == "NoSuchBucket":
        return ConfigError(
            "The S3 store's bucket does not exist.", "Correct `store`, or create the bucket."
        )
    if status in (400, 401, 403):
        return ConfigError(f"The S3 store refused this party's login ({shown}).", _LOGIN)
    if status in (405, 501):
        return ConfigError(
            f"The S3 store has no conditional writes ({shown}).",
            "Use a service that supports If-None-Match.",
        )
    return ArtifactError(f"The S3 store answered {shown}.", "Check the service's own log.")


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
