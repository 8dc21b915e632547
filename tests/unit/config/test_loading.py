"""Reading the three files: all faults at once, each with place and suggestion."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from opboost_ops.config.loading import (
    load_federation,
    load_policy,
    load_site,
    parse_federation,
    site_of,
)
from opboost_ops.errors import ConfigError
from tests.federation import Workspace


@pytest.fixture
def data(trained_once: Workspace) -> dict[str, Any]:
    return yaml.safe_load(trained_once.file.read_text())


def faults_of(data: Any) -> dict[str, tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        parse_federation(data, "federation.yaml")
    error = caught.value
    assert str(error).startswith("federation.yaml: ")
    for fault in error.faults:
        assert str(fault) in str(error)
    return {fault.where: (fault.problem, fault.suggestion) for fault in error.faults}


def test_the_good_file_is_read_whole(data: dict[str, Any]) -> None:
    federation = parse_federation(data, "federation.yaml")
    assert federation.label_holder == "credit"
    assert federation.feature_holders == ("shop", "bank")
    again = parse_federation(federation.model_dump(mode="json"), "plan")
    assert again == federation
    assert list(again.parties) == list(data["parties"])


def test_faults_of_shape_come_all_at_once(data: dict[str, Any]) -> None:
    data["domain"] = {"lower": 5, "upper": 5}
    bank = data["parties"]["bank"]
    bank["rol"] = bank.pop("role")
    bank["features"]["balance"]["mechanism"]["epsilon"] = -1
    bank["features"]["debt_ratio"]["typ"] = "numeric"
    data["trainingg"] = {}
    data["training"]["trainer"] = "lightgmb"
    faults = faults_of(data)
    assert faults["domain"][0] == "lower must be less than upper"
    assert faults["parties.bank.role"][0] == "is required"
    assert faults["parties.bank.rol"] == ("is not a known key", "did you mean role?")
    assert "parties.bank.features.balance.mechanism.epsilon" in faults
    assert faults["parties.bank.features.debt_ratio.typ"][1] == "did you mean type?"
    assert faults["trainingg"][1] == "did you mean training?"
    assert "training.trainer" in faults
    assert len(faults) == 7


def test_mappings_in_place_of_words_are_faults(data: dict[str, Any]) -> None:
    data["version"] = {}
    data["parties"]["bank"]["role"] = {}
    assert set(faults_of(data)) == {"version", "parties.bank.role"}


def test_faults_between_fields_come_all_at_once(data: dict[str, Any]) -> None:
    bank = data["parties"]["bank"]["features"]
    shop = data["parties"]["shop"]["features"]
    del bank["balance"]["mechanism"]
    bank["overdrafts"]["bounds"] = [3, 3]
    shop["late_payments"]["missing"] = "keep"
    shop["orders_a_year"]["uuid"] = bank["debt_ratio"]["uuid"]
    del data["parties"]["credit"]["label"]
    assert set(faults_of(data)) == {
        "parties.bank.features.balance.mechanism",
        "parties.bank.features.overdrafts.bounds",
        "parties.shop.features.late_payments.missing",
        "parties.bank.features.debt_ratio.uuid",
        "parties.credit.label",
    }


def test_a_key_like_no_other_lists_the_known_ones(data: dict[str, Any]) -> None:
    data["parties"]["bank"]["features"]["balance"]["mechanism"]["zzz"] = 1
    place = "parties.bank.features.balance.mechanism.zzz"
    assert faults_of(data)[place][1] == "choose one of epsilon, name"


@pytest.mark.parametrize(
    ("feature", "where", "word"),
    [
        ({"type": "ordinal", "categories": ["low"]}, "categories", "two categories"),
        ({"type": "nominal"}, "mechanism.name", "needs an order"),
        ({"type": "nominal"}, "categories", "list all its categories"),
        ({"type": "nominal", "categories": ["a", ""]}, "", "an empty category"),
        ({"type": "nominal", "categories": ["a", "a"]}, "categories", "twice"),
        (
            {
                "type": "nominal",
                "categories": ["a", "missing"],
                "mechanism": {"name": "unary", "epsilon": 1},
                "missing": {"fill": "a", "bit": 1},
            },
            "categories",
            "missing bit",
        ),
        (
            {"type": "ordinal", "categories": ["a", "b"], "missing": {"fill": "c"}},
            "missing.fill",
            "not one of the declared",
        ),
        (
            {"bounds": [0, 1], "mechanism": {"name": "unary", "epsilon": 1}},
            "mechanism.name",
            "only for nominal",
        ),
        ({"bounds": [0, 1], "scale": {"edges": [2, 1]}}, "scale", "strictly increasing"),
        ({"bounds": [0, 1], "missing": {"fill": "none"}}, "missing.fill", "not a number"),
        ({"bounds": [0, 1], "domain": {"lower": 1, "upper": 5000}}, "domain", "values"),
        ({"type": "nominal", "domain": {"lower": 0, "upper": 1}}, "domain", "nominal"),
        (
            {
                "type": "ordinal",
                "categories": ["a", "b", "c"],
                "mechanism": {"name": "bucket_response", "epsilon": 1, "edges": [2, 8]},
            },
            "",
            "domain [1, 3]",
        ),
    ],
)
def test_features_of_a_feature_holder(
    data: dict[str, Any], feature: dict[str, Any], where: str, word: str
) -> None:
    old = data["parties"]["bank"]["features"]["balance"]
    keep = {name: old[name] for name in ("uuid", "mechanism")}
    data["parties"]["bank"]["features"]["balance"] = {**keep, **feature}
    found = {place: " ".join(texts) for place, texts in faults_of(data).items()}
    place = f"parties.bank.features.balance.{where}".rstrip(".")
    assert any(key.startswith(place) and word in found[key] for key in found), found


@pytest.mark.parametrize("name", ["Bank", "1bank", "ba nk", "bank-a", "../bank", "b" * 49])
def test_names_of_parties_are_path_safe(data: dict[str, Any], name: str) -> None:
    data["parties"][name] = data["parties"].pop("bank")
    assert len(faults_of(data)) >= 1


@pytest.mark.parametrize("name", ["in come", "in,come", 'in"come', "a/b", "a:b", "[a]", ""])
def test_names_of_features_fit_lightgbm(data: dict[str, Any], name: str) -> None:
    features = data["parties"]["bank"]["features"]
    features[name] = features.pop("income")
    assert len(faults_of(data)) >= 1


def test_what_xgboost_cannot_do_is_told_at_once(data: dict[str, Any]) -> None:
    data["training"]["trainer"] = "xgboost"
    shop = data["parties"]["shop"]["features"]
    shop["payment"]["categories"][0] = "<5"
    shop["a<b"] = {**shop["payment"], "uuid": "6f1d3a52-6f0e-4d0a-9f5e-0e7a3f1c9b33"}
    data["domain"] = {"lower": 4_000_000, "upper": 5_000_000}
    faults = faults_of(data)
    assert "has <" in faults["parties.shop.features.payment"][0]
    assert "has <" in faults["parties.shop.features.a<b"][0]
    assert "too coarse" in faults["domain"][0]


def test_paths_of_a_site_start_at_its_file(
    trained_once: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = trained_once.folder / "bank"
    site = load_site(folder / "site.yaml")
    assert site.home == folder / "home"
    assert site.secret == folder / "keys" / "noise.secret"
    assert Path(site.store).resolve() == trained_once.folder / "exchange"
    assert site.ledger == f"sqlite:///{folder / 'ledger.sqlite'}"
    assert site.tables["credit_scoring"].train == folder / "tables" / "train.parquet"


def test_absolute_paths_and_urls_stay(trained_once: Workspace, tmp_path: Path) -> None:
    data = yaml.safe_load((trained_once.folder / "bank" / "site.yaml").read_text())
    data |= {"store": "file:///exchange", "ledger": "sqlite:////var/ledger", "home": "/home/bank"}
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(data))
    site = load_site(tmp_path / "site.yaml")
    assert (site.store, site.ledger) == ("file:///exchange", "sqlite:////var/ledger")
    assert site.home == Path("/home/bank")


def test_site_and_policy_report_their_faults(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("version: 1\nparty: bank\nstor: x\n")
    with pytest.raises(ConfigError) as caught:
        load_site(tmp_path / "site.yaml")
    assert {(f.where, f.suggestion) for f in caught.value.faults} == {
        ("store", ""),
        ("stor", "did you mean store?"),
    }
    text = "version: 1\nparty: bank\nchecks: {max_cliped_share: 1}\nreceivers: {a: {}}\n"
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_policy(tmp_path / "policy.yaml")
    assert {(f.where, f.suggestion) for f in caught.value.faults} == {
        ("checks.max_cliped_share", "did you mean max_clipped_share?"),
        ("receivers.a.signing_key", ""),
    }


def test_the_site_comes_from_this_environment_alone(trained_once: Workspace) -> None:
    site, policy = site_of("bank", trained_once.environment())
    assert (site.party, policy.party) == ("bank", "bank")
    with pytest.raises(ConfigError, match="OPBOOST_SITE_BANK is not set"):
        site_of("bank", {"OPBOOST_SITE_SHOP": "x"})
    with pytest.raises(ConfigError, match="OPBOOST_SITE_BANK is not set"):
        site_of("bank", {"OPBOOST_SITE_BANK": ""})


@pytest.mark.parametrize("text", ["a: [", "a: !!python/object:os.system {}", "\x00"])
def test_yaml_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "federation.yaml").write_text(text)
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_federation(tmp_path / "federation.yaml")


def test_a_domain_that_is_too_large_is_refused_when_it_is_loaded(
    data: dict[str, Any],
) -> None:
    data["domain"] = {"lower": 1, "upper": 1024}
    parse_federation(data, "federation.yaml")
    data["domain"] = {"lower": 0, "upper": 1024}
    assert faults_of(data)["domain"][0] == "has 1025 values, more than the 1024 that are allowed"
    data["domain"] = {"lower": 1, "upper": 10**9}
    assert "more than the 1024" in faults_of(data)["domain"][0]
    data["domain"] = {"lower": 10**30, "upper": 10**30 + 9}
    assert "beyond" in faults_of(data)["domain"][0]
