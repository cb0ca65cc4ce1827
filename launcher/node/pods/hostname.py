"""The host name of a pod, as the kubelet makes it."""

from launcher.node.container_runtime import StartFailed
from launcher.node.machine import valid_name
from launcher.store.interface import Object

DOMAIN = "cluster.local"
_LONGEST_LABEL = 63
#: What the kernel takes for a host name.
_LONGEST_NAME = 64


def pod_names(pod: Object) -> tuple[str, ...]:
    """The names under which a pod knows itself, the canonical one first: its FQDN if it has one, and its host name."""
    spec, meta = pod["spec"], pod["metadata"]
    if spec.get("hostNetwork"):
        return (spec.get("nodeName") or "",)
    name = str(spec.get("hostname") or meta["name"])[:_LONGEST_LABEL].rstrip("-.")
    if not spec.get("subdomain"):
        return (name,)
    return (f"{name}.{spec['subdomain']}.{meta['namespace']}.svc.{DOMAIN}", name)


def host_name(pod: Object, machine: str) -> str:
    """
    What gethostname() answers in the pod; empty where that is the name of the *machine* itself.

    Raises StartFailed for an FQDN that is too long to be a host name.
    """
    names = pod_names(pod)
    name = names[0] if pod["spec"].get("setHostnameAsFQDN") else names[-1]
    if len(name) > _LONGEST_NAME:
        raise StartFailed(
            "CreateContainerConfigError",
            f"setHostnameAsFQDN: {name} is too long: {_LONGEST_NAME} characters is the maximum, and it has {len(name)}",
        )
    return "" if name == valid_name(machine) else name
