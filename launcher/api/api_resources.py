"""What the API serves: every kind with its short names, verbs and subresources."""

from dataclasses import dataclass

from launcher.api.http.api_group_alias import SECOND
from launcher.job_kinds.job_kind import FOREIGN, Foreign
from launcher.store.interface import (
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
_SECOND = KindName(SECOND.group, SECOND.version, SECOND.kind)
_POD = KindName(PODS.group, PODS.version, PODS.kind)
_SCALE = KindName("autoscaling", "v1", "Scale")


def _job(foreign: Foreign, kind: Kind) -> Served:
    """A job in one of its versions; as its operator has it, in no category."""
    name = KindName(kind.group, kind.version, kind.kind)
    scale, status = (
        Sub(part, of, ("get", "patch", "update")) for part, of in (("scale", _SCALE), ("status", name))
    )
    return Served(kind, foreign.singular, subresources=(scale, status))


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
    *(_job(foreign, kind) for foreign in FOREIGN for kind in foreign.kinds),
    # The last one: its paths begin as those of everything inside a namespace do.
    Served(NAMESPACES, "namespace", ("ns",), verbs=("create", "delete", *_READ, "patch", "update")),
)

#: All that can be asked for: the kinds, and their second names.
OFFERED: tuple[Served, ...] = (
    # In no category: each Framework is listed once. Nor has it short names, which are its first name's.
    Served(
        SECOND,
        "framework",
        subresources=(
            Sub("scale", _SCALE, ("get", "patch", "update")),
            Sub("status", _SECOND, ("get", "patch", "update")),
        ),
    ),
    *SERVED,
)
