"""What every pod gets so that it can ask for its peers, and the init container that asks on behalf of its user."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.core.errors import RequestError
from launcher.core.framework import Framework
from launcher.core.names import (
    DISCOVERY,
    POD_UID_VARIABLE,
    TASK_ATTEMPT_INSTANCE_UID_VARIABLE,
    PodIdentityKey,
)
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import Discovery, FrameworkSpec, RoleName, TaskRole
from launcher.rendezvous.handler import address_of
from launcher.rendezvous.peer_tracker import AUTO, earlier_than
from launcher.rendezvous.programs import command
from launcher.rendezvous.tokens import Tokens

log = logging.getLogger(__name__)

Json = dict[str, Any]

#: What the init container takes over of the user's first container: whom it runs as, and of its share what every
#: container has to name where there are quotas.
_IDENTITY = ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile", "seLinuxOptions")
_SHARE = ("cpu", "memory", "ephemeral-storage")
_HARMLESS = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@dataclass(frozen=True, slots=True)
class LauncherEndpoint:
    """Where pods find the launcher, and whose word on its certificate they are to take, as PEM; empty: as ever."""

    url: str
    authority: str = ""


class DiscoveryHook:
    """An attendant that lets the tasks of a Framework find each other."""

    def __init__(self, tokens: Tokens, where: Callable[[], Awaitable[LauncherEndpoint]]) -> None:
        self._tokens, self._where = tokens, where
        #: What the log has told of, and need not tell again.
        self._told = ""

    async def prepare(self, framework: Framework, attempt: int) -> Mapping[RoleName, PodOverlay]:
        """What the pods of each role get. Raises LauncherError while it cannot be had, if it was asked for."""
        try:
            variables = await self._variables(framework, attempt)
        except RequestError as error:
            # An admin has to do something first. Who did not ask for discovery need not wait for that.
            if framework.spec.discovery is not None:
                raise
            if self._told != (why := str(error)):
                log.warning("pods cannot ask for their peers", extra={"why": why})
                self._told = why
            return {}
        return {role.name: _extras(framework.spec, role, variables) for role in framework.spec.roles}

    async def finish(self, framework: Framework) -> None:
        """Nothing is left behind."""

    async def _variables(self, framework: Framework, attempt: int) -> list[Json]:
        where = await self._where()
        token = await self._tokens.token(framework.uid, attempt)
        given = {
            "LAUNCHER_RENDEZVOUS": address_of(where.url, framework.namespace, framework.name, attempt),
            "LAUNCHER_TOKEN": token,
            **({"LAUNCHER_CA": where.authority} if where.authority else {}),
        }
        return [{"name": name, "value": value} for name, value in given.items()]


def _extras(spec: FrameworkSpec, role: TaskRole, variables: list[Json]) -> PodOverlay:
    discovery = spec.discovery
    if discovery is None:
        return PodOverlay(variables=variables)
    mount = {"name": DISCOVERY, "mountPath": discovery.mount_path}
    pod = role.pod.get("spec") or {}
    return PodOverlay(
        variables=variables,
        mounts=[mount],
        spec={
            "initContainers": [_asking(spec, discovery, role, variables, mount)],
            "volumes": [{"name": DISCOVERY, "emptyDir": {}}],
        },
        # Else a pod in its node's network would not know the names of Services, and so not find the launcher.
        defaults={"dnsPolicy": "ClusterFirstWithHostNet"} if pod.get("hostNetwork") else {},
    )


def _asking(
    spec: FrameworkSpec, discovery: Discovery, role: TaskRole, variables: list[Json], mount: Json
) -> Json:
    """The init container."""
    first = ((role.pod.get("spec") or {}).get("containers") or [{}])[0] or {}
    image = discovery.image or first.get("image") or ""
    policy = None if discovery.image else first.get("imagePullPolicy")
    share = {
        kind: {name: amounts[name] for name in _SHARE if name in amounts}
        for kind, amounts in (first.get("resources") or {}).items()
        if kind in ("requests", "limits") and amounts
    }
    identity = first.get("securityContext") or {}
    return {
        "name": DISCOVERY,
        **({"image": image} if image else {}),
        **({"imagePullPolicy": policy} if policy else {}),
        "command": list(command("rendezvous.sh")),
        "env": [*_who(), *variables, *_orders(spec, discovery, role.name)],
        **({"resources": share} if share else {}),
        "volumeMounts": [mount],
        "securityContext": {**{name: identity[name] for name in _IDENTITY if name in identity}, **_HARMLESS},
        # Whom it waited for in vain is then part of the pod's status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _who() -> list[Json]:
    """The variables by which every container knows whose it is."""
    marks = [
        {
            "name": mark.value,
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{mark.value}']"}},
        }
        for mark in PodIdentityKey
    ]
    return [
        *marks,
        {"name": POD_UID_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {
            "name": TASK_ATTEMPT_INSTANCE_UID_VARIABLE,
            "value": f"$({PodIdentityKey.TASK_ATTEMPT_ID})_$({POD_UID_VARIABLE})",
        },
    ]


def _orders(spec: FrameworkSpec, discovery: Discovery, role: RoleName) -> list[Json]:
    """What the program in the init container is to do."""
    orders = {"LAUNCHER_MOUNT": discovery.mount_path}
    if discovery.timeout_seconds is not None:
        orders["LAUNCHER_TIMEOUT"] = str(discovery.timeout_seconds)
    if discovery.ports.get(role) == AUTO:
        orders["LAUNCHER_PORT"] = AUTO
    if discovery.wait_for_ports:
        earlier = [name for name in earlier_than(spec, role) if name in discovery.ports]
        orders["LAUNCHER_WAIT_PORTS"] = " ".join(earlier)
    return [{"name": name, "value": value} for name, value in orders.items()]
