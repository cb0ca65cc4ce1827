"""A TLS context whose certificates follow their files."""

import hashlib
import ssl
from pathlib import Path


class ClientTls:
    """
    How connections to a cluster are made safe.

    Clusters rotate their certificates while programs run. ``refresh`` takes up what has changed; connections that are
    open already go on as they are.
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
        *authority* signs the server's certificate (None: whom this machine trusts).

        *certificate* and *key* are ours; *server_name* stands in the server's certificate if its address does not.
        """
        self.server_name = server_name
        self.context = ssl.create_default_context(cafile=authority)
        # Go, which clusters are made with, takes certificates that Python from 3.13 on finds too loosely written.
        self.context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not verify:
            self.context.check_hostname = False
            self.context.verify_mode = ssl.CERT_NONE
        self._authority, self._certificate, self._key = authority, certificate, key
        self._seen: dict[Path, bytes] = {}
        self._load_own()
        self._note()

    def without_client_certificate(self) -> "ClientTls":
        """Another with the same trust, and no certificate of ours: for connections on behalf of others."""
        verify = self.context.verify_mode != ssl.CERT_NONE
        return ClientTls(self._authority, verify=verify, server_name=self.server_name)

    def identify(self, certificate: Path, key: Path) -> None:
        """From the next connection on, this is our certificate."""
        self._certificate, self._key = certificate, key
        self._load_own()
        self._note()

    def refresh(self) -> None:
        """Read again what has changed on disk. Raises OSError; then the old goes on to serve."""
        seen = self._seen
        self._note()
        if seen == self._seen:
            return
        try:
            if self._authority is not None:
                # Added to the old one, which servers not yet rotated still use.
                self.context.load_verify_locations(self._authority)
            self._load_own()
        except OSError:
            self._seen = seen  # half written: look again next time
            raise

    def _load_own(self) -> None:
        if self._certificate is not None:
            load_certificate_chain(self.context, self._certificate, self._key)

    def _note(self) -> None:
        self._seen = {path: found for path in self._files() if (found := _looks(path)) is not None}

    def _files(self) -> list[Path]:
        return [path for path in (self._authority, self._certificate, self._key) if path is not None]


def load_certificate_chain(context: ssl.SSLContext, certificate: Path | str, key: Path | str | None) -> None:
    """From now on *context* shows this certificate. Raises OSError when the two do not fit; then it has the old one."""
    # Tried on another context first: one that has taken a certificate whose key does not fit has neither.
    ssl.SSLContext(context.protocol).load_cert_chain(certificate, key)
    context.load_cert_chain(certificate, key)


def _looks(path: Path) -> bytes | None:
    """
    What changes with the file; None when it is not there, as for a moment while it is replaced.

    Not its time: two writings within one tick of the kernel's clock bear the same.
    """
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return None
