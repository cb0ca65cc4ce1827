"""The version of Kubernetes that the test bed runs, and its programs."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
#: One Go module for each version of Kubernetes (with one for its nodes below), one for kwok, one for Helm, one for
#: metrics-server, and one with the gang schedulers.
TOOLS = Path(__file__).parent / "tools"

DEFAULT = "1.36.3"

#: Program -> the Go package that it is built from.
KUBERNETES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
#: The programs of real nodes, which few tests need.
NODE = {
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
}
KWOK_MODULE = "sigs.k8s.io/kwok"
KWOK_VERSION = "0.8.0"
KWOK = {"kwok": f"{KWOK_MODULE}/cmd/kwok"}
HELM_MODULE = "helm.sh/helm/v4"
HELM_VERSION = "4.3.1"
HELM = {"helm": f"{HELM_MODULE}/cmd/helm"}
METRICS_SERVER_MODULE = "sigs.k8s.io/metrics-server"
METRICS_SERVER_VERSION = "0.9.0"
METRICS_SERVER = {"metrics-server": f"{METRICS_SERVER_MODULE}/cmd/metrics-server"}


@dataclass(frozen=True, slots=True)
class Version:
    """A release of Kubernetes."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @classmethod
    def read(cls, text: str) -> "Version":
        """Parses a release, with or without a leading v."""
        found = re.fullmatch(r"v?(\d+)\.(\d+)\.(\d+)", text)
        if found is None:
            raise ValueError(f"K8S={text}: name a release with three numbers, such as K8S={DEFAULT}")
        return cls(*map(int, found.groups()))


def chosen() -> Version:
    """The release that the environment variable K8S names, or the default."""
    return Version.read(os.environ.get("K8S") or DEFAULT)


def pinned() -> list[str]:
    """The releases that K8S may name."""
    return sorted(
        directory.name
        for directory in TOOLS.iterdir()
        if directory.name not in {"kwok", "helm", "metrics-server", "gangs"} and directory.is_dir()
    )
