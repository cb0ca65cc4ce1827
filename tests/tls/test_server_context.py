"""The certificate that clients see follows its files, and a bad pair of them does no harm."""

import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from launcher.tls.server_context import CertificateFiles, server_context
from tests.cluster.pki import Authority, Certificate


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[Certificate, Certificate]:
    return Authority(tmp_path / "one").server(), Authority(tmp_path / "two").server()


def installed(pair: Certificate, directory: Path) -> CertificateFiles:
    certificate, key = directory / "tls.crt", directory / "tls.key"
    certificate.write_bytes(pair.certificate.read_bytes())
    key.write_bytes(pair.key.read_bytes())
    return CertificateFiles(certificate, key)


async def shown(context: ssl.SSLContext) -> str:
    """What a client sees that connects now."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port), timeout=10)


async def test_new_certificate_files_are_loaded(
    pairs: tuple[Certificate, Certificate], tmp_path: Path
) -> None:
    old, new = pairs
    files = installed(old, tmp_path)
    before = await shown(files.context)

    (tmp_path / "tls.crt").write_bytes(new.certificate.read_bytes())
    (tmp_path / "tls.key").write_bytes(new.key.read_bytes())
    files.refresh()

    assert before == old.certificate.read_text()
    assert await shown(files.context) == new.certificate.read_text()


async def test_a_certificate_without_its_key_is_ignored_and_logged_once(
    pairs: tuple[Certificate, Certificate], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = pairs
    files = installed(old, tmp_path)

    (tmp_path / "tls.crt").write_bytes(new.certificate.read_bytes())
    files.refresh()
    files.refresh()

    assert await shown(files.context) == old.certificate.read_text()
    assert [record.message for record in caplog.records] == ["new certificate not loaded"]


async def test_missing_certificate_files_change_nothing(
    pairs: tuple[Certificate, Certificate], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    files = installed(pairs[0], tmp_path)

    (tmp_path / "tls.key").rename(tmp_path / "away")
    files.refresh()
    (tmp_path / "away").rename(tmp_path / "tls.key")
    files.refresh()

    assert await shown(files.context) == pairs[0].certificate.read_text()


def test_files_without_a_certificate_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")

    with pytest.raises(OSError, match="PEM"):
        CertificateFiles(tmp_path / "x", tmp_path / "x")


def test_old_tls_versions_are_not_supported() -> None:
    assert server_context().minimum_version == ssl.TLSVersion.TLSv1_2
