"""
When certificates are made anew: decided from what is held and the time.

An authority's successor is told to everybody before anybody shows a certificate that it has signed, and the old one is
trusted as long as one signed by it could be valid. So no two who keep to this ever have to wait for each other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

from launcher.tls.certificate_authority import Pair, is_signed_by, names_of, new_authority, new_serving

#: Users may have written the authority into files of theirs, so it lasts.
AUTHORITY_LIFE = timedelta(days=3650)
SERVING_LIFE = timedelta(days=90)
#: How long an authority is told of before it is needed.
NOTICE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class StoredCertificates:
    """What was held so far, as far as it can be used."""

    authority: Pair | None = None
    #: Newest first, the authority among them.
    trusted: tuple[x509.Certificate, ...] = ()
    serving: Pair | None = None
    #: What is wrong with the rest.
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CertificateSet:
    """Who signs, whom to trust, and what a server shows."""

    authority: Pair
    trusted: tuple[x509.Certificate, ...]
    serving: Pair


@dataclass(frozen=True, slots=True)
class Renewal:
    """What is held from now on, and why it is not what was found; no reason, no change."""

    ring: CertificateSet
    because: tuple[str, ...]


def renewed(found: StoredCertificates, names: frozenset[str], now: datetime, *, told: bool) -> Renewal:
    """
    What to hold at that time, for servers called by these *names*.

    *told* says whether everybody has been told of the authority that was found.
    """
    because = list(found.faults)
    authority = found.authority
    if authority is None or (why := _authority_fault(authority.certificate, now)):
        if authority is not None:
            because.append(f"the authority {why}")
        authority = new_authority(now, AUTHORITY_LIFE)
    trusted = tuple(_trusted(authority.certificate, found.trusted, now))
    if found.authority is authority and trusted != found.trusted:
        because.append("an old authority has expired")
    serving = found.serving
    if serving is None or (why := _serving_fault(serving.certificate, trusted, names, now)):
        # Others who share it may want other names: to take theirs away would begin an endless quarrel.
        wanted = names | (names_of(serving.certificate) if serving else frozenset())
    elif why := _serving_due(serving.certificate, authority, now, told=told):
        wanted = names
    else:
        return Renewal(CertificateSet(authority, trusted, serving), tuple(because))
    if serving is not None:
        because.append(f"the certificate {why}")
    return Renewal(
        CertificateSet(authority, trusted, new_serving(authority, wanted, now, SERVING_LIFE)), tuple(because)
    )


def _trusted(
    authority: x509.Certificate, others: tuple[x509.Certificate, ...], now: datetime
) -> Iterator[x509.Certificate]:
    yield authority
    yield from (other for other in others if other != authority and now < other.not_valid_after_utc)


def _authority_fault(certificate: x509.Certificate, now: datetime) -> str | None:
    return _time_fault(certificate, now) or _worn(certificate, now)


def _serving_fault(
    certificate: x509.Certificate,
    trusted: tuple[x509.Certificate, ...],
    names: frozenset[str],
    now: datetime,
) -> str | None:
    """Why nobody can be shown this certificate any longer."""
    if why := _time_fault(certificate, now):
        return why
    if not any(is_signed_by(certificate, authority) for authority in trusted):
        return "is signed by no authority that is trusted"
    if lacking := names - names_of(certificate):
        return f"lacks the names {', '.join(sorted(lacking))}"
    return None


def _serving_due(certificate: x509.Certificate, authority: Pair, now: datetime, *, told: bool) -> str | None:
    """Why it is time for another."""
    if is_signed_by(certificate, authority.certificate):
        return _worn(certificate, now)
    noticed = told and now >= authority.certificate.not_valid_before_utc + NOTICE
    if noticed or now >= certificate.not_valid_after_utc - NOTICE:
        return "is signed by an authority that has a successor"
    return None


def _time_fault(certificate: x509.Certificate, now: datetime) -> str | None:
    if now >= certificate.not_valid_after_utc:
        return "has expired"
    return "is not valid yet" if now < certificate.not_valid_before_utc else None


def _worn(certificate: x509.Certificate, now: datetime) -> str | None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return "has had two thirds of its life" if now >= begin + (end - begin) * 2 / 3 else None
