"""The host name of a pod, as the kubelet derives it."""

from launcher.node.container_runtime import StartFailed
from launcher.node.machine import valid_name
from launcher.store.interface import Object

DOMAIN = "cluster.local"
_MAX_LABEL_LENGTH = 63
#: The kernel's limit.
_MAX_NAME_LENGTH = 64


def pod_names(pod: Object) -> tuple[str, ...]:
    """The pod's names for itself, the canonical one first: its FQDN if it has one, and its host name."""
    spec, meta = pod["spec"], pod["metadata"]
    if spec.get("hostNetwork"):
        return (spec.get("nodeName") or "",)
    name = str(spec.get("hostname") or meta["name"])[:_MAX_LABEL_LENGTH].rstrip("-.")
    if not spec.get("subdomain"):
        return (name,)
    return (f"{name}.{spec['subdomain']}.{meta['namespace']}.svc.{DOMAIN}", name)


def host_name(pod: Object, machine: str) -> str:
    """
    The host name inside the pod; empty if it is that of the *machine*.

    Raises StartFailed for an FQDN that is too long.
    """
    names = pod_names(pod)
    name = names[0] if pod["spec"].get("setHostnameAsFQDN") else names[-1]
    if len(name) > _MAX_NAME_LENGTH:
        raise StartFailed(
            "CreateContainerConfigError",
            f"setHostnameAsFQDN: {name} has {len(name)} characters; the maximum is {_MAX_NAME_LENGTH}",
        )
    return "" if name == valid_name(machine) else name
