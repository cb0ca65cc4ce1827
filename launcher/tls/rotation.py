"""
Rotation of certificates, computed from the stored ones and the time.

A new CA is published before a certificate signed by it is used, and the old CA is trusted as long as certificates
signed by it are valid. Replicas that follow this rule never have to wait for each other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

from launcher.tls.certificate_authority import KeyPair, is_signed_by, new_authority, new_serving, server_names

#: Long, because users may have stored the CA certificate.
AUTHORITY_LIFETIME = timedelta(days=3650)
SERVING_LIFETIME = timedelta(days=90)
#: Time between the publication of a CA and its use.
PUBLICATION_PERIOD = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class StoredCertificates:
    """The stored certificates, as far as they are valid."""

    authority: KeyPair | None = None
    #: Newest first, including the current CA.
    trusted: tuple[x509.Certificate, ...] = ()
    serving: KeyPair | None = None
    #: Errors in the other parts.
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CertificateSet:
    """The CA, the trusted CAs and the serving certificate."""

    authority: KeyPair
    trusted: tuple[x509.Certificate, ...]
    serving: KeyPair


@dataclass(frozen=True, slots=True)
class RenewedCertificates:
    """The certificates to store, and the reasons for changes; without reasons nothing changed."""

    certificates: CertificateSet
    reasons: tuple[str, ...]


def renew_certificates(
    stored: StoredCertificates, names: frozenset[str], now: datetime, *, published: bool
) -> RenewedCertificates:
    """
    Computes the certificates for servers with these *names*.

    *published* is whether all clients have received the stored CA.
    """
    reasons = list(stored.errors)
    authority = stored.authority
    if authority is None or (reason := _authority_error(authority.certificate, now)):
        if authority is not None:
            reasons.append(f"the authority {reason}")
        authority = new_authority(now, AUTHORITY_LIFETIME)
    trusted = tuple(_trusted_authorities(authority.certificate, stored.trusted, now))
    if stored.authority is authority and trusted != stored.trusted:
        reasons.append("an old authority has expired")
    serving = stored.serving
    if serving is None or (reason := _serving_error(serving.certificate, trusted, names, now)):
        # Replicas may be configured with different names: removing names of others would cause endless rotation.
        new_names = names | (server_names(serving.certificate) if serving else frozenset())
    elif reason := _serving_renewal_reason(serving.certificate, authority, now, published=published):
        new_names = names
    else:
        return RenewedCertificates(CertificateSet(authority, trusted, serving), tuple(reasons))
    if serving is not None:
        reasons.append(f"the certificate {reason}")
    return RenewedCertificates(
        CertificateSet(authority, trusted, new_serving(authority, new_names, now, SERVING_LIFETIME)),
        tuple(reasons),
    )


def _trusted_authorities(
    authority: x509.Certificate, stored: tuple[x509.Certificate, ...], now: datetime
) -> Iterator[x509.Certificate]:
    yield authority
    yield from (
        certificate
        for certificate in stored
        if certificate != authority and now < certificate.not_valid_after_utc
    )


def _authority_error(certificate: x509.Certificate, now: datetime) -> str | None:
    return _validity_error(certificate, now) or _lifetime_error(certificate, now)


def _serving_error(
    certificate: x509.Certificate,
    trusted: tuple[x509.Certificate, ...],
    names: frozenset[str],
    now: datetime,
) -> str | None:
    """Returns why the certificate cannot be used any longer, or None."""
    if reason := _validity_error(certificate, now):
        return reason
    if not any(is_signed_by(certificate, authority) for authority in trusted):
        return "is not signed by a trusted authority"
    if missing := names - server_names(certificate):
        return f"lacks the names {', '.join(sorted(missing))}"
    return None


def _serving_renewal_reason(
    certificate: x509.Certificate, authority: KeyPair, now: datetime, *, published: bool
) -> str | None:
    """Returns why the certificate should be replaced, or None."""
    if is_signed_by(certificate, authority.certificate):
        return _lifetime_error(certificate, now)
    is_published = published and now >= authority.certificate.not_valid_before_utc + PUBLICATION_PERIOD
    if is_published or now >= certificate.not_valid_after_utc - PUBLICATION_PERIOD:
        return "is signed by an authority that was replaced"
    return None


def _validity_error(certificate: x509.Certificate, now: datetime) -> str | None:
    if now >= certificate.not_valid_after_utc:
        return "has expired"
    return "is not valid yet" if now < certificate.not_valid_before_utc else None


def _lifetime_error(certificate: x509.Certificate, now: datetime) -> str | None:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return "has reached two thirds of its lifetime" if now >= start + (end - start) * 2 / 3 else None
