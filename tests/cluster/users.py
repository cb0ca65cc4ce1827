"""Users of kube-apiserver and their credentials."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.pki import Certificate


@dataclass(frozen=True, slots=True)
class User:
    """A name, a token or a certificate, and the kubeconfig with it."""

    name: str
    kubeconfig: Path
    token: str = ""
    certificate: Certificate | None = None


def kubeconfig(url: str, authority: Path, proof: str | Certificate) -> str:
    """The text of a kubeconfig."""
    if isinstance(proof, str):
        user = {"token": proof}
    else:
        user = {"client-certificate": str(proof.certificate), "client-key": str(proof.key)}
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bed", "cluster": {"server": url, "certificate-authority": str(authority)}}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": "user"}}],
        "current-context": "bed",
    }
    return yaml.safe_dump(config)
