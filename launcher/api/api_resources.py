"""The API resources: every kind with its API versions, short names, verbs and subresources."""

from dataclasses import dataclass

from launcher.core.serialization.frameworkcontroller import GROUP as FRAMEWORKCONTROLLER_GROUP
from launcher.core.serialization.frameworkcontroller import VERSION as FRAMEWORKCONTROLLER_VERSION
from launcher.job_kinds.job_kind import JOB_KINDS, JobKind
from launcher.store.interface import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    FRAMEWORK_ATTEMPTS,
    FRAMEWORKS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    ResourceKind,
)

#: Frameworks in FrameworkController's API group: an alias of ``FRAMEWORKS``.
ALIAS_FRAMEWORKS = ResourceKind(
    FRAMEWORKCONTROLLER_GROUP, FRAMEWORKCONTROLLER_VERSION, FRAMEWORKS.plural, FRAMEWORKS.kind
)

_READ = ("get", "list", "watch")
_ALL = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    """The kind of the objects at a path."""

    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True)
class ApiSubresource:
    """A subresource, such as ``frameworks/status``."""

    name: str
    kind: GroupVersionKind
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind in one API version. Only verbs that work are listed: clients rely on them."""

    kind: ResourceKind
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = _ALL
    subresources: tuple[ApiSubresource, ...] = ()
    #: The kind in which its objects are stored, if that is another API version.
    stored_as: ResourceKind | None = None

    @property
    def stored_kind(self) -> ResourceKind:
        """The kind in which its objects are stored."""
        return self.stored_as or self.kind

    @property
    def is_alias(self) -> bool:
        """Whether its objects are stored in another API group."""
        return self.stored_kind.group != self.kind.group


_POD = GroupVersionKind(PODS.group, PODS.version, PODS.kind)
_SCALE = GroupVersionKind("autoscaling", "v1", "Scale")
_DIAGNOSIS = ApiSubresource(
    "diagnosis", GroupVersionKind(FRAMEWORKS.group, FRAMEWORKS.version, "Diagnosis"), ("get",)
)


def _session(name: str, kind: str) -> ApiSubresource:
    """A subresource of pods that is a session over a WebSocket."""
    return ApiSubresource(name, GroupVersionKind(PODS.group, PODS.version, kind), ("create", "get"))


def _scale_and_status(kind: ResourceKind) -> tuple[ApiSubresource, ...]:
    verbs = ("get", "patch", "update")
    status = GroupVersionKind(kind.group, kind.version, kind.kind)
    return ApiSubresource("scale", _SCALE, verbs), ApiSubresource("status", status, verbs)


def _job(job_kind: JobKind, kind: ResourceKind) -> ApiResource:
    """A job kind in one of its versions; in no category, as in its operator's CRD."""
    return ApiResource(
        kind,
        job_kind.singular,
        subresources=_scale_and_status(kind),
        stored_as=None if kind == job_kind.kind else job_kind.kind,
    )


API_RESOURCES: tuple[ApiResource, ...] = (
    # In no category, so that each Framework is listed once; the short names belong to the launcher's own group.
    ApiResource(
        ALIAS_FRAMEWORKS,
        "framework",
        subresources=_scale_and_status(ALIAS_FRAMEWORKS),
        stored_as=FRAMEWORKS,
    ),
    ApiResource(
        FRAMEWORKS,
        "framework",
        ("fw",),
        ("all",),
        subresources=(_DIAGNOSIS, *_scale_and_status(FRAMEWORKS)),
    ),
    ApiResource(
        FRAMEWORK_ATTEMPTS, "frameworkattempt", ("fwa",), verbs=("delete", "deletecollection", *_READ)
    ),
    ApiResource(CONFIG_MAPS, "configmap", ("cm",)),
    ApiResource(EVENTS, "event", ("ev",), verbs=("create", *_READ, "patch")),
    ApiResource(NODES, "node", ("no",), verbs=_READ),
    ApiResource(
        PODS,
        "pod",
        ("po",),
        ("all",),
        subresources=(
            _session("attach", "PodAttachOptions"),
            _session("exec", "PodExecOptions"),
            ApiSubresource("log", _POD, ("get",)),
            _session("portforward", "PodPortForwardOptions"),
            ApiSubresource("status", _POD, ("get",)),
        ),
    ),
    ApiResource(SECRETS, "secret"),
    ApiResource(SERVICES, "service", ("svc",), ("all",)),
    *(_job(job_kind, kind) for job_kind in JOB_KINDS for kind in job_kind.kinds),
    # Last, because the paths of all namespaced resources begin with those of namespaces.
    ApiResource(NAMESPACES, "namespace", ("ns",), verbs=("create", "delete", *_READ, "patch", "update")),
)

METRICS_NODES = ResourceKind("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
METRICS_PODS = ResourceKind("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
#: Computed from other objects, and not stored.
COMPUTED_API_RESOURCES = (
    *(ApiResource(kind, "", verbs=("get", "list")) for kind in (METRICS_NODES, METRICS_PODS)),
    ApiResource(ENDPOINTS, "endpoints", ("ep",), verbs=("get", "list")),
    ApiResource(ENDPOINT_SLICES, "endpointslice", verbs=("get", "list")),
)

#: The API resources in the version in which they are stored.
STORED_API_RESOURCES: tuple[ApiResource, ...] = tuple(
    resource for resource in API_RESOURCES if resource.stored_as is None
)
