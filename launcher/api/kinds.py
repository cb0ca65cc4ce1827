"""What the API serves: every kind with its short names, verbs and subresources."""

from dataclasses import dataclass

from launcher.store.port import (
    CONFIG_MAPS,
    EVENTS,
    FRAMEWORKS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Kind,
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
class Served:
    """A kind, and what can be asked of it. Only verbs that work are listed: clients act on the promise."""

    kind: Kind
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = _ALL
    subresources: tuple[Sub, ...] = ()


_FRAMEWORK = KindName(FRAMEWORKS.group, FRAMEWORKS.version, FRAMEWORKS.kind)
_POD = KindName(PODS.group, PODS.version, PODS.kind)
_SCALE = KindName("autoscaling", "v1", "Scale")

SERVED: tuple[Served, ...] = (
    Served(
        FRAMEWORKS,
        "framework",
        ("fw",),
        ("all",),
        subresources=(
            Sub("scale", _SCALE, ("get", "patch", "update")),
            Sub("status", _FRAMEWORK, ("get", "patch", "update")),
        ),
    ),
    Served(CONFIG_MAPS, "configmap", ("cm",)),
    Served(EVENTS, "event", ("ev",), verbs=("create", *_READ, "patch")),
    Served(NODES, "node", ("no",), verbs=_READ),
    Served(
        PODS,
        "pod",
        ("po",),
        ("all",),
        subresources=(Sub("log", _POD, ("get",)), Sub("status", _POD, ("get",))),
    ),
    Served(SECRETS, "secret"),
    Served(SERVICES, "service", ("svc",), ("all",)),
    # The last one: its paths begin as those of everything inside a namespace do.
    Served(NAMESPACES, "namespace", ("ns",), verbs=("create", "delete", *_READ, "patch", "update")),
)
