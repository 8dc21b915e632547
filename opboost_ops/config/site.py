"""``site.yaml``: where one party keeps its things. It never leaves the party."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PositiveFloat

from opboost_ops.config.key_sources import in_a_file, text_of
from opboost_ops.config.schema import Name, Record
from opboost_ops.config.source import Place, Sink, Source, resolved, source_or_path
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms import noise

Table = Annotated[Path | Source, BeforeValidator(source_or_path)]


#: How rows of one person become one: ``n`` counts them; the others take a column's values, of the
#: entry's own name where none is in brackets.
Aggregate = Annotated[str, Field(pattern=r"^(n|(sum|mean|min|max)(\(.+\))?)$")]


class Tables(Record):
    """A party's tables for one federation.

    Attributes:
        train: The training table: a Parquet file or a folder of them, used in place; or a source
            that each run reads once.
        score: New rows to score, likewise, for parties that take part in scoring.
        scores_to: Where the label holder's scores go besides its folder of scores.
        models_to: The MLflow server, or its folder, where each of the label holder's champions is
            recorded; a password or token belongs in MLflow's own environment variables.
        aggregate: If a person has several rows: how each column becomes one value, by raw name, in
            both tables.
    """

    train: Table
    score: Table | None = None
    scores_to: Sink | None = None
    models_to: Place | None = None
    aggregate: Mapping[str, Aggregate] = Field(default_factory=dict)


class Site(Record):
    """The whole of ``site.yaml``; relative paths start at the file's own folder.

    Attributes:
        home: Private working folder: intermediate tables and quality reports.
        store: URL or folder of the exchange, the only channel between parties; ``env:NAME`` for an
            environment variable that holds it, or ``airflow:NAME`` for a connection of type
            ``opboost_store`` in the secrets backend of this worker's Airflow.
        ledger: Database URL of the party's ledger, or ``env:NAME`` of it, for a URL with a
            password.
        pins: Folder of the pin files; they never leave.
        keep_runs_days: Days after which a run is removed from store and home; default: never.
        dask: Address of the scheduler of the label holder's own Dask cluster (an extra), on which
            it trains LightGBM, or ``env:NAME`` for an environment variable that holds it. Default:
            training in one process.
        models: Where the label holder keeps its models.
        scores: Where the label holder keeps the scores of new rows.
        secret: File of the 32 secret bytes from which keys of pins, rows and files follow. Or
            ``env:NAME`` for an environment variable, or ``airflow:NAME`` for a variable in the
            secrets backend of this worker's Airflow, that holds them in base64.
        signing_key: File of the Ed25519 private key, or ``env:NAME`` or ``airflow:NAME`` likewise.
        encryption_key: File of the X25519 private key, for a party that declares one, likewise.
        alignment_key: File of a key of the label holder's own, from which common order and
            held-out rows follow. Without the file they follow from its secret.
        serve_token: File of the token that `opboost serve` asks for, or ``env:NAME`` or
            ``airflow:NAME`` likewise; needed there alone.
        alignment_processes: How many processes multiply points; all processors when absent.
        block_rows: How many rows a stage holds in memory at once where it sorts people or looks
            them up; more wait on the disk of ``home`` meanwhile.
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
        """The URL of the ledger's database.

        Raises:
            ConfigError: The environment variable that should hold it is not set.
        """
        return resolved("ledger", self.ledger)

    def dask_address(self) -> str:
        """The address of the Dask cluster; empty for none.

        Raises:
            ConfigError: The environment variable that should hold it is not set.
        """
        return resolved("dask", self.dask)

    @property
    def month_keys(self) -> Path:
        """Where keys of months lie: beside the secret, or beside the home where that is no file."""
        keys = self.secret.parent if in_a_file(self.secret) else self.home.parent / "keys"
        return keys / "psi"

    def noise_secret(self) -> bytes:
        """The party's noise secret, 32 bytes.

        Raises:
            ConfigError: It is missing, of another size, or readable by others.
        """
        if in_a_file(self.secret):
            return noise.read_secret(self.secret)
        text = text_of(self.secret, "noise secret")
        return noise.secret_from_text(text, str(self.secret))

    def serving_token(self) -> str:
        """The token that programs show to `opboost serve`.

        Raises:
            ConfigError: It is missing, too short, or readable by others.
        """
        if not in_a_file(self.serve_token):
            return _long_enough(text_of(self.serve_token, "serving token"))
        try:
            if self.serve_token.stat().st_mode & 0o077:
                raise ConfigError(
                    f"The serving token {self.serve_token.name} can be read by others.",
                    "Make it readable by its owner alone (chmod 600).",
                )
            return _long_enough(self.serve_token.read_text().strip())
        except (OSError, UnicodeDecodeError):
            pass
        raise ConfigError(f"The serving token {self.serve_token.name} cannot be read.", _MAKE_ONE)


#: Fewer characters could be guessed.
_TOKEN = 32

_MAKE_ONE = (
    "Make one: `(umask 077; openssl rand -hex 32 > keys/serve.token)` beside site.yaml, or name "
    "another place by `serve_token` there."
)


def _long_enough(token: str) -> str:
    if len(token) < _TOKEN or not token.isascii():
        raise ConfigError(
            f"The serving token is shorter than {_TOKEN} characters, or not plain ASCII.",
            _MAKE_ONE,
        )
    return token
