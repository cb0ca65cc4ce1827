"""The components of a control plane, and their command lines."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import yaml

from tests.cluster.audit import POLICY
from tests.cluster.pki import Authority

LOOPBACK = "127.0.0.1"
#: The cluster IPs of Services; that of kube-apiserver is the first.
_SERVICES = "10.96.0.0/16"
_FIRST_SERVICE = "10.96.0.1"
_STAGES = Path(__file__).with_name("stages.yaml")


class Component(StrEnum):
    """Components by the names of their programs, in the order in which they start."""

    ETCD = "etcd"
    APISERVER = "kube-apiserver"
    CONTROLLER_MANAGER = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"
    KWOK = "kwok"


@dataclass(frozen=True, slots=True)
class Layout:
    """The directory of a control plane, its ports, and the address of kube-apiserver."""

    directory: Path
    etcd: int
    peers: int
    apiserver: int
    address: str = LOOPBACK

    @property
    def audit(self) -> Path:
        return self.directory / "audit.log"

    @property
    def data(self) -> Path:
        """The data directory of etcd."""
        return self.directory / "etcd"


def arguments(
    layout: Layout, authority: Authority, tokens: Mapping[str, str], admin: Path, *, durable: bool
) -> dict[Component, list[str]]:
    """
    The arguments of each program; writes the files that they read.

    *tokens* are those of all users by name, of which ``admin`` has all permissions; *admin* is its kubeconfig.
    """
    signing, verifying = (str(path) for path in authority.service_accounts())
    return {
        Component.ETCD: _etcd(layout, durable),
        Component.APISERVER: [
            *_apiserver(layout, tokens),
            *_identity(authority, layout.address),
            f"--service-account-key-file={verifying}",
            f"--service-account-signing-key-file={signing}",
        ],
        Component.CONTROLLER_MANAGER: [
            *_client(admin, qps=500),
            f"--service-account-private-key-file={signing}",
            f"--root-ca-file={authority.certificate}",
            "--use-service-account-credentials=false",
        ],
        Component.SCHEDULER: _client(admin, qps=2000),
        Component.KWOK: [
            f"--kubeconfig={admin}",
            f"--config={_STAGES}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
            "--cidr=10.128.0.0/9",
        ],
    }


def _etcd(layout: Layout, durable: bool) -> list[str]:
    clients = f"http://127.0.0.1:{layout.etcd}"
    return [
        f"--data-dir={layout.data}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls=http://127.0.0.1:{layout.peers}",
        "--log-level=warn",
        *([] if durable else ["--unsafe-no-fsync"]),
    ]


def _apiserver(layout: Layout, tokens: Mapping[str, str]) -> list[str]:
    users = layout.directory / "tokens.csv"
    users.write_text("".join(f"{_row(name, token)}\n" for name, token in tokens.items()))
    policy = layout.directory / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY))
    layout.audit.touch()
    return [
        f"--etcd-servers=http://127.0.0.1:{layout.etcd}",
        f"--secure-port={layout.apiserver}",
        f"--bind-address={layout.address}",
        f"--service-cluster-ip-range={_SERVICES}",
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        f"--token-auth-file={users}",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={layout.audit}",
        # On SIGTERM it ends its watches; by default it waits a minute for them.
        "--shutdown-watch-termination-grace-period=10s",
        # No rotation: benchmarks count the requests of a whole run.
        "--audit-log-maxsize=100000",
    ]


def _identity(authority: Authority, address: str) -> list[str]:
    server = authority.server(address, _FIRST_SERVICE)
    return [
        f"--tls-cert-file={server.certificate}",
        f"--tls-private-key-file={server.key}",
        f"--client-ca-file={authority.certificate}",
        "--service-account-issuer=https://kubernetes.default.svc",
    ]


def _row(name: str, token: str) -> str:
    return f'{token},{name},{name},"system:masters"' if name == "admin" else f"{token},{name},{name}"


def _client(admin: Path, *, qps: int) -> list[str]:
    """With a client-side rate limit that does not limit benchmarks."""
    rate_limits = (f"--kube-api-qps={qps}", f"--kube-api-burst={qps * 2}")
    return [f"--kubeconfig={admin}", "--secure-port=0", "--leader-elect=false", *rate_limits]
