"""The programs that a control plane is made of, and how each is started."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import yaml

from tests.cluster.audit import POLICY
from tests.cluster.pki import Authority

LOOPBACK = "127.0.0.1"
#: Of all services; kube-apiserver itself is the first.
_SERVICES = "10.96.0.0/16"
_FIRST_SERVICE = "10.96.0.1"
_STAGES = Path(__file__).with_name("stages.yaml")


class Part(StrEnum):
    """Each by the name of its program, in the order in which they start."""

    ETCD = "etcd"
    APISERVER = "kube-apiserver"
    CONTROLLER_MANAGER = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"
    KWOK = "kwok"


@dataclass(frozen=True, slots=True)
class Places:
    """Where a control plane lives: its files, its ports on loopback, and the address at which kube-apiserver is."""

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
        """Of etcd: everything that the cluster knows."""
        return self.directory / "etcd"


def arguments(
    places: Places, authority: Authority, tokens: Mapping[str, str], admin: Path, *, durable: bool
) -> dict[Part, list[str]]:
    """
    What each program is told; writes the files that they read.

    *tokens* are those of all users by name, of whom ``admin`` may do everything; *admin* is the kubeconfig of that one.
    """
    signing, proving = (str(path) for path in authority.service_accounts())
    return {
        Part.ETCD: _etcd(places, durable),
        Part.APISERVER: [
            *_apiserver(places, tokens),
            *_identity(authority, places.address),
            f"--service-account-key-file={proving}",
            f"--service-account-signing-key-file={signing}",
        ],
        Part.CONTROLLER_MANAGER: [
            *_client(admin, qps=500),
            f"--service-account-private-key-file={signing}",
            f"--root-ca-file={authority.certificate}",
            "--use-service-account-credentials=false",
        ],
        Part.SCHEDULER: _client(admin, qps=2000),
        Part.KWOK: [
            f"--kubeconfig={admin}",
            f"--config={_STAGES}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
            "--cidr=10.128.0.0/9",
        ],
    }


def _etcd(places: Places, durable: bool) -> list[str]:
    clients = f"http://127.0.0.1:{places.etcd}"
    return [
        f"--data-dir={places.data}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls=http://127.0.0.1:{places.peers}",
        "--log-level=warn",
        *([] if durable else ["--unsafe-no-fsync"]),
    ]


def _apiserver(places: Places, tokens: Mapping[str, str]) -> list[str]:
    users = places.directory / "tokens.csv"
    users.write_text("".join(f"{_row(name, token)}\n" for name, token in tokens.items()))
    policy = places.directory / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY))
    places.audit.touch()
    return [
        f"--etcd-servers=http://127.0.0.1:{places.etcd}",
        f"--secure-port={places.apiserver}",
        f"--bind-address={places.address}",
        f"--service-cluster-ip-range={_SERVICES}",
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        f"--token-auth-file={users}",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={places.audit}",
        # Told to end, it ends its watches; else it waits a minute for them.
        "--shutdown-watch-termination-grace-period=10s",
        # One file for good: it counts all of a bench.
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
    """As fast as kube-apiserver answers: the pace that a bench looks at is its own."""
    pace = (f"--kube-api-qps={qps}", f"--kube-api-burst={qps * 2}")
    return [f"--kubeconfig={admin}", "--secure-port=0", "--leader-elect=false", *pace]
