"""The hook that adds discovery to pods: environment variables, and the init container of ``spec.discovery``."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.core.errors import RequestError
from launcher.core.framework import Framework
from launcher.core.names import (
    DISCOVERY,
    POD_UID_VARIABLE,
    PROGRESS_DEADLINE_ANNOTATION,
    TASK_ATTEMPT_INSTANCE_UID_VARIABLE,
    PodIdentityKey,
)
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import AUTO_PORT, Discovery, FrameworkSpec, RoleName, TaskRole
from launcher.rendezvous.container_programs import program_command
from launcher.rendezvous.handler import attempt_url
from launcher.rendezvous.peer_tracker import preceding_roles
from launcher.rendezvous.tokens import Tokens

log = logging.getLogger(__name__)

Json = dict[str, Any]

#: Fields of the security context that the init container copies from the first container.
_COPIED_SECURITY_FIELDS = ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile", "seLinuxOptions")
_RESTRICTED_SECURITY_FIELDS = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
#: Resources that the init container copies from the first container, because quotas may require them.
_COPIED_RESOURCES = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class LauncherEndpoint:
    """The URL of the launcher for pods, and the CA certificates for it as PEM; empty: those of the image."""

    url: str
    ca_bundle: str = ""
    #: That of pods on the host network, if they use another one.
    on_host_network: "LauncherEndpoint | None" = None


class DiscoveryHook:
    """An attempt hook with which the tasks of a Framework find each other."""

    def __init__(self, tokens: Tokens, endpoint: Callable[[], Awaitable[LauncherEndpoint]]) -> None:
        self._tokens, self._endpoint = tokens, endpoint
        #: The last logged error, which is not logged again.
        self._logged_error = ""

    async def prepare(self, framework: Framework, attempt: int) -> Mapping[RoleName, PodOverlay]:
        """Returns the additions to the pods of each role. Raises LauncherError if discovery is requested but fails."""
        try:
            endpoint = await self._endpoint()
            token = await self._tokens.create_token(framework.uid, attempt)
        except RequestError as error:
            # An admin has to act. Frameworks without spec.discovery do not wait for that.
            if framework.spec.discovery is not None:
                raise
            if str(error) != self._logged_error:
                self._logged_error = str(error)
                log.warning("rendezvous unavailable for pods", extra={"error": self._logged_error})
            return {}
        overlays = {}
        for role in framework.spec.roles:
            used = (_uses_host_network(role) and endpoint.on_host_network) or endpoint
            overlays[role.name] = _overlay(framework.spec, role, _variables(framework, attempt, used, token))
        return overlays

    async def finish(self, framework: Framework) -> None:
        """Does nothing: no objects were created."""


def _uses_host_network(role: TaskRole) -> bool:
    return bool((role.pod.get("spec") or {}).get("hostNetwork"))


def _variables(framework: Framework, attempt: int, endpoint: LauncherEndpoint, token: str) -> list[Json]:
    values = {
        "LAUNCHER_RENDEZVOUS": attempt_url(endpoint.url, framework.namespace, framework.name, attempt),
        "LAUNCHER_TOKEN": token,
        **({"LAUNCHER_CA": endpoint.ca_bundle} if endpoint.ca_bundle else {}),
    }
    return [{"name": name, "value": value} for name, value in values.items()]


def _overlay(spec: FrameworkSpec, role: TaskRole, variables: list[Json]) -> PodOverlay:
    discovery = spec.discovery
    deadline = role.progress_deadline_seconds
    # The endpoint for heartbeats reads it, to write no more of them than necessary.
    annotations = {} if deadline is None else {PROGRESS_DEADLINE_ANNOTATION: str(deadline)}
    if discovery is None:
        return PodOverlay(variables=variables, annotations=annotations)
    mount = {"name": DISCOVERY, "mountPath": discovery.mount_path}
    pod_spec = role.pod.get("spec") or {}
    return PodOverlay(
        variables=variables,
        annotations=annotations,
        mounts=[mount],
        spec={
            "initContainers": [_init_container(spec, discovery, role, variables, mount)],
            "volumes": [{"name": DISCOVERY, "emptyDir": {}}],
        },
        # With the default policy a pod with hostNetwork cannot resolve the Service of the launcher.
        defaults={"dnsPolicy": "ClusterFirstWithHostNet"} if pod_spec.get("hostNetwork") else {},
    )


def _init_container(
    spec: FrameworkSpec, discovery: Discovery, role: TaskRole, variables: list[Json], mount: Json
) -> Json:
    first = ((role.pod.get("spec") or {}).get("containers") or [{}])[0] or {}
    image = discovery.image or first.get("image") or ""
    pull_policy = None if discovery.image else first.get("imagePullPolicy")
    resources = {
        kind: {name: amounts[name] for name in _COPIED_RESOURCES if name in amounts}
        for kind, amounts in (first.get("resources") or {}).items()
        if kind in ("requests", "limits") and amounts
    }
    security = first.get("securityContext") or {}
    return {
        "name": DISCOVERY,
        **({"image": image} if image else {}),
        **({"imagePullPolicy": pull_policy} if pull_policy else {}),
        "command": list(program_command("rendezvous.sh")),
        "env": [*_identity_variables(), *variables, *_program_variables(spec, discovery, role.name)],
        **({"resources": resources} if resources else {}),
        "volumeMounts": [mount],
        "securityContext": {
            **{name: security[name] for name in _COPIED_SECURITY_FIELDS if name in security},
            **_RESTRICTED_SECURITY_FIELDS,
        },
        # After a timeout the status of the pod names the missing tasks.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _identity_variables() -> list[Json]:
    """Returns the variables with the identity of the pod, which every container has."""
    from_annotations = [
        {
            "name": key.value,
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{key.value}']"}},
        }
        for key in PodIdentityKey
    ]
    return [
        *from_annotations,
        {"name": POD_UID_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {
            "name": TASK_ATTEMPT_INSTANCE_UID_VARIABLE,
            "value": f"$({PodIdentityKey.TASK_ATTEMPT_ID})_$({POD_UID_VARIABLE})",
        },
    ]


def _program_variables(spec: FrameworkSpec, discovery: Discovery, role: RoleName) -> list[Json]:
    """Returns the options of ``rendezvous.sh``."""
    values = {"LAUNCHER_MOUNT": discovery.mount_path}
    if discovery.timeout_seconds is not None:
        values["LAUNCHER_TIMEOUT"] = str(discovery.timeout_seconds)
    if discovery.ports.get(role) == AUTO_PORT:
        values["LAUNCHER_PORT"] = AUTO_PORT
    if discovery.wait_for_ports:
        roles = [name for name in preceding_roles(spec, role) if name in discovery.ports]
        values["LAUNCHER_WAIT_PORTS"] = " ".join(roles)
    return [{"name": name, "value": value} for name, value in values.items()]
