"""Creation of CA and serving certificates, and their PEM encoding."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: Clocks differ: new certificates are valid from some time ago.
_CLOCK_SKEW = timedelta(hours=1)
#: The limit of the field; clients use the alternative names.
_MAX_COMMON_NAME_LENGTH = 64


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def new_authority(now: datetime, lifetime: timedelta) -> KeyPair:
    """Creates a self-signed CA certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    # Unique names, so that an old CA is not confused with its successor.
    name = _common_name(f"framework-launcher authority of {now:%Y-%m-%d %H:%M:%S}")
    builder = (
        _builder(name, key, now, now + lifetime)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def new_serving(authority: KeyPair, names: Iterable[str], now: datetime, lifetime: timedelta) -> KeyPair:
    """Creates a serving certificate for these names and addresses; it expires with its CA at the latest."""
    key = ec.generate_private_key(ec.SECP256R1())
    sorted_names = sorted(names)
    until = min(now + lifetime, authority.certificate.not_valid_after_utc)
    shortest = min(sorted_names, key=len)[:_MAX_COMMON_NAME_LENGTH]
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(_common_name(shortest), key, now, until)
        .issuer_name(authority.certificate.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer, critical=False)
        .add_extension(x509.SubjectAlternativeName(map(_alternative, sorted_names)), critical=False)
    )
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), key)


def server_names(certificate: x509.Certificate) -> frozenset[str]:
    """Returns the alternative names and addresses of a certificate."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = map(str, extension.get_values_for_type(x509.IPAddress))
    return frozenset((*extension.get_values_for_type(x509.DNSName), *addresses))


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether *authority* issued the certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def read_certificates(text: bytes) -> tuple[x509.Certificate, ...]:
    """Parses PEM certificates in order. Raises ValueError if there are none."""
    return tuple(x509.load_pem_x509_certificates(text))


def read_pair(certificates: bytes, key: bytes) -> KeyPair:
    """Parses the first certificate and the key. Raises ValueError if they are invalid or do not match."""
    certificate = read_certificates(certificates)[0]
    try:
        secret = serialization.load_pem_private_key(key, password=None)
    except TypeError as error:  # encrypted
        raise ValueError(str(error)) from error
    if not isinstance(secret, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not an elliptic curve key")
    if certificate.public_key() != secret.public_key():
        raise ValueError("the key does not match the certificate")
    return KeyPair(certificate, secret)


def certificates_to_pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Returns all certificates as one PEM text."""
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates)


def key_to_pem(pair: KeyPair) -> bytes:
    """Returns the unencrypted key as PEM."""
    return pair.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def utc_datetime(now: float) -> datetime:
    """Converts seconds since 1970."""
    return datetime.fromtimestamp(now, UTC)


def _builder(
    name: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _common_name(name: str) -> x509.Name:
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
