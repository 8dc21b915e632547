"""What a party has agreed to, in its database: numbered, dated, withdrawn."""

import math
import uuid
from pathlib import Path

import pytest

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import load_site, parse_federation
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.encryption import new_encryption_key
from opboost_ops.exchange.party_state import agreements_of as load
from opboost_ops.exchange.party_state import open_state
from opboost_ops.exchange.signing import new_signing_key
from opboost_ops.pipeline.party.agreement import agree, lacking, withdraw
from opboost_ops.privacy.consent.changes import changes, leaving
from opboost_ops.privacy.consent.exposure import guesses_of
from tests.party_state import edit_agreement
from tests.unit.config.test_agreement import INCOME, data, federation
from tests.unit.config.test_horizontal_file import good

RUN = "0" * 15 + "1"


@pytest.fixture
def bank(tmp_path: Path) -> Site:
    (tmp_path / "keys").mkdir()
    secret = tmp_path / "keys" / "noise.secret"
    secret.write_bytes(bytes(range(32)))
    secret.chmod(0o600)
    (tmp_path / "site.yaml").write_text("version: 1\nparty: bank\nstore: store\n")
    return load_site(tmp_path / "site.yaml")


def lines(site: Site) -> list[tuple[str, str]]:
    with open_state(site) as state:
        state.audit.verify()
        return [(entry.action, entry.place) for _, entry, _ in state.audit.entries()]


def test_agreements_are_numbered_across_federations_and_kept(bank: Site) -> None:
    first = agree(bank, federation())
    assert agree(bank, federation()) == first
    other = agree(bank, federation(name="other"))
    third = agree(bank, federation(domain__upper=12))
    assert [first.number, other.number, third.number] == [1, 2, 3]
    agreements = load(bank)
    assert agreements.newest("toy") == third and agreements.newest("other") == other
    assert agreements.standing("toy", first.digest) == first
    assert lines(bank) == [
        ("agreed", "toy/agreement/1"),
        ("agreed", "other/agreement/2"),
        ("agreed", "toy/agreement/3"),
    ]


def test_another_uuid_would_evaluate_models_on_people_they_were_trained_on(bank: Site) -> None:
    agree(bank, federation())
    with pytest.raises(ConfigError, match="uuid of toy differs"):
        agree(bank, federation(uuid=str(uuid.uuid4())))
    withdraw(bank, 1)
    with pytest.raises(ConfigError, match="uuid of toy differs"):
        agree(bank, federation(uuid=str(uuid.uuid4())))
    assert agree(bank, federation()).number == 2


def test_going_back_is_another_agreement_of_the_same_digest(bank: Site) -> None:
    first = agree(bank, federation())
    agree(bank, federation(domain__upper=12))
    again = agree(bank, federation())
    assert (again.number, again.digest) == (3, first.digest)
    assert not lacking(bank, federation())


def test_a_version_is_kept_under_its_own_agreement_however_soon_the_next_came(bank: Site) -> None:
    first = agree(bank, federation())
    with open_state(bank) as state:
        state.audit.add("sent", f"toy/{RUN}/ranks/bank", "bank", "0" * 64)
    agree(bank, federation(domain__upper=12), keep=[RUN])
    assert load(bank).kept_under("toy", RUN) == first


def test_what_is_withdrawn_is_answered_no_more_and_brings_no_older_one_back(bank: Site) -> None:
    first = agree(bank, federation())
    second = agree(bank, federation(domain__upper=12))
    assert [gone.number for gone in withdraw(bank, second.number)] == [2]
    agreements = load(bank)
    assert agreements.newest("toy") is None
    assert agreements.standing("toy", second.digest) is None
    assert agreements.standing("toy", first.digest) == first
    with pytest.raises(ConfigError, match="no agreement 2"):
        withdraw(bank, 2)
    assert lines(bank)[-1] == ("withdrawn", "toy/agreement/2")
    assert agree(bank, federation(domain__upper=12)).number == 3


def test_agreements_of_the_same_content_are_withdrawn_together(bank: Site) -> None:
    first = agree(bank, federation())
    agree(bank, federation(domain__upper=12))
    agree(bank, federation())
    assert [gone.number for gone in withdraw(bank, 3)] == [1, 3]
    assert load(bank).standing("toy", first.digest) is None


@pytest.mark.parametrize(
    ("old", "new"), [('"upper": 10', '"upper": 11'), ("{", ""), ('"federation":', '"other":')]
)
def test_an_agreement_that_was_edited_by_hand_is_refused(bank: Site, old: str, new: str) -> None:
    agree(bank, federation())
    edit_agreement(bank, old, new)
    for act in (lambda: load(bank), lambda: agree(bank, federation()), lambda: withdraw(bank, 1)):
        with pytest.raises(ConfigError, match="agreement of bank was changed outside"):
            act()


def test_a_party_of_another_federation_agrees_to_nothing(bank: Site) -> None:
    made = data()
    made["parties"]["shop"] = made["parties"].pop("bank")
    with pytest.raises(ConfigError, match="bank is not a party of toy"):
        agree(bank, parse_federation(made, "federation.yaml"))


def test_lacking_names_what_is_new(bank: Site) -> None:
    assert lacking(bank, federation()) == "has not agreed to toy"
    agree(bank, federation())
    assert lacking(bank, federation()) == ""
    asked = federation(**{f"{INCOME}__bounds": [0, 99], "domain__upper": 12})
    assert lacking(bank, asked).endswith("in domain.upper, parties.bank.features.income.bounds")


def test_all_that_leaves_is_named() -> None:
    lines = leaving(federation(), "bank")
    assert {(line.charge, line.epsilon) for line in lines} == {
        ("income", 1.0), ("size", 1.0), ("kind", 2.0),
    }  # fmt: skip
    assert {line.receiver for line in lines} == {"credit"}
    assert leaving(federation(), "credit") == []


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({f"{INCOME}__missing__fill": 26}, "missing.fill", "at its full loss: income 4.5"),
        ({f"{INCOME}__bounds": [0, 99]}, "bounds", "at its full loss: income 4.5"),
        ({f"{INCOME}__uuid": str(uuid.uuid4())}, "uuid", "the same data is released"),
        (
            {f"{INCOME}__mechanism__epsilon": 2.0},
            "mechanism.epsilon",
            "at its full loss: income 9.0",
        ),
    ],
)
def test_a_change_says_what_it_costs(
    bank: Site, change: dict[str, object], field: str, words: str
) -> None:
    agree(bank, federation())
    found = [c for c in changes(load(bank), federation(**change)) if "features.income" in c.field]
    assert [c.field for c in found] == [f"federation.parties.bank.features.income.{field}"]
    assert words in found[0].means
    assert not [c for c in changes(load(bank), federation(**change)) if "columns" in c.field]


def test_a_first_agreement_releases_nothing_again(bank: Site) -> None:
    assert not [c for c in changes(load(bank), federation()) if "again" in c.means]


def test_another_common_domain_redraws_only_what_follows_it(bank: Site) -> None:
    own = {f"{INCOME}__domain": {"lower": 1, "upper": 10}}
    agree(bank, federation(**own))
    (change,) = changes(load(bank), federation(domain__upper=12, **own))
    assert change.field == "federation.domain.upper"
    assert "releases" not in change.means, "income has a domain of its own, size its categories"
    (change,) = changes(load(bank), federation(**{f"{INCOME}__domain": {"lower": 1, "upper": 9}}))
    assert change.field == "federation.parties.bank.features.income.domain.upper"
    assert "bank releases these columns again" in change.means


def with_shop() -> Federation:
    """The same with another feature holder."""
    bank, key = data()["parties"]["bank"], new_signing_key(bytes([3] * 32))[1]
    features = {
        name: {**spec, "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"shop {name}"))}
        for name, spec in bank["features"].items()
    }
    sealed = {
        f"parties__{name}__encryption_key": new_encryption_key(bytes([at] * 32))[1]
        for at, name in enumerate(("bank", "shop"))
    }
    spec = {"role": "feature_holder", "signing_key": key, "features": features}
    return parse_federation(data(parties__shop=spec, **sealed), "federation.yaml")


def test_who_joins_releases_and_who_leaves_does_not(bank: Site) -> None:
    def of_shop(declared: Federation) -> dict[str, str]:
        start = "federation.parties.shop."
        found = {c.field.partition(start)[2]: c.means for c in changes(load(bank), declared)}
        return {field: means for field, means in found.items() if field}

    agree(bank, federation())
    joins = of_shop(with_shop())
    assert "joins" in joins["role"]
    assert all("releases" in joins[f"features.{name}"] for name in ("income", "size", "kind"))
    agree(bank, with_shop())
    leaves = of_shop(federation())
    assert leaves.keys() == joins.keys()
    assert all("leaves" in means for means in leaves.values())


def test_a_feature_that_is_released_no_more_is_named(bank: Site) -> None:
    agree(bank, federation())
    fewer = data()
    del fewer["parties"]["bank"]["features"]["size"]
    (change,) = changes(load(bank), parse_federation(fewer, "federation.yaml"))
    assert change.field.endswith("bank.features.size")
    assert "stops releasing size" in change.means


def test_odds_count_the_loss_of_private_edges() -> None:
    scale = {"edges": [10.0, 20.0, 50.0], "epsilon": 0.5}
    (_, plain), (_, drawn) = (
        guesses_of(federation(**{f"{INCOME}__scale": edges}), "bank")["income"]
        for edges in ({"edges": scale["edges"]}, scale)
    )
    assert drawn.odds == pytest.approx(plain.odds * math.exp(0.5), rel=1e-3)


def test_a_party_that_becomes_the_label_holder_does_not_join(bank: Site) -> None:
    agree(bank, federation())
    made = data()
    label = made["parties"]["credit"].pop("label")
    features = made["parties"]["bank"].pop("features")
    made["parties"]["credit"].update(role="feature_holder", features=features)
    made["parties"]["bank"].update(role="label_holder", label=label)
    found = {c.field: c.means for c in changes(load(bank), parse_federation(made, "x"))}
    assert "label_holder" in found["federation.parties.bank.role"]
    assert "joins" not in found["federation.parties.bank.role"]


def test_every_field_of_a_first_agreement_has_its_meaning(bank: Site) -> None:
    for declared in (with_shop(), parse_federation(good(), "federation.yaml")):
        found = changes(load(bank), declared)
        assert found and all(each.means for each in found)
