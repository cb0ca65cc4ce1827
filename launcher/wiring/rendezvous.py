"""The parts of rendezvous: sessions, endpoints, and the hook that adds them to pods."""

import resource
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from launcher.api.middleware.metrics import CallbackGauge
from launcher.core.errors import NotFound
from launcher.rendezvous.discovery_hook import DiscoveryHook, LauncherEndpoint
from launcher.rendezvous.handler import RendezvousHandler
from launcher.rendezvous.heartbeats import HeartbeatRecorder
from launcher.rendezvous.session_manager import SessionManager
from launcher.rendezvous.tokens import KeyProvider, Tokens
from launcher.settings.cluster import ClusterSettings, InPod
from launcher.settings.local import Settings
from launcher.store.interface import Store
from launcher.wiring.listener import url_of

#: The Service in front of all replicas.
_SERVICE = "framework-launcher"


class RendezvousParts:
    """The parts of rendezvous over one store."""

    def __init__(
        self,
        store: Store,
        key_provider: KeyProvider,
        endpoint: Callable[[], Awaitable[LauncherEndpoint]],
        clock: Callable[[], float],
    ) -> None:
        tokens = Tokens(key_provider)
        self.sessions = SessionManager(store)
        self.hook = DiscoveryHook(tokens, endpoint)
        self.handler = RendezvousHandler(self.sessions, tokens, HeartbeatRecorder(store, clock))

    def waiters_gauge(self) -> CallbackGauge:
        """Gauge of waiting pods."""
        return CallbackGauge(
            "launcher_rendezvous_waiters",
            "Pods that wait for the addresses of their peers.",
            lambda: [((), float(self.sessions.waiters))],
        )


def raise_open_file_limit() -> None:
    """Raises the soft limit of open files to the hard limit: each waiting pod and each watch has a connection."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


def ca_bundle(certificate: Path) -> str:
    """
    Returns the CA certificate for *certificate* as PEM: ``ca.crt`` next to it, as in Kubernetes Secrets.

    Otherwise the certificate itself with its chain. Raises NotFound if it cannot be read.
    """
    ca_file = certificate.with_name("ca.crt")
    try:
        return (ca_file if ca_file.is_file() else certificate).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound(f"the launcher's certificate is not readable: {error}") from error


def launcher_url(settings: Settings | ClusterSettings, sock: socket.socket, namespace: str = "") -> str:
    """Returns the URL at which pods reach the launcher; *namespace* is that of the launcher on a cluster."""
    if settings.discovery_url:
        return settings.discovery_url
    if isinstance(settings, ClusterSettings) and isinstance(settings.cluster, InPod):
        return f"{'https' if settings.tls else 'http'}://{_SERVICE}.{namespace}.svc"
    host, port = sock.getsockname()[:2]
    if host not in ("0.0.0.0", "::"):  # noqa: S104 - nothing is bound here
        return url_of(settings, sock)
    name = settings.hosts[0] if settings.hosts else socket.gethostname()
    return f"{'https' if settings.tls else 'http'}://{name}:{port}"


def rendezvous_listener(port_file: Path, sock: socket.socket, host: str) -> None:
    """Listens with *sock* at *host*, on the previous port if it is free: running pods have that address."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, int(port_file.read_text())))
    except (OSError, ValueError, OverflowError):
        sock.bind((host, 0))
    sock.listen(1024)
    port_file.touch(mode=0o600)
    port_file.write_text(f"{sock.getsockname()[1]}\n")
