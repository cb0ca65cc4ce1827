"""What clients see when they connect: no TLS, files that somebody rotates, or a certificate of our own making."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from launcher.api.proxy.app import ask_for_certificates
from launcher.api.webhook.certificate_manager import CertificateManager
from launcher.core.errors import NotFound, Unavailable
from launcher.settings import ClusterSettings, InvalidSetting, TlsFiles
from launcher.store.interface import Store
from launcher.tls.certificate_authority import new_authority, time_of, written_certificates, written_key
from launcher.tls.server_context import CertificateFiles, show
from launcher.wiring.rendezvous import authority_of

#: Far longer than it takes to get a better one, and short enough to be of no use to anybody.
_PROVISIONAL = timedelta(days=1)
#: Seconds that pods wait for the first certificate.
_PATIENCE = 10.0


class ServingCertificate:
    """The TLS context of one launcher, from the settings."""

    def __init__(self, settings: ClusterSettings, store: Store, namespace: str) -> None:
        """Raises InvalidSetting for files that cannot be used."""
        self.context: ssl.SSLContext | None = None
        self._files: CertificateFiles | None = None
        self._certificate: Path | None = None
        self._patience = _PATIENCE
        self._keeper: CertificateManager | None = None
        self._shown = True
        match settings.tls:
            case TlsFiles() as files:
                self._files, self._certificate = certificate_files(files), files.certificate
                self.context = self._files.context
            case str() as secret:
                self._keeper = CertificateManager(store, namespace, names=settings.hosts, secret=secret)
                self.context, self._shown = self._keeper.context, False
                _show_provisional(self.context)
            case None:
                pass
        if self.context is not None and settings.client_ca is not None:
            try:
                ask_for_certificates(self.context, settings.client_ca)
            except OSError as error:
                raise InvalidSetting(f"client-ca: {settings.client_ca}: {error}") from error

    async def is_shown(self) -> None:
        """A check for ``/readyz``. Raises Unavailable as long as there is no certificate that clients trust."""
        if not self._shown:
            raise Unavailable("there is no certificate yet")

    async def authority(self) -> str:
        """
        Whose word on our certificate counts, as PEM; empty where there is no TLS.

        Raises NotFound if there is no certificate even after a while.
        """
        if self._certificate is not None:
            return authority_of(self._certificate)
        if self._keeper is None:
            return ""
        try:
            async with asyncio.timeout(self._patience):
                return (await self._keeper.authority()).decode()
        except TimeoutError as error:
            self._patience = 0.0  # who comes next need not wait as long for nothing
            raise NotFound("the launcher has no certificate yet that pods could trust") from error

    def refresh(self) -> None:
        """Take up files that have changed; what cannot be used is logged, and the old certificate stays."""
        if self._files is not None:
            self._files.refresh()

    async def run(self, granted: Callable[[], Awaitable[None]]) -> None:
        """Keep the certificate fresh until cancelled; nothing is asked of the cluster before it is *granted*."""
        if self._files is not None:
            await self._files.run()
        if self._keeper is not None:
            await granted()
            await self._keeper.prepare()
            self._shown = True
            await self._keeper.run()


def certificate_files(files: TlsFiles) -> CertificateFiles:
    """What follows these files. Raises InvalidSetting when they hold no certificate and its key."""
    try:
        return CertificateFiles(files.certificate, files.key)
    except OSError as error:
        raise InvalidSetting(
            f"tls-cert: {files.certificate} and {files.key} are no certificate and its key: {error}"
        ) from error


def _show_provisional(context: ssl.SSLContext) -> None:
    """Let probes, which trust anybody, be answered while the cluster that keeps the certificate cannot be reached."""
    pair = new_authority(time_of(time.time()), _PROVISIONAL)
    show(context, written_certificates([pair.certificate]), written_key(pair))
