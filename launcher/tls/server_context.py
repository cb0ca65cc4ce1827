"""The certificate that clients see, out of files that somebody else replaces when its time comes."""

import asyncio
import hashlib
import logging
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from launcher.tls.client_context import load_certificate_chain


def show(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """
    From now on new connections of *context* are shown this certificate; those that are open go on as they are.

    Raises ssl.SSLError when the two, as PEM, are none or do not belong together; then nothing has changed.
    """
    with _file(certificate) as first, _file(key) as second:
        load_certificate_chain(context, first, second)


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """The path of a file in memory that only this process can see."""
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


log = logging.getLogger(__name__)

#: Seconds between two looks at the files.
_LOOK_AGAIN = 2.0


def server_context() -> ssl.SSLContext:
    """What a server asks of every client's connection; it has no certificate yet."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class CertificateFiles:
    """
    A TLS context that follows its files.

    New connections get the new certificate; those that are open go on as they are.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises OSError when the files hold no certificate and its key."""
        self._certificate, self._key = certificate, key
        self.context = server_context()
        self._seen = self._look()
        self.context.load_cert_chain(certificate, key)

    async def run(self) -> None:
        """Follow the files until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_AGAIN)
            self.refresh()

    def refresh(self) -> None:
        """Take up what has changed. What cannot be used is told in the log, and the old certificate goes on."""
        try:
            seen = self._look()
            if seen == self._seen:
                return
            self._seen = seen
            load_certificate_chain(self.context, self._certificate, self._key)
        except OSError as error:
            log.warning("new certificate not read", extra={"file": str(self._certificate), "why": str(error)})
        else:
            log.info("new certificate read", extra={"file": str(self._certificate)})

    def _look(self) -> bytes:
        """What changes with the files; not their times, which two writings within one tick of the clock share."""
        together = hashlib.sha256()
        for path in (self._certificate, self._key):
            together.update(path.read_bytes())
        return together.digest()
