"""Keys in a worker's environment and in its Airflow's secrets backend, as in files."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from opboost_ops.config.key_sources import use_backend
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.encryption import PrivateKey
from opboost_ops.exchange.signing import Signer
from opboost_ops.orchestration.settings import use_airflow_secrets
from tests.federation import Workspace


@pytest.fixture(autouse=True)
def _airflow() -> Iterator[None]:
    use_airflow_secrets()
    yield
    use_backend(lambda: None)


KEYS = {
    "secret": "noise.secret",
    "signing_key": "signing.key",
    "encryption_key": "encryption.key",
}


def text_in(path: Path) -> str:
    """As people put it into a variable."""
    raw = path.read_bytes()
    return base64.b64encode(raw).decode() if path.name == "noise.secret" else raw.decode().strip()


def moved(workspace: Workspace, patch: pytest.MonkeyPatch, kind: str) -> dict[str, str]:
    """Take the bank's keys out of its folder, into variables."""
    texts = {}
    for entry, file in KEYS.items():
        path = workspace.folder / "bank" / "keys" / file
        texts[entry] = text_in(path)
        path.unlink()
        name = f"BANK_{entry.upper()}"
        patch.setenv(f"AIRFLOW_VAR_{name}" if kind == "airflow" else name, texts[entry])
    path = workspace.folder / "bank" / "site.yaml"
    site = yaml.safe_load(path.read_text())
    site |= {entry: f"{kind}:BANK_{entry.upper()}" for entry in KEYS}
    path.write_text(yaml.safe_dump(site))
    return texts


@pytest.mark.parametrize("kind", ["env", "airflow"])
def test_keys_are_those_of_the_files(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def keys() -> tuple[object, ...]:
        site = workspace.site("bank")
        return (
            site.read_secret(),
            Signer.from_file(site.signing_key).public,
            PrivateKey.from_file(site.encryption_key).public,
        )

    expected = keys()
    moved(workspace, monkeypatch, kind)
    assert keys() == expected
    assert workspace.site("bank").read_secret() == expected[0]


def test_a_stage_publishes_with_keys_of_airflow(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved(workspace, monkeypatch, "airflow")
    workspace.open()
    workspace.step("bank", "check_table")
    workspace.step("bank", "digest_ids")
    assert "shares/bank" in workspace.published()


def test_they_are_masked_in_what_airflow_logs(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.log import redact

    texts = moved(workspace, monkeypatch, "airflow")
    line = f"a library printed {texts['secret']} and {texts['signing_key']}"
    site = workspace.site("bank")
    site.read_secret()
    Signer.from_file(site.signing_key)
    told = str(redact(line))
    assert "***" in told
    assert not [text for text in texts.values() if text in told]


def test_what_parties_share_is_not_asked_for(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.execution_time.secrets import ExecutionAPISecretsBackend
    from airflow.secrets.environment_variables import EnvironmentVariablesBackend

    from opboost_ops.orchestration.deployment import connections

    def asked(*_: Any, **__: Any) -> None:
        raise AssertionError("the shared Airflow was asked for a key")

    texts = moved(workspace, monkeypatch, "airflow")
    monkeypatch.setattr(ExecutionAPISecretsBackend, "get_variable", asked)
    backends = [ExecutionAPISecretsBackend(), EnvironmentVariablesBackend()]
    monkeypatch.setattr(connections, "ensure_secrets_backend_loaded", lambda: backends)
    assert connections.variable("BANK_SECRET") == texts["secret"]
    assert connections.variable("BANK_OTHER") is None


@pytest.mark.parametrize("kind", ["env", "airflow"])
def test_one_that_is_not_there_says_what_to_set(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    texts = moved(workspace, monkeypatch, kind)
    prefix = "AIRFLOW_VAR_" if kind == "airflow" else ""
    site = workspace.site("bank")
    for entry, what in {"SECRET": "noise secret", "SIGNING_KEY": "signing key"}.items():
        monkeypatch.delenv(f"{prefix}BANK_{entry}")
        with pytest.raises(ConfigError, match=f"The {what} cannot be read: .*BANK_{entry}") as told:
            site.read_secret() if entry == "SECRET" else Signer.from_file(site.signing_key)
        monkeypatch.setenv(f"{prefix}BANK_{entry}", "bm90IDMyIGJ5dGVz")
        with pytest.raises(ConfigError) as other:
            site.read_secret() if entry == "SECRET" else Signer.from_file(site.signing_key)
        assert not [t for t in texts.values() if t in f"{told.value} {other.value}"]


def test_without_airflow_there_is_one_clear_error(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved(workspace, monkeypatch, "airflow")
    use_backend(lambda: None)
    with pytest.raises(ConfigError, match="Airflow is not installed here"):
        workspace.site("bank").read_secret()
