"""What the API serves: every kind with its short names, verbs and subresources."""

from dataclasses import dataclass

from launcher.api.http.api_group_alias import SECOND
from launcher.job_kinds.job_kind import FOREIGN, JobKind
from launcher.store.interface import (
    CONFIG_MAPS,
    EVENTS,
    FRAMEWORKS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    ResourceKind,
)

_READ = ("get", "list", "watch")
_ALL = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class KindName:
    """Which kind of object a path answers with."""

    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True)
class Sub:
    """A part of an object with a path of its own: ``frameworks/status``."""

    name: str
    kind: KindName
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind, and what can be asked of it. Only verbs that work are listed: clients act on the promise."""

    kind: ResourceKind
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = _ALL
    subresources: tuple[Sub, ...] = ()


_FRAMEWORK = KindName(FRAMEWORKS.group, FRAMEWORKS.version, FRAMEWORKS.kind)
_SECOND = KindName(SECOND.group, SECOND.version, SECOND.kind)
_POD = KindName(PODS.group, PODS.version, PODS.kind)
_SCALE = KindName("autoscaling", "v1", "Scale")


def _job(foreign: JobKind, kind: ResourceKind) -> ApiResource:
    """A job in one of its versions; as its operator has it, in no category."""
    name = KindName(kind.group, kind.version, kind.kind)
    scale, status = (
        Sub(part, of, ("get", "patch", "update")) for part, of in (("scale", _SCALE), ("status", name))
    )
    return ApiResource(kind, foreign.singular, subresources=(scale, status))


SERVED: tuple[ApiResource, ...] = (
    ApiResource(
        FRAMEWORKS,
        "framework",
        ("fw",),
        ("all",),
        subresources=(
            Sub("scale", _SCALE, ("get", "patch", "update")),
            Sub("status", _FRAMEWORK, ("get", "patch", "update")),
        ),
    ),
    ApiResource(CONFIG_MAPS, "configmap", ("cm",)),
    ApiResource(EVENTS, "event", ("ev",), verbs=("create", *_READ, "patch")),
    ApiResource(NODES, "node", ("no",), verbs=_READ),
    ApiResource(
        PODS,
        "pod",
        ("po",),
        ("all",),
        subresources=(Sub("log", _POD, ("get",)), Sub("status", _POD, ("get",))),
    ),
    ApiResource(SECRETS, "secret"),
    ApiResource(SERVICES, "service", ("svc",), ("all",)),
    *(_job(foreign, kind) for foreign in FOREIGN for kind in foreign.kinds),
    # The last one: its paths begin as those of everything inside a namespace do.
    ApiResource(NAMESPACES, "namespace", ("ns",), verbs=("create", "delete", *_READ, "patch", "update")),
)

#: All that can be asked for: the kinds, and their second names.
API_RESOURCES: tuple[ApiResource, ...] = (
    # In no category: each Framework is listed once. Nor has it short names, which are its first name's.
    ApiResource(
        SECOND,
        "framework",
        subresources=(
            Sub("scale", _SCALE, ("get", "patch", "update")),
            Sub("status", _SECOND, ("get", "patch", "update")),
        ),
    ),
    *SERVED,
)
