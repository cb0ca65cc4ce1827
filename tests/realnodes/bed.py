"""A real control plane with real nodes, on one machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cluster.components import Component
from tests.cluster.controlplane import ControlPlane
from tests.cluster.nodes import is_ready
from tests.eventually import until
from tests.realnodes import images
from tests.realnodes.images import Image
from tests.realnodes.networks import Network
from tests.realnodes.node import Node

NAMES = ("node-1", "node-2")

_UNREACHABLE = ("node.kubernetes.io/unreachable", "NoExecute")


class RealNodes:
    """
    A control plane, and two nodes with kubelet, containerd and runc, each on its own simulated machine.

    Everything ends with the ``with`` block, and with this process, even if it is killed.
    """

    def __init__(self, directory: Path, programs: Path, node_programs: Path) -> None:
        """*programs* are those of the control plane."""
        self._directory, self._node_programs = directory, node_programs
        self._network = Network(directory / "switch")
        self.host_address = self._network.block.host_address
        self.plane = ControlPlane(directory / "plane", programs, nodes=0, address=self.host_address)
        self._connect_api_server()
        self.nodes: dict[str, Node] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts everything, and waits until the nodes are ready."""
        self.plane.start()
        for number, name in enumerate(NAMES, 1):
            self.nodes[name] = Node(name, self._directory / name, self._directory)
            self._network.add_node(self.nodes[name].machine, number)
        for number, node in enumerate(self.nodes.values(), 1):
            for other in range(1, len(NAMES) + 1):
                if other != number:
                    self._network.connect(node.machine, other)
            node.start_runtime(self._network.block.pods(number))
        self.load(images.pause(self._directory))
        self.load(images.busybox())
        for node in self.nodes.values():
            user = self.plane.certified_user(f"system:node:{node.name}", "system:nodes")
            kubelet, address = self._node_programs / "kubelet", self.address(node.name)
            node.start_kubelet(kubelet, address, self.plane.ca, user.kubeconfig)
            node.start_proxy(self._node_programs / "kube-proxy", self.plane.kubeconfig)
        for name in NAMES:
            self.wait_ready(name)

    def stop(self) -> None:
        """Ends everything but keeps the logs."""
        for node in self.nodes.values():
            node.machine.switch_off()
        self.plane.stop()
        self._network.end()

    def load(self, image: Image) -> None:
        """Imports the image on every node."""
        archive = self._directory / "image.tar"
        image.write(archive)
        for node in self.nodes.values():
            node.load(archive)
        archive.unlink()

    def address(self, name: str) -> str:
        """The address of the node."""
        return self._network.block.node(NAMES.index(name) + 1)

    def kill_container(self, pod: Any) -> None:
        """Kills the pod's only container."""
        self.nodes[pod["spec"]["nodeName"]].kill(_container_id(pod))

    def remove_container(self, pod: Any) -> None:
        """Kills the pod's only container, and removes every trace of it from the runtime."""
        self.nodes[pod["spec"]["nodeName"]].remove(_container_id(pod))

    def wait_ready(self, name: str) -> None:
        """Waits until the node is ready."""

        def probe() -> bool | None:
            response = self.plane.admin.request("GET", f"/api/v1/nodes/{name}")
            return (response.status == 200 and is_ready(response.body)) or None

        until(probe, f"{name} is ready")

    def wait_unreachable(self, name: str) -> None:
        """Waits until the control plane marks the node as unreachable."""
        path = f"/api/v1/nodes/{name}"

        def probe() -> bool | None:
            taints = self.plane.admin.get(path)["spec"].get("taints", ())
            return any((one["key"], one["effect"]) == _UNREACHABLE for one in taints) or None

        until(probe, f"{name} is unreachable")

    @contextmanager
    def unreachable(self, name: str) -> Iterator[None]:
        """Inside the block the node's kubelet is stopped and the node is unreachable."""
        node = self.nodes[name]
        node.kill_kubelet()
        try:
            self.wait_unreachable(name)
            yield
        finally:
            node.resume()
            self.wait_ready(name)

    def _connect_api_server(self) -> None:
        """Connects kube-apiserver with kubelets and pods."""
        user = self.plane.certified_user("kube-apiserver-kubelet-client", "system:masters")
        assert user.certificate is not None
        self.plane.add_flags(
            Component.APISERVER,
            f"--advertise-address={self.host_address}",
            "--authorization-mode=Node",  # beside RBAC
            "--enable-admission-plugins=NodeRestriction",
            f"--kubelet-client-certificate={user.certificate.certificate}",
            f"--kubelet-client-key={user.certificate.key}",
            "--kubelet-preferred-address-types=InternalIP",
            # Service addresses are routed on nodes only; this machine connects to the pods.
            "--enable-aggregator-routing=true",
            *self._aggregation_flags(),
        )
        # A node without heartbeats is detected early; the following steps are the default ones.
        self.plane.add_flags(
            Component.CONTROLLER_MANAGER, "--node-monitor-period=1s", "--node-monitor-grace-period=10s"
        )

    def _aggregation_flags(self) -> list[str]:
        """Those with which kube-apiserver passes on the user of a request to other API servers."""
        proxy = self.plane.certified_user("front-proxy-client").certificate
        assert proxy is not None
        return [
            f"--proxy-client-cert-file={proxy.certificate}",
            f"--proxy-client-key-file={proxy.key}",
            f"--requestheader-client-ca-file={self.plane.ca}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        ]


def _container_id(pod: Any) -> str:
    identity: str = pod["status"]["containerStatuses"][0]["containerID"]
    return identity.removeprefix("containerd://")
