"""Compares the permissions in the manifests with the launcher's requests."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.cluster.audit import AuditedRequest
from tests.kubernetes.account import BASE, LAUNCHER_NAME, LAUNCHER_NAMESPACE
from tests.kubernetes.launcher import USER_AGENT


@dataclass(frozen=True, slots=True)
class Permission:
    """One verb on one resource; without namespace or name, on all."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        parts = (self.verb, f"{self.group}/{self.resource}".lstrip("/"), self.name)
        return " ".join(filter(None, parts)) + (f" in {self.namespace}" if self.namespace else "")

    def covers(self, request: AuditedRequest) -> bool:
        """Whether this permits the request."""
        resource = "/".join(filter(None, (request.resource, request.subresource)))
        return (
            (self.verb, self.group, self.resource) == (request.verb, request.group, resource)
            and self.namespace in {"", request.namespace}
            and self.name in {"", request.name}
        )


#: Not visible in requests: kube-apiserver checks it for blockOwnerDeletion.
FINALIZERS_PERMISSION = Permission("update", "launcher.microsoft.com", "frameworks/finalizers")
#: For gang backends that a plain cluster does not have; the gang tests cover them.
GANG_BACKEND_GROUPS = frozenset(
    {"scheduling.volcano.sh", "scheduling.x-k8s.io", "scheduling.k8s.io", "kueue.x-k8s.io"}
)


def permissions(*files: Path) -> frozenset[Permission]:
    """Returns every permission in the roles of these files."""
    return frozenset(permission for file in files for permission in _permissions_in(file))


def launcher_permissions() -> frozenset[Permission]:
    """Returns all permissions of the launcher, without components."""
    return permissions(BASE / "rbac.yaml", BASE / "rbac-certificate.yaml")


def unpermitted(granted: Iterable[Permission], requests: Iterable[AuditedRequest]) -> set[str]:
    """Returns requests without a permission, as text."""
    granted = list(granted)
    return {
        f"{request.verb} {request.group}/{request.resource}/{request.subresource} {request.name}"
        for request in requests
        if request.resource and not any(permission.covers(request) for permission in granted)
    }


def rejected(requests: Iterable[AuditedRequest]) -> set[str]:
    """
    Returns requests that were never permitted, as text: a starting API server rejects everything.

    Without names, which the audit log lacks for rejected creations.
    """
    permitted: dict[str, bool] = {}
    for request in requests:
        text = f"{request.verb} {request.group}/{request.resource} in {request.namespace}"
        permitted[text] = permitted.get(text, False) or request.allowed
    return {text for text, allowed in permitted.items() if not allowed}


def launcher_requests(requests: Iterable[AuditedRequest]) -> list[AuditedRequest]:
    """Returns the requests of its service account."""
    identity = (f"system:serviceaccount:{LAUNCHER_NAMESPACE}:{LAUNCHER_NAME}", USER_AGENT, "")
    return [
        request
        for request in requests
        if (request.user, request.user_agent, request.impersonated) == identity
    ]


def _permissions_in(file: Path) -> Iterator[Permission]:
    for role in yaml.safe_load_all(file.read_text()):
        if role["kind"] in {"Role", "ClusterRole"}:
            for rule in role["rules"]:
                yield from (
                    Permission(verb, group, resource, role["metadata"].get("namespace", ""), name)
                    for verb in rule["verbs"]
                    for group in rule["apiGroups"]
                    for resource in rule["resources"]
                    for name in rule.get("resourceNames", [""])
                )
