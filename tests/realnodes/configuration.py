"""The configuration of the programs on a node."""

import json
from pathlib import Path
from typing import Any

import yaml

PAUSE = "localhost/pause:1"
RUNTIME = "/run/containerd/containerd.sock"
#: The directories of CNI plugins in distributions.
_CNI_PROGRAMS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))

#: Kernel settings that the kubelet writes; a simulated node has its own files for them, without effect.
TUNED = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)

# Without the privilege to lower oom_score_adj, a container with a low one cannot be started.
_CONTAINERD = """
version = 2
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{registries}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_programs}"
    conf_dir = "{cni}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def cni_programs() -> Path | None:
    """The directory of the CNI plugins on this machine."""
    return next((path for path in _CNI_PROGRAMS if (path / "bridge").exists()), None)


def containerd(cni: Path, registries: Path) -> str:
    """The configuration of containerd; *cni* and *registries* are directories of configuration files."""
    return _CONTAINERD.format(
        socket=RUNTIME, pause=PAUSE, cni_programs=cni_programs(), cni=cni, registries=registries
    )


def registry(url: str) -> str:
    """The configuration of a registry at that address."""
    return f'server = "{url}"\n[host."{url}"]\n  capabilities = ["pull", "resolve"]\n'


def pod_network(subnet: str) -> str:
    """The CNI configuration: a bridge on the node as the gateway of its pods, without masquerading."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": subnet}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, ports]})


def kubelet(authority: Path, cgroup: str, resolver: Path) -> str:
    """The configuration of the kubelet, which accepts clients with a certificate of kube-apiserver's CA."""
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        # Its own, because each kubelet of this machine would remove the pods of the other.
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
        # One registry that does not respond must not delay the images of others.
        "serializeImagePulls": False,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        # Shorter intervals than the defaults.
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "2s",
        "nodeStatusReportFrequency": "10s",
        "nodeLeaseDurationSeconds": 10,
    }
    return yaml.safe_dump(config)


def kube_proxy(node: str, kubeconfig: Path) -> str:
    """The configuration of kube-proxy."""
    config: dict[str, Any] = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": node,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        # Limits of the machine, which the node must not change.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
    return yaml.safe_dump(config)
