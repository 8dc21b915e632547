"""Whether a site has the keys that the federation file names, on this day and soon."""

from datetime import UTC, date, datetime

from opboost_ops.config.federation import Federation
from opboost_ops.config.site import Site
from opboost_ops.errors import Fault, OpBoostError
from opboost_ops.exchange.encryption import key_name, private_key
from opboost_ops.exchange.key_files import each
from opboost_ops.exchange.signing import Signer


def key_faults(
    federation: Federation, party: str, site: Site, today: date | None = None
) -> list[Fault]:
    """What is wrong with a party's signing and encryption keys.

    Args:
        federation: As declared.
        party: Whose.
        site: Its site.
        today: As of when; today when absent.
    """
    spec, faults = federation.parties[party], []
    good = spec.signing(today or datetime.now(UTC).date())
    try:
        held = [signer.public for signer in each(site.signing_key, Signer.from_file)]
        if not set(held) & set(spec.signed_ever):
            faults.append(
                Fault(
                    f"parties.{party}.signing_key",
                    "is not the public key of the party's signing key",
                    f"its site's is {held[0]}",
                )
            )
        elif not set(held) & set(good):
            key = next(key for key in held if key in spec.signed_ever)
            why = spec.fault_on(key, today or datetime.now(UTC).date())
            faults.append(
                Fault(
                    f"parties.{party}.signing_key",
                    f"is not good today: {key_name(key)}, which the site has, {why}",
                    "`opboost keys renew SITE signing` makes another one",
                )
            )
    except OpBoostError as error:
        faults.append(Fault(f"{party}/site.yaml:signing_key", error.problem, error.remedy))
    try:
        private_key(site.encryption_key, spec.encryption_key)
    except OpBoostError as error:
        faults.append(Fault(f"{party}/site.yaml:encryption_key", error.problem, error.remedy))
    return faults


def key_dates(federation: Federation) -> list[str]:
    """What the federation file says of keys' dates, a line each.

    Args:
        federation: As declared.
    """
    lines = []
    for name, spec in federation.parties.items():
        first, last = spec.signing_key_from, spec.signing_key_expires
        dates = [f"from {first}" if first else "", f"until {last}" if last else ""]
        if any(dates):
            said = " ".join(filter(None, dates))
            lines.append(f"{name}: signing key {key_name(spec.signing_key)} {said}")
        lines += [
            f"{name}: former {former.use} key {key_name(former.key)} until {former.until}"
            for former in spec.former_keys
        ]
        lines += [f"{name}: key {key_name(key)} is revoked" for key in spec.revoked_keys]
    return lines
