"""
The GPUs of containers: how many each requests, which it gets, and the variables that select them.

GPUs are numbered as by nvidia-smi. A container of this machine has the device files of all of them, so the variables
select its own: they separate cooperating programs, and do not confine others.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from launcher.core.pods.resource_requests import container_requests
from launcher.core.quantity import quantity
from launcher.node.pods.pod_spec import Container, ContainerRole

GPU_RESOURCE: Final = "nvidia.com/gpu"
_CUDA, _NVIDIA, _ORDER = "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
#: The variables of a container with GPUs, which override those of its spec.
GPU_VARIABLES: Final = (_CUDA, _NVIDIA, _ORDER)
#: Values of NVIDIA_VISIBLE_DEVICES without any GPU, and with all of them.
_NO_GPUS, _ALL_GPUS = ("", "void", "none"), "all"

#: The indexes of the GPUs of each container that has some.
GpuAllocation = Mapping[str, Sequence[str]]


def requested_gpus(spec: Mapping[str, Any]) -> int:
    """The number of GPUs that the container requests."""
    return int(quantity(container_requests(spec).get(GPU_RESOURCE, 0)))


def allocate_gpus(containers: Iterable[Container], free: Sequence[str]) -> GpuAllocation | None:
    """
    The GPUs of each container, the first of *free* first; None if there are too few.

    As in the kubelet, the GPUs of an init container are used again by the containers that start after its end.
    """
    unused, reusable = list(free), list[str]()
    allocation: dict[str, Sequence[str]] = {}
    for container in containers:
        number = requested_gpus(container.spec)
        new = max(0, number - len(reusable))
        if new > len(unused):
            return None
        gpus = [*reusable[:number], *unused[:new]]
        unused = unused[new:]
        reusable = reusable[number:] if container.role is not ContainerRole.INIT else [*reusable, *gpus]
        reusable = list(dict.fromkeys(reusable))
        if gpus:
            allocation[container.name] = gpus
    return allocation


def gpu_environment(
    spec: Mapping[str, Any], gpus: Sequence[str], own: Mapping[str, str]
) -> Mapping[str, str]:
    """
    The variables that select *gpus*, or none of the machine; *own* are the variables of the container's spec.

    As on a cluster, a container without a request can select GPUs itself by these variables.
    """
    if gpus:
        visible = ",".join(gpus)
        return {_CUDA: visible, _NVIDIA: visible, _ORDER: "PCI_BUS_ID"}
    if _requests_other_gpus(spec) or _CUDA in own:
        return {}
    visible = own.get(_NVIDIA, "void")
    if visible == _ALL_GPUS:
        return {}
    return {_CUDA: "" if visible in _NO_GPUS else visible, _NVIDIA: visible}


def device_environment(
    spec: Mapping[str, Any], gpus: Sequence[str], own: Mapping[str, str]
) -> Mapping[str, str]:
    """
    The variable that hides the GPUs of the machine from a container of an image without a request.

    Many images select all GPUs. Where some are requested, the engine creates only their devices, with other indexes.
    """
    if gpus or _requests_other_gpus(spec) or _NVIDIA in own:
        return {}
    return {_NVIDIA: "void"}


def _requests_other_gpus(spec: Mapping[str, Any]) -> bool:
    """Whether it requests GPUs that are not allocated here, such as ``amd.com/gpu`` or ``nvidia.com/mig-1g.5gb``."""
    vendor = GPU_RESOURCE.partition("/")[0]
    names = (name.partition("/") for name, amount in container_requests(spec).items() if quantity(amount))
    return any(domain == vendor or "gpu" in name for domain, _, name in names)


def ignored_gpu_variables(containers: Iterable[Container]) -> Iterable[str]:
    """A sentence for each variable in the spec of a container with GPUs that is overridden."""
    for container in containers:
        if requested_gpus(container.spec):
            names = {variable["name"] for variable in container.spec.get("env") or ()}
            for name in sorted(names.intersection(GPU_VARIABLES)):
                yield (
                    f'container "{container.name}": env {name} is ignored: it selects the GPUs that were allocated to '
                    "the container."
                )
