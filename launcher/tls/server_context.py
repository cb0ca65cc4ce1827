"""Server TLS contexts, and certificates loaded from files that are rotated."""

import asyncio
import hashlib
import logging
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from launcher.tls.client_context import load_certificate_chain


def load_pem_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """
    Loads a PEM certificate for new connections; open connections are not affected.

    Raises ssl.SSLError, and changes nothing, if certificate and key are invalid or do not match.
    """
    with _memory_file(certificate) as first, _memory_file(key) as second:
        load_certificate_chain(context, first, second)


@contextmanager
def _memory_file(content: bytes) -> Iterator[str]:
    """Yields the path of a file in memory, visible only to this process."""
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


log = logging.getLogger(__name__)

#: Interval between checks of the files.
_CHECK_SECONDS = 2.0


def server_context() -> ssl.SSLContext:
    """Returns a server context without a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class CertificateFiles:
    """A TLS context that follows its files. Open connections are not affected."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises OSError if the files have no certificate and key."""
        self._certificate, self._key = certificate, key
        self.context = server_context()
        self._digest = self._content_digest()
        self.context.load_cert_chain(certificate, key)

    async def run(self) -> None:
        """Reloads changed files until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            self.refresh()

    def refresh(self) -> None:
        """Reloads changed files. If they are invalid, logs it and keeps the certificate."""
        try:
            digest = self._content_digest()
            if digest == self._digest:
                return
            self._digest = digest
            load_certificate_chain(self.context, self._certificate, self._key)
        except OSError as error:
            log.warning(
                "new certificate not loaded", extra={"file": str(self._certificate), "error": str(error)}
            )
        else:
            log.info("new certificate loaded", extra={"file": str(self._certificate)})

    def _content_digest(self) -> bytes:
        """Returns a digest of the files. Not their modification times, which two writes within one clock tick share."""
        digest_of_files = hashlib.sha256()
        for path in (self._certificate, self._key):
            digest_of_files.update(path.read_bytes())
        return digest_of_files.digest()
