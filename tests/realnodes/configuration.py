"""What the programs on a node are told."""

import json
from pathlib import Path
from typing import Any

import yaml

PAUSE = "localhost/pause:1"
RUNTIME = "/run/containerd/containerd.sock"
#: Where distributions put the programs that give a pod its network.
_CNI_PROGRAMS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))

#: Kubelet sets these for the whole machine; a node of ours has its own, which nothing heeds.
TUNED = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)

# Without the right to raise its priority, a program that is to be spared when memory runs out cannot be started.
_CONTAINERD = """
version = 2
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_programs}"
    conf_dir = "{cni}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def cni_programs() -> Path | None:
    """Where this machine has them."""
    return next((path for path in _CNI_PROGRAMS if (path / "bridge").exists()), None)


def containerd(cni: Path) -> str:
    """Containerd's; *cni* is the directory that says which network pods get."""
    return _CONTAINERD.format(socket=RUNTIME, pause=PAUSE, cni_programs=cni_programs(), cni=cni)


def pod_network(subnet: str) -> str:
    """A bridge on the node, which is the gateway of its pods; where they go from there is not hidden."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": subnet}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, ports]})


def kubelet(authority: Path, cgroup: str, resolver: Path) -> str:
    """Kubelet's: it lets in whom kube-apiserver's authority has signed."""
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        # Its own, or each kubelet of this machine takes the pods of the other for leftovers.
        "cgroupRoot": f"/{cgroup}",
        "containerRuntimeEndpoint": f"unix://{RUNTIME}",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "resolvConf": str(resolver),
        "volumePluginDir": "/var/lib/kubelet-volume-plugins",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        # A pod is told to end, and the node to be well, sooner than on a machine that has more to do.
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "2s",
        "nodeStatusReportFrequency": "10s",
        "nodeLeaseDurationSeconds": 10,
    }
    return yaml.safe_dump(config)


def kube_proxy(node: str, kubeconfig: Path) -> str:
    """Of kube-proxy, which makes the addresses of services reachable."""
    config: dict[str, Any] = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": node,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        # Limits that are the machine's, not the node's.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
    return yaml.safe_dump(config)
