"""How tasks find each other: the rooms where they wait, the routes to them, and what their pods are told of these."""

import resource
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from launcher.api.middleware.metrics import Gauge
from launcher.core.errors import NotFound
from launcher.rendezvous.discovery_hook import DiscoveryHook, LauncherEndpoint
from launcher.rendezvous.handler import Rendezvous
from launcher.rendezvous.session_manager import SessionManager
from launcher.rendezvous.tokens import Key, Tokens
from launcher.settings import ClusterSettings, InPod, Settings, url_of
from launcher.store.interface import Store

#: The Service in front of all replicas.
_SERVICE = "framework-launcher"


class RendezvousParts:
    """All that discovery is made of, over one store."""

    def __init__(self, store: Store, key: Key, where: Callable[[], Awaitable[LauncherEndpoint]]) -> None:
        tokens = Tokens(key)
        self.rooms = SessionManager(store)
        self.introducer = DiscoveryHook(tokens, where)
        self.rendezvous = Rendezvous(self.rooms, tokens)

    def waiting(self) -> Gauge:
        """How many pods wait."""
        return Gauge(
            "launcher_rendezvous_waiters",
            "Pods that wait for the addresses of their peers.",
            lambda: [((), float(self.rooms.waiters))],
        )


def raise_open_file_limit() -> None:
    """Let as many be connected as the system lets us: each pod that waits is, and so is each watch."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def authority_of(certificate: Path) -> str:
    """
    Whose word on that certificate counts, as PEM: what stands beside it as ``ca.crt``, as in Secrets of Kubernetes.

    Else the certificate itself, with its chain. Raises NotFound when it cannot be read.
    """
    beside = certificate.with_name("ca.crt")
    try:
        return (beside if beside.is_file() else certificate).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound(f"the launcher's certificate cannot be read: {error}") from error


def launcher_url(settings: Settings | ClusterSettings, sock: socket.socket, namespace: str = "") -> str:
    """The URL at which pods reach the launcher that listens at *sock*; *namespace* is its own on a cluster."""
    if settings.discovery_url:
        return settings.discovery_url
    if isinstance(settings, ClusterSettings) and isinstance(settings.cluster, InPod):
        return f"{'https' if settings.tls else 'http'}://{_SERVICE}.{namespace}.svc"
    host, port = sock.getsockname()[:2]
    if host not in ("0.0.0.0", "::"):  # noqa: S104 - nothing is bound here
        return url_of(settings, sock)
    name = settings.hosts[0] if settings.hosts else socket.gethostname()
    return f"{'https' if settings.tls else 'http'}://{name}:{port}"


def rendezvous_listener(port_file: Path) -> socket.socket:
    """A loopback socket, on the port of the previous start if it is free: running pods know the launcher by it."""
    try:
        sock = socket.create_server(("127.0.0.1", int(port_file.read_text())), backlog=1024)
    except (OSError, ValueError, OverflowError):
        sock = socket.create_server(("127.0.0.1", 0), backlog=1024)
    port_file.touch(mode=0o600)
    port_file.write_text(f"{sock.getsockname()[1]}\n")
    return sock
