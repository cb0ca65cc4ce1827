"""metrics-server as a process of this machine, and its registration with kube-apiserver."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.controlplane import ControlPlane
from tests.cluster.ports import free_port
from tests.cluster.processes import Guard
from tests.eventually import TIMEOUT_SECONDS, until

GROUP = "metrics.k8s.io"
_NAME, _NAMESPACE = "metrics-server", "kube-system"
_REGISTRATIONS = "/apis/apiregistration.k8s.io/v1/apiservices"


@contextmanager
def metrics_server(program: Path, plane: ControlPlane, address: str, directory: Path) -> Iterator[None]:
    """Inside the block kube-apiserver serves ``metrics.k8s.io`` by a metrics-server at *address*."""
    directory.mkdir()
    guard, port = Guard(), free_port()
    argv = [str(program), *_flags(plane.kubeconfig, address, port.number, directory)]
    process = guard.start(argv, log=directory / "metrics-server.log", directory=directory)
    try:
        _register(plane, address, port.number)

        def is_available() -> bool | None:
            assert not process.ended(), process.log_tail()
            shown = plane.admin.get(f"{_REGISTRATIONS}/v1beta1.{GROUP}")
            conditions = shown.get("status", {}).get("conditions", ())
            return any(one["type"] == "Available" and one["status"] == "True" for one in conditions) or None

        until(is_available, f"{GROUP} is available")
        yield
    finally:
        plane.admin.request("DELETE", f"{_REGISTRATIONS}/v1beta1.{GROUP}")
        process.send(signal.SIGTERM)
        process.ended(within=TIMEOUT_SECONDS)
        process.close()
        guard.end()
        port.release()


def _flags(kubeconfig: Path, address: str, port: int, directory: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={address}",
        f"--secure-port={port}",
        f"--cert-dir={directory}",
        # Kubelets of the test bed have certificates that they have signed themselves.
        "--kubelet-insecure-tls",
        "--kubelet-preferred-address-types=InternalIP",
        # The shortest interval, which has to be longer than a request.
        "--metric-resolution=10s",
        "--kubelet-request-timeout=9s",
    ]


def _register(plane: ControlPlane, address: str, port: int) -> None:
    """Creates a Service whose endpoint is the process, and the APIService that refers to it."""
    core = f"/api/v1/namespaces/{_NAMESPACE}"
    ports = [{"name": "https", "port": 443, "targetPort": port, "protocol": "TCP"}]
    plane.admin.post(f"{core}/services", {"metadata": {"name": _NAME}, "spec": {"ports": ports}})
    slice_ = {
        "metadata": {"name": _NAME, "labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
    plane.admin.post(f"/apis/discovery.k8s.io/v1/namespaces/{_NAMESPACE}/endpointslices", slice_)
    spec = {
        "group": GROUP,
        "version": "v1beta1",
        "service": {"namespace": _NAMESPACE, "name": _NAME, "port": 443},
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    }
    plane.admin.post(_REGISTRATIONS, {"metadata": {"name": f"v1beta1.{GROUP}"}, "spec": spec})
