"""A real control plane with real nodes, on one machine."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cluster.controlplane import ControlPlane
from tests.cluster.nodes import is_ready
from tests.cluster.parts import Part
from tests.local.server import until
from tests.realnodes import images
from tests.realnodes.images import Image
from tests.realnodes.networks import Network
from tests.realnodes.node import Node

NAMES = ("node-1", "node-2")

_UNREACHABLE = ("node.kubernetes.io/unreachable", "NoExecute")


class RealNodes:
    """
    A control plane, and two nodes with kubelet, containerd and runc, each on a machine of its own.

    Everything ends with the ``with`` block, and with the process that made it, even if that is killed.
    """

    def __init__(self, directory: Path, programs: Path, node_programs: Path) -> None:
        """*programs* are those of the control plane."""
        self._directory, self._node_programs = directory, node_programs
        self._network = Network(directory / "switch")
        self.here = self._network.block.here
        self.plane = ControlPlane(directory / "plane", programs, nodes=0, address=self.here)
        self._know_nodes()
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
        """Return when pods run."""
        self.plane.start()
        for number, name in enumerate(NAMES, 1):
            self.nodes[name] = Node(name, self._directory / name, self._directory)
            self._network.plug(self.nodes[name].machine, number)
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
            self.ready(name)

    def stop(self) -> None:
        """End everything; the logs stay."""
        for node in self.nodes.values():
            node.machine.switch_off()
        self.plane.stop()
        self._network.end()

    def load(self, image: Image) -> None:
        """Have that image on every node."""
        archive = self._directory / "image.tar"
        image.write(archive)
        for node in self.nodes.values():
            node.load(archive)
        archive.unlink()

    def address(self, name: str) -> str:
        """Where that node is."""
        return self._network.block.node(NAMES.index(name) + 1)

    def kill_container(self, pod: Any) -> None:
        """End the one container of that pod, as a crash does."""
        identity = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        self.nodes[pod["spec"]["nodeName"]].kill(identity)

    def ready(self, name: str) -> None:
        """Return when that node takes pods."""

        def look() -> bool | None:
            answer = self.plane.admin.ask("GET", f"/api/v1/nodes/{name}")
            return (answer.status == 200 and is_ready(answer.body)) or None

        until(look, f"{name} is ready")

    def unreachable(self, name: str) -> None:
        """Return when the control plane takes that node for lost, as far as it can know."""
        path = f"/api/v1/nodes/{name}"

        def look() -> bool | None:
            taints = self.plane.admin.get(path)["spec"].get("taints", ())
            return any((one["key"], one["effect"]) == _UNREACHABLE for one in taints) or None

        until(look, f"{name} is unreachable")

    def _know_nodes(self) -> None:
        """Let kube-apiserver reach kubelets and pods, and be reached by them."""
        user = self.plane.certified_user("kube-apiserver-kubelet-client", "system:masters")
        assert user.certificate is not None
        self.plane.tell(
            Part.APISERVER,
            f"--advertise-address={self.here}",
            "--authorization-mode=Node",  # beside RBAC
            "--enable-admission-plugins=NodeRestriction",
            f"--kubelet-client-certificate={user.certificate.certificate}",
            f"--kubelet-client-key={user.certificate.key}",
            "--kubelet-preferred-address-types=InternalIP",
            # Services are known on nodes alone; this machine goes to the pods behind them.
            "--enable-aggregator-routing=true",
        )
        # A node that says nothing is noticed soon; what then happens, and in which order, is as ever.
        self.plane.tell(
            Part.CONTROLLER_MANAGER, "--node-monitor-period=1s", "--node-monitor-grace-period=10s"
        )
