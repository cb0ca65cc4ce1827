"""Address and credentials of a cluster; those of the pod's service account. ``kubeconfig`` has the others."""

from dataclasses import dataclass
from pathlib import Path

from launcher.core.errors import BadRequest
from launcher.store.kubernetes.credentials import Credentials, TokenFile
from launcher.tls.client_context import ClientTls

#: Token and CA certificate in a pod.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """An API server and how to connect to it."""

    #: Without a trailing slash.
    url: str
    credentials: Credentials
    tls: ClientTls | None = None
    proxy: str | None = None
    #: Namespace of the launcher's own objects: that of its pod, or of the kubeconfig context.
    namespace: str = "default"


def from_service_account(host: str, port: str, account: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """
    Returns the cluster of this pod, with the pod's service account.

    *host* and *port* are the values of ``KUBERNETES_SERVICE_HOST`` and ``KUBERNETES_SERVICE_PORT``. Raises BadRequest
    if the pod has no service account.
    """
    token, authority = account / "token", account / "ca.crt"
    for path in (token, authority):
        if not path.is_file():
            raise BadRequest(
                f"{path} is missing: this pod has no service account (automountServiceAccountToken)"
            )
    bracketed = f"[{host}]" if ":" in host else host
    url = f"https://{bracketed}:{port}"
    return ClusterConfig(
        url, TokenFile(token), ClientTls(authority), namespace=_service_account_namespace(account)
    )


def _service_account_namespace(account: Path) -> str:
    try:
        return (account / "namespace").read_text().strip() or "default"
    except FileNotFoundError:
        return "default"
