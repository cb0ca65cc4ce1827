"""A client TLS context whose certificates follow their files."""

import hashlib
import ssl
from pathlib import Path


class ClientTls:
    """
    TLS of connections to a cluster.

    Clusters rotate certificates while programs run. ``refresh`` loads changed files; open connections are not
    affected.
    """

    def __init__(
        self,
        authority: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        *,
        verify: bool = True,
        server_name: str | None = None,
    ) -> None:
        """
        *authority* is the CA of the server (None: the CAs of this machine).

        *certificate* and *key* are the client certificate; *server_name* is used if the address is not in the
        server's certificate.
        """
        self.server_name = server_name
        self.context = ssl.create_default_context(cafile=authority)
        # Clusters, written in Go, use certificates that Python 3.13 and later reject as not strict enough.
        self.context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not verify:
            self.context.check_hostname = False
            self.context.verify_mode = ssl.CERT_NONE
        self._authority, self._certificate, self._key = authority, certificate, key
        self._file_digests: dict[Path, bytes] = {}
        self._load_client_certificate()
        self._record_files()

    def without_client_certificate(self) -> "ClientTls":
        """Returns a context with the same CA but no client certificate, for connections on behalf of others."""
        verify = self.context.verify_mode != ssl.CERT_NONE
        return ClientTls(self._authority, verify=verify, server_name=self.server_name)

    def identify(self, certificate: Path, key: Path) -> None:
        """Sets the client certificate for new connections."""
        self._certificate, self._key = certificate, key
        self._load_client_certificate()
        self._record_files()

    def refresh(self) -> None:
        """Loads changed files. Raises OSError, and keeps the current certificates, if they are invalid."""
        previous = self._file_digests
        self._record_files()
        if previous == self._file_digests:
            return
        try:
            if self._authority is not None:
                # Added to the old CA, which servers not yet rotated still use.
                self.context.load_verify_locations(self._authority)
            self._load_client_certificate()
        except OSError:
            self._file_digests = previous  # partly written: checked again next time
            raise

    def _load_client_certificate(self) -> None:
        if self._certificate is not None:
            load_certificate_chain(self.context, self._certificate, self._key)

    def _record_files(self) -> None:
        self._file_digests = {
            path: digest for path in self._files() if (digest := _file_digest(path)) is not None
        }

    def _files(self) -> list[Path]:
        return [path for path in (self._authority, self._certificate, self._key) if path is not None]


def load_certificate_chain(context: ssl.SSLContext, certificate: Path | str, key: Path | str | None) -> None:
    """Loads a certificate into *context*. Raises OSError, and changes nothing, if certificate and key do not match."""
    # Loaded into another context first: a failed load would leave *context* without any certificate.
    ssl.SSLContext(context.protocol).load_cert_chain(certificate, key)
    context.load_cert_chain(certificate, key)


def _file_digest(path: Path) -> bytes | None:
    """
    Returns a digest of the file; None if it does not exist, for example while it is replaced.

    Not its modification time, which two writes within one clock tick share.
    """
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return None
