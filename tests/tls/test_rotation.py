"""Rotation of certificates."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.x509 import verification

from launcher.tls.certificate_authority import KeyPair, is_signed_by, new_authority, new_serving, server_names
from launcher.tls.rotation import (
    AUTHORITY_LIFETIME,
    PUBLICATION_PERIOD,
    SERVING_LIFETIME,
    CertificateSet,
    RenewedCertificates,
    StoredCertificates,
    renew_certificates,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = frozenset({"launcher.default.svc", "127.0.0.1"})


def first() -> CertificateSet:
    return renew_certificates(StoredCertificates(), NAMES, NOW, published=True).certificates


def found(current: CertificateSet) -> StoredCertificates:
    """The same, found again."""
    return StoredCertificates(current.authority, current.trusted, current.serving)


def after(
    current: CertificateSet, time: timedelta, *, published: bool = True, names: frozenset[str] = NAMES
) -> RenewedCertificates:
    return renew_certificates(found(current), names, NOW + time, published=published)


def is_trusted(current: CertificateSet, serving: KeyPair, at: datetime) -> bool:
    """Whether a client that trusts the bundle of *current* accepts *serving*."""
    store = verification.Store(list(current.trusted))
    verifier = verification.PolicyBuilder().store(store).time(at)
    try:
        verifier.build_server_verifier(x509.DNSName("launcher.default.svc")).verify(serving.certificate, [])
        verifier.build_server_verifier(x509.IPAddress(ip_address("127.0.0.1"))).verify(
            serving.certificate, []
        )
    except verification.VerificationError:
        return False
    return True


def test_without_stored_certificates_all_are_created() -> None:
    made = renew_certificates(StoredCertificates(), NAMES, NOW, published=True)

    assert is_trusted(made.certificates, made.certificates.serving, NOW)
    assert server_names(made.certificates.serving.certificate) == NAMES
    assert made.reasons == ()


def test_a_fresh_certificate_is_kept() -> None:
    current = first()

    again = after(current, timedelta(days=59))

    assert again.certificates == current
    assert again.reasons == ()


def test_a_clock_that_is_minutes_behind_accepts_a_new_certificate() -> None:
    current = first()

    assert is_trusted(current, current.serving, NOW - timedelta(minutes=30))


def test_a_certificate_is_rotated_after_two_thirds_of_its_lifetime() -> None:
    current = first()

    later = after(current, SERVING_LIFETIME * 2 / 3 + timedelta(hours=1))

    assert later.certificates.authority == current.authority
    assert later.certificates.serving != current.serving
    assert "two thirds" in later.reasons[0]


OTHER_AUTHORITY = new_serving(new_authority(NOW, AUTHORITY_LIFETIME), NAMES, NOW, SERVING_LIFETIME)


@pytest.mark.parametrize(
    ("serving", "reason"),
    [
        pytest.param(None, (), id="no certificate"),
        pytest.param(
            OTHER_AUTHORITY,
            ("the certificate is not signed by a trusted authority",),
            id="a stranger has signed it",
        ),
    ],
)
def test_an_invalid_certificate_is_replaced(serving: KeyPair | None, reason: tuple[str, ...]) -> None:
    current = first()

    corrected = renew_certificates(replace(found(current), serving=serving), NAMES, NOW, published=False)

    assert corrected.certificates.authority == current.authority
    assert is_trusted(corrected.certificates, corrected.certificates.serving, NOW)
    assert corrected.reasons == reason


@pytest.mark.parametrize(
    ("at", "word"),
    [
        pytest.param(NOW + SERVING_LIFETIME, "has expired", id="too old"),
        pytest.param(NOW - timedelta(days=1), "is not valid yet", id="from the future"),
    ],
)
def test_a_certificate_outside_of_its_validity_is_replaced(at: datetime, word: str) -> None:
    current = first()

    corrected = renew_certificates(found(current), NAMES, at, published=False)

    assert is_trusted(corrected.certificates, corrected.certificates.serving, at)
    assert any(word in reason for reason in corrected.reasons)


def test_launchers_with_different_names_converge() -> None:
    current = first()

    more = after(current, timedelta(), names=frozenset({"launcher.example.com"}))
    renewed = after(more.certificates, timedelta())

    assert server_names(more.certificates.serving.certificate) == NAMES | {"launcher.example.com"}
    assert more.reasons == ("the certificate lacks the names launcher.example.com",)
    assert renewed.reasons == ()


# A new authority.


RETIRED = AUTHORITY_LIFETIME * 2 / 3 + timedelta(days=1)


def near_the_end() -> CertificateSet:
    """What is held when the authority is about to have a successor: a fresh certificate."""
    current = first()
    serving = new_serving(current.authority, NAMES, NOW + RETIRED, SERVING_LIFETIME)
    return replace(current, serving=serving)


def test_a_new_authority_is_published_before_it_is_used() -> None:
    current = near_the_end()

    begun = after(current, RETIRED)

    assert begun.certificates.authority != current.authority
    assert begun.certificates.trusted == (
        begun.certificates.authority.certificate,
        current.authority.certificate,
    )
    assert begun.certificates.serving == current.serving
    assert "two thirds" in begun.reasons[0]


def test_an_authority_is_used_after_it_is_published() -> None:
    begun = after(near_the_end(), RETIRED).certificates

    soon = after(begun, RETIRED + PUBLICATION_PERIOD / 2)
    unpublished = after(begun, RETIRED + PUBLICATION_PERIOD, published=False)
    published = after(begun, RETIRED + PUBLICATION_PERIOD, published=True)

    assert soon.reasons == ()
    assert unpublished.reasons == ()
    assert is_signed_by(published.certificates.serving.certificate, begun.authority.certificate)
    # Clients with the old bundle and servers with the old certificate stay compatible with the new ones.
    assert is_trusted(published.certificates, begun.serving, NOW + RETIRED + PUBLICATION_PERIOD)


def test_an_unpublished_authority_is_preferred_to_an_expired_certificate() -> None:
    begun = after(near_the_end(), RETIRED).certificates

    last = after(begun, RETIRED + SERVING_LIFETIME - PUBLICATION_PERIOD, published=False)

    assert is_signed_by(last.certificates.serving.certificate, begun.authority.certificate)


def test_an_old_authority_is_trusted_as_long_as_anything_signed_by_it_is_valid() -> None:
    begun = after(near_the_end(), RETIRED).certificates
    published = after(begun, RETIRED + PUBLICATION_PERIOD).certificates
    old = begun.trusted[1]

    last_day = after(published, AUTHORITY_LIFETIME - timedelta(days=1)).certificates
    outdated = after(last_day, AUTHORITY_LIFETIME)

    assert old in last_day.trusted
    assert outdated.certificates.trusted == (begun.authority.certificate,)
    assert outdated.reasons == ("an old authority has expired",)


def test_a_certificate_does_not_outlive_its_authority() -> None:
    authority = new_authority(NOW, SERVING_LIFETIME / 2)

    serving = new_serving(authority, NAMES, NOW, SERVING_LIFETIME)

    assert serving.certificate.not_valid_after_utc == authority.certificate.not_valid_after_utc


def test_clients_trust_every_certificate_over_fifty_years() -> None:
    current, at = first(), NOW
    before = current
    while at < NOW + timedelta(days=50 * 365):
        at += timedelta(days=20)
        before, current = current, renew_certificates(found(current), NAMES, at, published=True).certificates

        # One of client and server may be one reconcile behind.
        assert is_trusted(current, current.serving, at)
        assert is_trusted(before, current.serving, at)
        assert is_trusted(current, before.serving, at)
