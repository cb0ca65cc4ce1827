"""The serving certificate: none, from files, or managed in a Secret."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from launcher.api.proxy.app import request_client_certificates
from launcher.api.webhook.certificate_manager import CertificateManager
from launcher.core.errors import NotFound, Unavailable
from launcher.settings.cluster import ClusterSettings
from launcher.settings.sources import TlsFiles
from launcher.settings.values import InvalidSetting
from launcher.store.interface import Store
from launcher.tls.certificate_authority import certificates_to_pem, key_to_pem, new_authority, utc_datetime
from launcher.tls.server_context import CertificateFiles, load_pem_chain
from launcher.wiring.rendezvous import ca_bundle

#: Much longer than it takes to get the real certificate, and too short to be misused.
_PROVISIONAL_LIFETIME = timedelta(days=1)
#: Time that pods wait for the first certificate.
_FIRST_CERTIFICATE_SECONDS = 10.0


class ServingCertificate:
    """The TLS context of the server, from the settings."""

    def __init__(self, settings: ClusterSettings, store: Store, namespace: str) -> None:
        """Raises InvalidSetting if the files are invalid."""
        self.context: ssl.SSLContext | None = None
        self._files: CertificateFiles | None = None
        self._certificate: Path | None = None
        self._wait_seconds = _FIRST_CERTIFICATE_SECONDS
        self._manager: CertificateManager | None = None
        self._is_available = True
        match settings.tls:
            case TlsFiles() as files:
                self._files, self._certificate = certificate_files(files), files.certificate
                self.context = self._files.context
            case str() as secret:
                self._manager = CertificateManager(store, namespace, names=settings.hosts, secret=secret)
                self.context, self._is_available = self._manager.context, False
                _load_provisional(self.context)
            case None:
                pass
        if self.context is not None and settings.client_ca is not None:
            try:
                request_client_certificates(self.context, settings.client_ca)
            except OSError as error:
                raise InvalidSetting(f"client-ca: {settings.client_ca}: {error}") from error

    async def check(self) -> None:
        """Readiness check. Raises Unavailable while there is no trusted certificate."""
        if not self._is_available:
            raise Unavailable("no certificate is available yet")

    async def authority(self) -> str:
        """
        Returns the CA certificate as PEM, empty without TLS.

        Raises NotFound if there is none after some time.
        """
        if self._certificate is not None:
            return ca_bundle(self._certificate)
        if self._manager is None:
            return ""
        try:
            async with asyncio.timeout(self._wait_seconds):
                return (await self._manager.authority()).decode()
        except TimeoutError as error:
            self._wait_seconds = 0.0  # later requests do not wait again
            raise NotFound("the launcher has no trusted certificate yet") from error

    def refresh(self) -> None:
        """Reloads changed files; if they are invalid, logs it and keeps the certificate."""
        if self._files is not None:
            self._files.refresh()

    async def run(self, granted: Callable[[], Awaitable[None]]) -> None:
        """Keeps the certificate up to date until cancelled; sends no request to the cluster before *granted*."""
        if self._files is not None:
            await self._files.run()
        if self._manager is not None:
            await granted()
            await self._manager.prepare()
            self._is_available = True
            await self._manager.run()


def certificate_files(files: TlsFiles) -> CertificateFiles:
    """Returns a context that follows the files. Raises InvalidSetting if they have no certificate and key."""
    try:
        return CertificateFiles(files.certificate, files.key)
    except OSError as error:
        raise InvalidSetting(
            f"tls-cert: {files.certificate} and {files.key} are not a certificate and its key: {error}"
        ) from error


def _load_provisional(context: ssl.SSLContext) -> None:
    """Loads a self-signed certificate for probes, which do not verify it, until the Secret can be read."""
    pair = new_authority(utc_datetime(time.time()), _PROVISIONAL_LIFETIME)
    load_pem_chain(context, certificates_to_pem([pair.certificate]), key_to_pem(pair))
