"""Certificates and keys: an authority of our own, what it signs, and both as PEM."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: Clocks differ: a certificate made now is valid since a while ago.
_SLACK = timedelta(hours=1)
#: As long as the field may be; clients read the other names.
_LONGEST_COMMON_NAME = 64


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and the key that belongs to it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def new_authority(now: datetime, life: timedelta) -> Pair:
    """An authority that has signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    # Each has a name of its own, so that nobody mistakes an old one for its successor.
    name = _named(f"framework-launcher authority of {now:%Y-%m-%d %H:%M:%S}")
    builder = (
        _begun(name, key, now, now + life)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def new_serving(authority: Pair, names: Iterable[str], now: datetime, life: timedelta) -> Pair:
    """A certificate for a server that is called by any of these names and addresses; it ends with its authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    spelt = sorted(names)
    until = min(now + life, authority.certificate.not_valid_after_utc)
    shortest = min(spelt, key=len)[:_LONGEST_COMMON_NAME]
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _begun(_named(shortest), key, now, until)
        .issuer_name(authority.certificate.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer, critical=False)
        .add_extension(x509.SubjectAlternativeName(map(_alternative, spelt)), critical=False)
    )
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def names_of(certificate: x509.Certificate) -> frozenset[str]:
    """The names and addresses that a server may be called by."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = map(str, found.get_values_for_type(x509.IPAddress))
    return frozenset((*found.get_values_for_type(x509.DNSName), *addresses))


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether the one was issued by the other."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def read_certificates(text: bytes) -> tuple[x509.Certificate, ...]:
    """The certificates in a PEM text, in their order. Raises ValueError when there is none."""
    return tuple(x509.load_pem_x509_certificates(text))


def read_pair(certificates: bytes, key: bytes) -> Pair:
    """The first of the certificates and the key. Raises ValueError when they are none or do not belong together."""
    certificate = read_certificates(certificates)[0]
    try:
        secret = serialization.load_pem_private_key(key, password=None)
    except TypeError as error:  # it is encrypted
        raise ValueError(str(error)) from error
    if not isinstance(secret, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is of another kind than ours")
    if certificate.public_key() != secret.public_key():
        raise ValueError("the key does not belong to the certificate")
    return Pair(certificate, secret)


def written_certificates(certificates: Iterable[x509.Certificate]) -> bytes:
    """All of them as one PEM text."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def written_key(pair: Pair) -> bytes:
    """The key as PEM, in the clear."""
    return pair.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def time_of(now: float) -> datetime:
    """Seconds since 1970 as certificates count time."""
    return datetime.fromtimestamp(now, UTC)


def _begun(
    name: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
