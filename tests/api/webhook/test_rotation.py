"""When certificates are made anew."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.x509 import verification

from launcher.tls.certificate_authority import Pair, is_signed_by, names_of, new_authority, new_serving
from launcher.tls.rotation import (
    AUTHORITY_LIFE,
    NOTICE,
    SERVING_LIFE,
    CertificateSet,
    Renewal,
    StoredCertificates,
    renewed,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = frozenset({"launcher.default.svc", "127.0.0.1"})


def first() -> CertificateSet:
    return renewed(StoredCertificates(), NAMES, NOW, told=True).ring


def found(ring: CertificateSet) -> StoredCertificates:
    """The same, found again."""
    return StoredCertificates(ring.authority, ring.trusted, ring.serving)


def after(
    ring: CertificateSet, time: timedelta, *, told: bool = True, names: frozenset[str] = NAMES
) -> Renewal:
    return renewed(found(ring), names, NOW + time, told=told)


def is_trusted(ring: CertificateSet, serving: Pair, at: datetime) -> bool:
    """Whether a client that trusts what *ring* says takes what a server shows."""
    store = verification.Store(list(ring.trusted))
    verifier = verification.PolicyBuilder().store(store).time(at)
    try:
        verifier.build_server_verifier(x509.DNSName("launcher.default.svc")).verify(serving.certificate, [])
        verifier.build_server_verifier(x509.IPAddress(ip_address("127.0.0.1"))).verify(
            serving.certificate, []
        )
    except verification.VerificationError:
        return False
    return True


def test_where_nothing_is_everything_is_made() -> None:
    made = renewed(StoredCertificates(), NAMES, NOW, told=True)

    assert is_trusted(made.ring, made.ring.serving, NOW)
    assert names_of(made.ring.serving.certificate) == NAMES
    assert made.because == ()


def test_what_is_fresh_stays() -> None:
    ring = first()

    again = after(ring, timedelta(days=59))

    assert again.ring == ring
    assert again.because == ()


def test_a_clock_that_is_behind_by_minutes_takes_a_new_certificate() -> None:
    ring = first()

    assert is_trusted(ring, ring.serving, NOW - timedelta(minutes=30))


def test_a_certificate_is_renewed_when_two_thirds_of_its_life_are_over() -> None:
    ring = first()

    later = after(ring, SERVING_LIFE * 2 / 3 + timedelta(hours=1))

    assert later.ring.authority == ring.authority
    assert later.ring.serving != ring.serving
    assert "two thirds" in later.because[0]


STRANGERS = new_serving(new_authority(NOW, AUTHORITY_LIFE), NAMES, NOW, SERVING_LIFE)


@pytest.mark.parametrize(
    ("serving", "because"),
    [
        pytest.param(None, (), id="there is none"),
        pytest.param(
            STRANGERS,
            ("the certificate is signed by no authority that is trusted",),
            id="a stranger has signed it",
        ),
    ],
)
def test_a_certificate_that_is_no_good_is_replaced_at_once(
    serving: Pair | None, because: tuple[str, ...]
) -> None:
    ring = first()

    mended = renewed(replace(found(ring), serving=serving), NAMES, NOW, told=False)

    assert mended.ring.authority == ring.authority
    assert is_trusted(mended.ring, mended.ring.serving, NOW)
    assert mended.because == because


@pytest.mark.parametrize(
    ("at", "word"),
    [
        pytest.param(NOW + SERVING_LIFE, "has expired", id="too old"),
        pytest.param(NOW - timedelta(days=1), "is not valid yet", id="from the future"),
    ],
)
def test_a_certificate_out_of_its_time_is_replaced_at_once(at: datetime, word: str) -> None:
    ring = first()

    mended = renewed(found(ring), NAMES, at, told=False)

    assert is_trusted(mended.ring, mended.ring.serving, at)
    assert any(word in why for why in mended.because)


def test_those_who_want_other_names_come_to_an_agreement() -> None:
    ring = first()

    more = after(ring, timedelta(), names=frozenset({"launcher.example.com"}))
    back = after(more.ring, timedelta())

    assert names_of(more.ring.serving.certificate) == NAMES | {"launcher.example.com"}
    assert more.because == ("the certificate lacks the names launcher.example.com",)
    assert back.because == ()


# A new authority.


RETIRED = AUTHORITY_LIFE * 2 / 3 + timedelta(days=1)


def near_the_end() -> CertificateSet:
    """What is held when the authority is about to have a successor: a fresh certificate."""
    ring = first()
    serving = new_serving(ring.authority, NAMES, NOW + RETIRED, SERVING_LIFE)
    return replace(ring, serving=serving)


def test_a_new_authority_is_told_before_it_is_needed() -> None:
    ring = near_the_end()

    begun = after(ring, RETIRED)

    assert begun.ring.authority != ring.authority
    assert begun.ring.trusted == (begun.ring.authority.certificate, ring.authority.certificate)
    assert begun.ring.serving == ring.serving
    assert "two thirds" in begun.because[0]


def test_an_authority_is_used_when_everybody_has_been_told() -> None:
    begun = after(near_the_end(), RETIRED).ring

    soon = after(begun, RETIRED + NOTICE / 2)
    untold = after(begun, RETIRED + NOTICE, told=False)
    told = after(begun, RETIRED + NOTICE, told=True)

    assert soon.because == ()
    assert untold.because == ()
    assert is_signed_by(told.ring.serving.certificate, begun.authority.certificate)
    # Whoever has not been told of any change at all, and whoever shows the old one still, get on with each other.
    assert is_trusted(told.ring, begun.serving, NOW + RETIRED + NOTICE)


def test_rather_an_authority_that_was_not_told_than_a_certificate_that_has_expired() -> None:
    begun = after(near_the_end(), RETIRED).ring

    last = after(begun, RETIRED + SERVING_LIFE - NOTICE, told=False)

    assert is_signed_by(last.ring.serving.certificate, begun.authority.certificate)


def test_an_old_authority_is_trusted_as_long_as_anything_signed_by_it_is_valid() -> None:
    begun = after(near_the_end(), RETIRED).ring
    told = after(begun, RETIRED + NOTICE).ring
    old = begun.trusted[1]

    last_day = after(told, AUTHORITY_LIFE - timedelta(days=1)).ring
    over = after(last_day, AUTHORITY_LIFE)

    assert old in last_day.trusted
    assert over.ring.trusted == (begun.authority.certificate,)
    assert over.because == ("an old authority has expired",)


def test_a_certificate_does_not_outlive_its_authority() -> None:
    authority = new_authority(NOW, SERVING_LIFE / 2)

    serving = new_serving(authority, NAMES, NOW, SERVING_LIFE)

    assert serving.certificate.not_valid_after_utc == authority.certificate.not_valid_after_utc


def test_over_fifty_years_nobody_is_ever_shown_what_he_does_not_trust() -> None:
    ring, at = first(), NOW
    before = ring
    while at < NOW + timedelta(days=50 * 365):
        at += timedelta(days=20)
        before, ring = ring, renewed(found(ring), NAMES, at, told=True).ring

        # One of the two who talk with each other may be a look behind.
        assert is_trusted(ring, ring.serving, at)
        assert is_trusted(before, ring.serving, at)
        assert is_trusted(ring, before.serving, at)
