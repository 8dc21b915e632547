"""Signing and encryption keys are replaced while runs go on, and revoked ones speak for nobody."""

import hashlib
import json
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from opboost_ops.config.agreement import document
from opboost_ops.config.columns import canonical
from opboost_ops.errors import ConfigError, OpBoostError, PolicyError
from opboost_ops.exchange.encryption import all_keys, key_name, new_encryption_key
from opboost_ops.exchange.manifest import MANIFEST, SIGNATURE, Manifest, parse_manifest
from opboost_ops.exchange.party_state import agreements_of as load
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.signing import Signer, new_signing_key, signed_by
from opboost_ops.extras.datasets.generated import write_lenders
from opboost_ops.pipeline.party import agreement, clock
from opboost_ops.pipeline.party.rollback import check
from opboost_ops.pipeline.party.trust import replaced
from opboost_ops.pipeline.runner.local import run_federation
from opboost_ops.privacy.consent.agreements import Agreement, Agreements
from opboost_ops.verifier import verify
from tests.commands import printed
from tests.federation import SECOND_RUN, Workspace
from tests.party_state import state_of

LABEL, BANK, SHOP = "credit", "bank", "shop"
THIRD = "0" * 15 + "3"
STRANGER = new_signing_key(b"s" * 32)[1]


def renewed(workspace: Workspace, party: str, use: str, *options: str) -> dict[str, Any]:
    """Renew a key; the lines of the federation file that the command prints."""
    text = printed("keys", "renew", workspace.folder / party, use, *options)
    lines: dict[str, Any] = yaml.safe_load(text.split("\n\n")[0])
    return lines


def declare(workspace: Workspace, party: str, lines: dict[str, Any], **options: Any) -> None:
    def change(data: Any) -> None:
        spec = data["parties"][party]
        former = spec.get("former_keys", []) + lines.get("former_keys", [])
        gone = spec.get("revoked_keys", []) + lines.get("revoked_keys", [])
        spec.update(lines)
        spec.update({"former_keys": former} if former else {})
        spec.update({"revoked_keys": gone} if gone else {})

    workspace.edit_yaml("federation.yaml", change, **options)


def pin(workspace: Workspace, party: str) -> None:
    """Everybody pins the present key of a party, as the command says."""
    key = workspace.declared.parties[party].signing_key
    for path in workspace.folder.glob("*/policy.yaml"):
        if party in (yaml.safe_load(path.read_text()).get("receivers") or {}):
            printed("keys", "trust", path.parent, party, key, "--replace")


def artifact(workspace: Workspace, place: str) -> tuple[Manifest, bytes, bytes]:
    found = workspace.store.get(f"credit_scoring/{workspace.run}/{place}")
    assert found is not None
    return parse_manifest(found[MANIFEST], place), found[MANIFEST], found[SIGNATURE]


def later(patch: pytest.MonkeyPatch, days: int) -> date:
    """Let every party's clock say that it is some days later."""
    day = clock.today() + timedelta(days=days)
    patch.setattr(clock, "today", lambda: day)
    return day


def go_on(workspace: Workspace, stage: str) -> None:
    """Every step of the run from a stage on."""
    begun = False
    for step in workspace.steps():
        begun = begun or step.stage == stage
        if begun:
            workspace.step(step.party, step.stage)


def failure(do: Callable[[], object]) -> OpBoostError:
    with pytest.raises(OpBoostError) as error:
        do()
    return error.value


def sign_again(workspace: Workspace, place: str, signer: Signer) -> None:
    """Somebody who writes the store signs what lies there by another key."""
    folder = workspace.folder / "exchange" / "credit_scoring" / workspace.run / place
    (folder / SIGNATURE).write_bytes(signer.sign((folder / MANIFEST).read_bytes()))


def signers(workspace: Workspace, party: str) -> list[Signer]:
    """The newest first."""
    site = workspace.site(party)
    return list(all_keys(site.signing_key, Signer.from_file))


@pytest.mark.slow
def test_keys_are_replaced_in_the_middle_of_a_run(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = workspace.declared.parties
    workspace.until("open_rows")
    first = artifact(workspace, f"ranks/{BANK}")
    for party in (LABEL, BANK):
        for use in ("signing", "encryption"):
            declare(workspace, party, renewed(workspace, party, use))
    pin(workspace, LABEL)
    after = workspace.declared.parties
    # A retry is the same to the byte, and the run ends with the keys with which it began.
    workspace.step(BANK, "seal")
    assert artifact(workspace, f"ranks/{BANK}") == first
    go_on(workspace, "open_rows")
    for party, place in ((LABEL, f"split_request/{BANK}"), (BANK, f"split_values/{BANK}")):
        manifest, raw, signature = artifact(workspace, place)
        assert signed_by(before[party].signing_key, raw, signature)
        receiver = before[BANK if party == LABEL else LABEL].encryption_key
        assert manifest.encrypted_to == key_name(receiver or "")
    # The next one goes by the new keys, and after the overlap the next but one needs no others.
    for run, days in (THIRD, 0), ("0" * 15 + "4", 15):
        later(monkeypatch, days)
        if days:
            for path in workspace.folder.glob("*/keys/*.until-*"):
                path.unlink()
        now = Workspace(workspace.folder, run)
        now.until("open_rows")
        for place, party in ((f"plan/{LABEL}", LABEL), (f"ranks/{BANK}", BANK)):
            manifest, raw, signature = artifact(now, place)
            assert signed_by(after[party].signing_key, raw, signature)
        assert manifest.encrypted_to == key_name(after[LABEL].encryption_key or "")
    # The model of before scores by the keys of now.
    scoring = workspace.scoring()
    assert scoring.open()["version"]
    scoring.step(BANK, "check_table")
    assert signed_by(after[LABEL].signing_key, *artifact(scoring, f"plan/{LABEL}")[1:])
    # What was signed before is the party's own evidence still, and is verified by date.
    site = workspace.site(BANK)
    assert {gap.run for gap in check(site)} == set()
    assert not any(outcome.is_broken for outcome in verify([workspace.folder / "exchange"]))


@pytest.mark.slow
def test_keys_are_replaced_in_horizontal_learning(tmp_path: Path) -> None:
    """One site has the old signing key alone, as if the new one had not come there yet."""
    file = write_lenders(tmp_path / "w", rows=600, seed=3, training={"trees": 2})
    lenders = Workspace(file.parent)
    names = list(lenders.declared.parties)
    for name in names[:2]:
        for use in ("signing", "encryption"):
            declare(lenders, name, renewed(lenders, name, use))
    for name in names[:2]:
        pin(lenders, name)
    behind = lenders.folder / names[1] / "keys"
    next(behind.glob("signing.key.until-*")).rename(behind / "signing.key")
    assert set(run_federation(file, {}).summaries) == set(names)


@pytest.mark.parametrize("use", ["signing", "encryption"])
def test_a_renewal_that_was_interrupted_loses_no_key_of_the_agreement(
    workspace: Workspace, use: str
) -> None:
    """The second one named a key that nobody knew, and a stolen one was not revoked."""
    agreed = getattr(workspace.declared.parties[BANK], f"{use}_key")
    renewed(workspace, BANK, use)
    again = renewed(workspace, BANK, use)
    assert agreed in [former["key"] for former in again["former_keys"]]
    assert agreed in renewed(workspace, BANK, use, "--revoke")["revoked_keys"]


def test_a_renewal_names_no_key_of_a_federation_that_has_ended(workspace: Workspace) -> None:
    with state_of(workspace, BANK) as state:
        agreed = state.agreements.read().agreements[-1]
        content = json.loads(json.dumps(agreed.content))
        content["federation"]["terms"]["until"] = "2020-12-31"
        digest = hashlib.sha256(canonical(content)).hexdigest()
        other = {"number": agreed.number + 100, "federation": "ended"}
        ended = agreed.model_copy(update={**other, "content": content, "digest": digest})
        state.agreements.add(ended)
    long_replaced = workspace.declared.parties[BANK].signing_key
    declare(workspace, BANK, renewed(workspace, BANK, "signing"))
    again = renewed(workspace, BANK, "signing")
    assert long_replaced not in [former["key"] for former in again["former_keys"]]


@pytest.mark.slow
def test_in_the_overlap_either_key_signs_and_after_it_the_new_one_alone(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = renewed(workspace, BANK, "signing")
    declare(workspace, BANK, lines)
    new, old = signers(workspace, BANK)
    workspace.until("open_rows")
    # The site with the old key alone, as if the new one had not come there yet.
    for signer in (old, new):
        sign_again(workspace, f"psi_answer/{BANK}", signer)
        workspace.step(LABEL, "open_rows") if signer is old else None
    late = later(monkeypatch, 15)
    third = Workspace(workspace.folder, THIRD)
    third.until("open_rows")
    sign_again(third, f"psi_answer/{BANK}", old)
    error = failure(lambda: third.step(LABEL, "open_rows"))
    assert isinstance(error, Rejected)
    assert error.reason == "expired_key"
    assert str(lines["former_keys"][0]["until"]) in str(error)
    (workspace.folder / BANK / "keys" / "signing.key").unlink()
    old_file = next((workspace.folder / BANK / "keys").glob("signing.key.until-*"))
    old_file.rename(old_file.with_name("signing.key"))
    fourth = Workspace(workspace.folder, "0" * 15 + "4")
    fourth.open()
    error = failure(lambda: fourth.step(BANK, "check_table"))
    assert isinstance(error, ConfigError)
    assert "has expired on" in str(error)
    assert "opboost keys renew" in str(error)
    assert late > lines["former_keys"][0]["until"]


def test_what_was_signed_in_time_is_taken_after_it(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = clock.today() + timedelta(days=1)
    declare(workspace, BANK, {"signing_key_expires": last})
    workspace.until("open_rows")
    plan = artifact(workspace, f"plan/{LABEL}")
    later(monkeypatch, 3)
    # Also what is cleared, the plan itself among it, is the same to the byte.
    workspace.open()
    assert artifact(workspace, f"plan/{LABEL}") == plan
    workspace.step(BANK, "digest_ids")
    workspace.step(LABEL, "open_rows")
    # A run that nobody finished is no way around the date for ever.
    later(monkeypatch, 8)
    with pytest.raises(ConfigError, match="has expired on"):
        workspace.step(BANK, "digest_ids")
    workspace.step(LABEL, "open_rows")


def test_a_revoked_key_is_refused_at_once_by_who_has_agreed(workspace: Workspace) -> None:
    workspace.until("open_rows")
    declare(workspace, BANK, renewed(workspace, BANK, "signing", "--revoke"), agree=False)
    workspace.step(LABEL, "open_rows")
    agreement.agree(workspace.site(LABEL), workspace.declared)
    with pytest.raises(PolicyError):
        workspace.step(LABEL, "open_rows")
    assert "is revoked: a new run under the newest agreement" in workspace.reason(LABEL)


def test_runs_before_a_revocation_are_not_called_broken(workspace: Workspace) -> None:
    declare(workspace, BANK, renewed(workspace, BANK, "signing", "--revoke"))
    workspace.until("open_rows")
    places = [workspace.folder, workspace.folder / "exchange"]
    outcomes = [outcome for place in places for outcome in verify([place])]
    assert not [outcome for outcome in outcomes if outcome.is_broken]


def test_a_revoked_label_holder_plans_nothing(workspace: Workspace) -> None:
    """Its thief replays the older agreement, which nobody has withdrawn."""
    workspace.open()
    thief = signers(workspace, LABEL)[0]
    declare(workspace, LABEL, renewed(workspace, LABEL, "signing", "--revoke"))
    # Even where the policy still pins it.
    sign_again(workspace, f"plan/{LABEL}", thief)
    error = failure(lambda: workspace.step(BANK, "check_table"))
    assert isinstance(error, Rejected)
    assert error.reason == "revoked_key"
    assert "newest agreement" in str(error)
    pin(workspace, LABEL)
    error = failure(lambda: workspace.step(BANK, "check_table"))
    assert isinstance(error, Rejected)
    assert error.reason == "revoked_key"
    third = Workspace(workspace.folder, THIRD)
    third.open()
    third.step(BANK, "check_table")


def test_a_scoring_plan_of_an_older_agreement_brings_no_older_key_back(
    workspace: Workspace,
) -> None:
    old = workspace.declared
    scoring = workspace.scoring()
    scoring.open()
    # Replaced without an overlap: the old key is not revoked, and named no more.
    lines = renewed(workspace, SHOP, "encryption")
    declare(workspace, SHOP, {"encryption_key": lines["encryption_key"]})
    assert workspace.declared != old
    error = failure(lambda: scoring.step(BANK, "check_table"))
    assert isinstance(error, PolicyError)
    assert f"parties.{SHOP}.encryption_key: no longer good" in scoring.reason(BANK)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ({"use": "signing", "key": STRANGER, "until": 5}, "never agreed to it"),
        (
            {"use": "encryption", "key": new_encryption_key(b"e" * 32)[1], "until": 5},
            "never agreed to it",
        ),
        ({"use": "signing", "key": "own", "until": 20_000}, "at most 92 days"),
    ],
)
def test_nobody_slips_in_a_key_as_a_former_one(
    workspace: Workspace, lines: dict[str, Any], says: str
) -> None:
    new = renewed(workspace, BANK, "signing")
    key = new["former_keys"][0]["key"] if lines["key"] == "own" else lines["key"]
    until = clock.today() + timedelta(days=lines["until"])
    new["former_keys"] = [{**lines, "key": key, "until": until}]
    declare(workspace, BANK, new, agree=False)
    site = workspace.site(SHOP)
    before = load(site)
    with pytest.raises(ConfigError, match=says):
        agreement.agree(site, workspace.declared)
    assert load(site) == before


def test_whoever_joins_later_believes_no_former_key(workspace: Workspace) -> None:
    old = signers(workspace, LABEL)[0].public
    declare(workspace, LABEL, renewed(workspace, LABEL, "signing"), agree=False)
    site = workspace.site(BANK)
    new = workspace.declared.parties[LABEL].signing_key
    newest = Agreement(
        number=1,
        federation="credit_scoring",
        at="",
        digest="",
        content=document(workspace.declared),
    )
    joined = Agreements(party=BANK, agreements=(newest,))
    assert replaced(joined, "credit_scoring", LABEL, new) == ()
    agreement.agree(site, workspace.declared)
    assert replaced(load(site), "credit_scoring", LABEL, new) == (old,)


def test_a_revoked_key_never_comes_back(workspace: Workspace) -> None:
    site = workspace.site(SHOP)
    text = workspace.file.read_text()
    declare(workspace, BANK, renewed(workspace, BANK, "signing", "--revoke"))
    workspace.file.write_text(text)
    with pytest.raises(ConfigError, match="was revoked"):
        agreement.agree(site, workspace.declared)


@pytest.mark.parametrize("days", [-40, 30])
def test_a_plan_of_another_day_is_refused(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """A label holder's own clock makes no key good that is good no more."""
    declare(workspace, BANK, {"signing_key_expires": clock.today() + timedelta(days=300)})
    with monkeypatch.context() as patch:
        later(patch, days)
        workspace.open()
    error = failure(lambda: workspace.step(BANK, "check_table"))
    assert isinstance(error, Rejected)
    assert error.reason == "wrong_day"
    assert str(clock.today()) in str(error)


def test_check_and_keys_show_tell_dates_and_former_keys(workspace: Workspace) -> None:
    lines = renewed(workspace, BANK, "signing")
    declare(workspace, BANK, lines)
    told = printed("check", workspace.folder)
    (former,) = lines["former_keys"]
    assert f"bank: former signing key {key_name(former['key'])} until {former['until']}" in told
    assert f"from {clock.today()}" in told
    shown = json.loads(printed("keys", "show", workspace.folder / BANK, "--json"))
    assert shown["former_keys"] == [former["key"]]
    assert shown["signing_key"] == lines["signing_key"]


def test_a_key_that_lies_in_no_file_is_not_renewed(workspace: Workspace) -> None:
    workspace.declare(f"{BANK}/site.yaml", signing_key="env:BANK_KEY")
    before = sorted(Path(workspace.folder / BANK / "keys").iterdir())
    printed("keys", "renew", workspace.folder / BANK, "signing", fails=True)
    assert sorted(Path(workspace.folder / BANK / "keys").iterdir()) == before


def test_a_key_of_the_environment_may_have_a_former_one(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = (workspace.folder / BANK / "keys" / "signing.key").read_text()
    private, public = new_signing_key(b"n" * 32)
    monkeypatch.setenv("BANK_KEY", private)
    monkeypatch.setenv("BANK_KEY_FORMER", key)
    workspace.open()
    workspace.declare(f"{BANK}/site.yaml", signing_key="env:BANK_KEY")
    workspace.step(BANK, "check_table")
    assert signers(workspace, BANK)[0].public == public
    assert workspace.run == SECOND_RUN
