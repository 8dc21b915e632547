"""``site.yaml``: a party's local paths and addresses. It never leaves the party."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PositiveFloat

from opboost_ops.config.key_sources import is_file_entry, text_of
from opboost_ops.config.schema import Name, Record
from opboost_ops.config.source import Place, Sink, Source, resolved, source_or_path
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms import noise

Table = Annotated[Path | Source, BeforeValidator(source_or_path)]


#: Aggregation of several rows of a person: ``n`` counts rows; the others aggregate the column in
#: brackets, or by default the column with the entry's own name.
Aggregate = Annotated[str, Field(pattern=r"^(n|(sum|mean|min|max)(\(.+\))?)$")]


class Tables(Record):
    """A party's tables for one federation.

    Attributes:
        train: The training table: a Parquet file or a folder of them, used in place; or a source
            that each run reads once.
        score: New rows to score, as a table or source, for parties that take part in scoring.
        scores_to: Additional destination of the label holder's scores.
        models_to: MLflow server or folder in which each of the label holder's champions is
            recorded; a password or token belongs in MLflow's own environment variables.
        aggregate: If a person has several rows: the aggregation of each column, by raw name, in
            both tables.
    """

    train: Table
    score: Table | None = None
    scores_to: Sink | None = None
    models_to: Place | None = None
    aggregate: Mapping[str, Aggregate] = Field(default_factory=dict)


class Site(Record):
    """The content of ``site.yaml``; relative paths are resolved against its folder.

    Attributes:
        home: Private working folder: intermediate tables and quality reports.
        store: URL or folder of the exchange, the only channel between parties; ``env:NAME`` for an
            environment variable that holds it, or ``airflow:NAME`` for a connection of type
            ``opboost_store`` in the secrets backend of this worker's Airflow.
        ledger: Database URL of the party's ledger; ``env:NAME`` for an environment variable that
            holds it, for a URL with a password.
        pins: Folder of the pin files; they never leave the party.
        keep_runs_days: Days after which a run is removed from store and home; default: never.
        dask: Address of the scheduler of the label holder's own Dask cluster (an extra), on which
            it trains LightGBM, or ``env:NAME`` for an environment variable that holds it. Default:
            training in one process.
        models: The label holder's models folder.
        scores: Folder of the label holder's scores of new rows.
        secret: File of the 32 secret bytes from which the keys of pins, rows and files are derived.
            Or ``env:NAME`` for an environment variable, or ``airflow:NAME`` for a variable in the
            secrets backend of this worker's Airflow, that holds them in base64.
        signing_key: File of the Ed25519 private key, or ``env:NAME`` or ``airflow:NAME``.
        encryption_key: File of the X25519 private key, for a party that declares one, or
            ``env:NAME`` or ``airflow:NAME``.
        alignment_key: File of the label holder's key from which the common order of rows is
            derived. Without the file it is derived from the secret.
        serve_token: File of the token that `opboost serve` requires, or ``env:NAME`` or
            ``airflow:NAME``; only needed for serving.
        alignment_processes: Number of processes that multiply curve points; by default that of
            processors.
        block_rows: Number of rows that a stage holds in memory while it sorts people or looks them
            up; more rows are spilled to the disk of ``home``.
        tables: Its tables by federation.
    """

    version: Literal[1]
    party: Name
    home: Path = Path("home")
    store: str
    ledger: str = "sqlite:///ledger.sqlite"
    pins: Path = Path("pins")
    dask: str = ""
    keep_runs_days: PositiveFloat | None = None
    models: Path = Path("models")
    scores: Path = Path("scores")
    secret: Path = Path("keys/noise.secret")
    signing_key: Path = Path("keys/signing.key")
    encryption_key: Path = Path("keys/encryption.key")
    alignment_key: Path = Path("keys/alignment.key")
    serve_token: Path = Path("keys/serve.token")
    alignment_processes: int | None = Field(default=None, ge=1, le=256)
    block_rows: int = Field(default=1 << 20, ge=1)
    tables: Mapping[Name, Tables] = Field(default_factory=dict)

    def ledger_url(self) -> str:
        """Return the URL of the ledger's database.

        Raises:
            ConfigError: The environment variable that should hold it is not set.
        """
        return resolved("ledger", self.ledger)

    def dask_address(self) -> str:
        """Return the address of the Dask cluster; empty without one.

        Raises:
            ConfigError: The environment variable that should hold it is not set.
        """
        return resolved("dask", self.dask)

    @property
    def month_keys(self) -> Path:
        """Folder of monthly keys: next to the secret's file, or next to the home without one."""
        keys = self.secret.parent if is_file_entry(self.secret) else self.home.parent / "keys"
        return keys / "psi"

    def read_secret(self) -> bytes:
        """Return the party's secret, 32 bytes.

        Raises:
            ConfigError: The secret is missing, has another size, or is readable by others.
        """
        if is_file_entry(self.secret):
            return noise.read_secret(self.secret)
        text = text_of(self.secret, "noise secret")
        return noise.secret_from_text(text, str(self.secret))

    def serving_token(self) -> str:
        """Return the token that clients of `opboost serve` must present.

        Raises:
            ConfigError: The token is missing, too short, or readable by others.
        """
        if not is_file_entry(self.serve_token):
            return _long_enough(text_of(self.serve_token, "serving token"))
        try:
            if self.serve_token.stat().st_mode & 0o077:
                raise ConfigError(
                    f"The serving token {self.serve_token.name} is readable by others.",
                    "Make it readable by its owner only (chmod 600).",
                )
            return _long_enough(self.serve_token.read_text().strip())
        except (OSError, UnicodeDecodeError):
            pass
        raise ConfigError(f"The serving token {self.serve_token.name} cannot be read.", _MAKE_ONE)


#: Minimum length of a token, so that it cannot be guessed.
_MIN_TOKEN = 32

_MAKE_ONE = (
    "Create one: `(umask 077; openssl rand -hex 32 > keys/serve.token)` next to site.yaml, or name "
    "another file by `serve_token` there."
)


def _long_enough(token: str) -> str:
    if len(token) < _MIN_TOKEN or not token.isascii():
        raise ConfigError(
            f"The serving token is shorter than {_MIN_TOKEN} characters, or not plain ASCII.",
            _MAKE_ONE,
        )
    return token
