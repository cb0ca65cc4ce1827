"""
What pods get so that they have names, and know those of the others.

A pod has a name in its Framework's Service, ``mnist-worker-0.mnist.default.svc``, unless it uses the node's network or
its template says otherwise. Where every task has one and ``spec.discovery`` is set, each is told of the others by
plain variables.
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
from launcher.core.spec import RoleName, TaskRole

Json = dict[str, Any]

#: Of a pod template: labels that only the pod of task 0 has, ``key=value,key=value``.
FIRST_LABELS = "launcher.microsoft.com/labels-of-task-0"
#: Bytes of all variables that name every task: each pod carries them, so many tasks read them from files instead.
_MOST = 16 * 1024
_POD_NAME = f"{{{{{PodIdentityKey.POD_NAME}}}}}"
_INDEX = f"{{{{{PodIdentityKey.TASK_INDEX}}}}}"


def dns_overlays(framework: Framework) -> dict[RoleName, PodOverlay]:
    """What the pods of each role get for the sake of names; roles whose pods get nothing are left out."""
    told = dict(_told(framework))
    found = {}
    for role in framework.spec.roles:
        extras = PodOverlay(
            defaults=_host(framework, role),
            variables=told.get(role.name, ()),
            first_labels=_first_labels(role),
        )
        if extras != PodOverlay():
            found[role.name] = extras
    return found


def _host(framework: Framework, role: TaskRole) -> Mapping[str, Any]:
    """The fields that give the pod its name in the Framework's Service."""
    if not (has_headless_service(framework) and _has_name(framework, role)):
        return {}
    return {"hostname": _POD_NAME, "subdomain": service_name(framework.name)}


def _has_name(framework: Framework, role: TaskRole) -> bool:
    """Whether pods of the role have their names there: not in the node's network, nor with a name of the user's."""
    spec = role.pod.get("spec") or {}
    return (
        not spec.get("hostNetwork")
        and spec.get("hostname", _POD_NAME) == _POD_NAME
        and spec.get("subdomain", own := service_name(framework.name)) == own
    )


def _first_labels(role: TaskRole) -> Mapping[str, str]:
    said = ((role.pod.get("metadata") or {}).get("annotations") or {}).get(FIRST_LABELS) or ""
    pairs = [pair.partition("=") for pair in said.split(",") if pair]
    return {key: value for key, _, value in pairs}


def _told(framework: Framework) -> Iterator[tuple[RoleName, list[Json]]]:
    """The variables of each role whose tasks are told of the others."""
    discovery = framework.spec.discovery
    roles = [role for role in framework.spec.roles if not role.background]
    if discovery is None or not all(_has_name(framework, role) for role in roles):
        return
    ranks, size = first_ranks(framework.spec), world_size(framework.spec)
    peers = [_peers(framework, role) for role in roles if discovery.ports.get(role.name) != "auto"]
    # A port that is found only when the task runs is in no variable.
    everybody_known = len(peers) == len(roles)
    by_rank = sorted(peers, key=lambda each: ranks[each.role])
    lists = dict(host_variables(peers))
    for role in roles:
        variables = dict(rank_variables(index_plus(ranks[role.name]), size))
        variables |= dict(master_variables(by_rank)) if everybody_known else {}
        all_lists = dict(lists)
        if everybody_known and (config := tf_config_of(peers, role.name, _INDEX)) is not None:
            all_lists["TF_CONFIG"] = config
        if sum(map(len, all_lists.values())) <= _MOST:
            variables |= all_lists
        yield role.name, [{"name": name, "value": value} for name, value in variables.items()]


def _peers(framework: Framework, role: TaskRole) -> RolePeers:
    assert framework.spec.discovery is not None
    port = framework.spec.discovery.ports.get(role.name)
    within = f"{service_name(framework.name)}.{framework.namespace}.svc"
    hosts = [f"{pod_name(framework.name, role.name, index)}.{within}" for index in range(role.tasks)]
    return RolePeers(role.name, hosts, [port if isinstance(port, int) else None] * role.tasks)
