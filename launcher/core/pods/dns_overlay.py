"""
DNS names of pods, and environment variables with the names of their peers.

A pod has a DNS name in its Framework's Service, ``mnist-worker-0.mnist.default.svc``, unless it uses the host network
or its template sets another one. If all tasks have one and ``spec.discovery`` is set, each pod gets the names of its
peers in environment variables.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.core.framework import Framework
from launcher.core.names import PodIdentityKey, pod_name
from launcher.core.pods.overlay import PodOverlay
from launcher.core.pods.peer_variables import (
    RolePeers,
    first_ranks,
    host_variables,
    master_variables,
    rank_variables,
    tf_config_of,
    world_size,
)
from launcher.core.pods.pod_template import index_plus
from launcher.core.pods.services import has_headless_service, service_name
from launcher.core.spec import AUTO_PORT, RoleName, TaskRole

Json = dict[str, Any]

#: Annotation of a pod template with labels for the pod of task 0 only: ``key=value,key=value``.
FIRST_LABELS_ANNOTATION = "launcher.microsoft.com/labels-of-task-0"
#: Limit for variables that list all tasks. They are part of every pod; larger Frameworks read the files instead.
_MAX_LIST_BYTES = 16 * 1024
_POD_NAME = f"{{{{{PodIdentityKey.POD_NAME}}}}}"
_INDEX = f"{{{{{PodIdentityKey.TASK_INDEX}}}}}"


def dns_overlays(framework: Framework) -> dict[RoleName, PodOverlay]:
    """The overlay of each role; roles with an empty one are omitted."""
    variables = dict(_peer_variables(framework))
    overlays = {}
    for role in framework.spec.roles:
        overlay = PodOverlay(
            defaults=_dns_fields(framework, role),
            variables=variables.get(role.name, ()),
            first_labels=_first_labels(role),
        )
        if overlay != PodOverlay():
            overlays[role.name] = overlay
    return overlays


def _dns_fields(framework: Framework, role: TaskRole) -> Mapping[str, Any]:
    """The fields of the pod spec that give the pod its DNS name."""
    if not (has_headless_service(framework) and _has_name(framework, role)):
        return {}
    return {"hostname": _POD_NAME, "subdomain": service_name(framework.name)}


def _has_name(framework: Framework, role: TaskRole) -> bool:
    """Whether pods of the role have DNS names in the Service: not with host network, nor with another hostname."""
    spec = role.pod.get("spec") or {}
    return (
        not spec.get("hostNetwork")
        and spec.get("hostname", _POD_NAME) == _POD_NAME
        and spec.get("subdomain", own := service_name(framework.name)) == own
    )


def _first_labels(role: TaskRole) -> Mapping[str, str]:
    labels = ((role.pod.get("metadata") or {}).get("annotations") or {}).get(FIRST_LABELS_ANNOTATION) or ""
    pairs = [pair.partition("=") for pair in labels.split(",") if pair]
    return {key: value for key, _, value in pairs}


def _peer_variables(framework: Framework) -> Iterator[tuple[RoleName, list[Json]]]:
    """The variables of each role that has peers."""
    discovery = framework.spec.discovery
    roles = [role for role in framework.spec.roles if not role.background]
    if discovery is None or not all(_has_name(framework, role) for role in roles):
        return
    ranks, size = first_ranks(framework.spec), world_size(framework.spec)
    peers = [_peers(framework, role) for role in roles if discovery.ports.get(role.name) != AUTO_PORT]
    # An "auto" port is known only when the task runs, too late for a variable.
    has_all_ports = len(peers) == len(roles)
    by_rank = sorted(peers, key=lambda role_peers: ranks[role_peers.role])
    lists = dict(host_variables(peers))
    for role in roles:
        variables = dict(rank_variables(index_plus(ranks[role.name]), size))
        variables |= dict(master_variables(by_rank)) if has_all_ports else {}
        all_lists = dict(lists)
        if has_all_ports and (config := tf_config_of(peers, role.name, _INDEX)) is not None:
            all_lists["TF_CONFIG"] = config
        if sum(map(len, all_lists.values())) <= _MAX_LIST_BYTES:
            variables |= all_lists
        yield role.name, [{"name": name, "value": value} for name, value in variables.items()]


def _peers(framework: Framework, role: TaskRole) -> RolePeers:
    assert framework.spec.discovery is not None
    port = framework.spec.discovery.ports.get(role.name)
    within = f"{service_name(framework.name)}.{framework.namespace}.svc"
    hosts = [f"{pod_name(framework.name, role.name, index)}.{within}" for index in range(role.tasks)]
    return RolePeers(role.name, hosts, [port if isinstance(port, int) else None] * role.tasks)
