"""The certificates by which the coordinator's proxy and the sites know each other."""

import ipaddress
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from opboost_ops.errors import ConfigError
from opboost_ops.exchange.key_files import write_private

#: What a party may be called: it is part of its workers' names, and of folders.
PARTY = re.compile(r"[a-z][a-z0-9_]*")

_AUTHORITY_DAYS = 3650


class Authority:
    """A certificate authority of this federation alone: its key and certificate in a folder.

    Created where the folder is empty. Anyone who has the key can be any party.

    Args:
        folder: Where ``ca.key`` and ``ca.pem`` are.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / "ca.key").exists():
            _make_authority(folder)
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(
                f"{folder.name}/ca.key is not one that was made here.",
                "Name another folder, or put the right key back.",
            )
        self._key = key
        self._pem = (folder / "ca.pem").read_bytes()
        self._certificate = x509.load_pem_x509_certificate(self._pem)

    def issue_site(self, folder: Path, party: str, days: int) -> None:
        """Write a party's ``client.pem`` (certificate and key) and ``ca.pem``.

        Args:
            folder: Where to.
            party: The party: the certificate's common name.
            days: How long it is valid.
        """
        self._issue(folder, "client.pem", party, [], ExtendedKeyUsageOID.CLIENT_AUTH, days)

    def issue_proxy(self, folder: Path, hosts: Sequence[str], days: int) -> None:
        """Write the proxy's ``server.pem`` (certificate and key) and ``ca.pem``.

        Args:
            folder: Where to.
            hosts: Names or addresses by which sites call it.
            days: How long it is valid.
        """
        names = [_general_name(host) for host in hosts]
        self._issue(folder, "server.pem", hosts[0], names, ExtendedKeyUsageOID.SERVER_AUTH, days)

    def _issue(
        self,
        folder: Path,
        file: str,
        name: str,
        hosts: Sequence[x509.GeneralName],
        usage: x509.ObjectIdentifier,
        days: int,
    ) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(name, self._certificate.subject, key, days)
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        write_private(folder / file, pem + _private_pem(key))
        (folder / "ca.pem").write_bytes(self._pem)


def _make_authority(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = "opboost sites"
    builder = _builder(name, _name(name), key, _AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(True, 0), critical=True)
    builder = builder.add_extension(
        x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True
    )
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    certificate = builder.sign(key, hashes.SHA256())
    write_private(folder / "ca.key", _private_pem(key))
    (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _builder(
    subject: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # The other end's clock may be behind.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=days))
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
