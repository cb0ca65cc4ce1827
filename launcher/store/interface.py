"""
The store interface: objects by kind, namespace and name, with the verbs of Kubernetes.

Objects are plain JSON values and must not be modified: they may be shared with other readers, so a change is made on
a copy. Every write assigns a new ``metadata.resourceVersion``, a number that increases over the whole store, and is
acknowledged only when it survives a crash.
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from launcher.store.selectors import EVERYTHING, Selector

#: A stored object, as JSON.
Object = dict[str, Any]
#: A resourceVersion as a number. Only versions of the same store are comparable.
Version = int
#: Namespace and name.
Key = tuple[str, str]
#: Returns a discovery document of the API server, by its path. Raises NotServed, Unavailable.
Discover = Callable[[str], Awaitable[Object]]


def key_of(obj: Object) -> Key:
    """Returns namespace and name of *obj*."""
    # Thousands of objects share a few namespaces: one string for all.
    return sys.intern(obj["metadata"].get("namespace", "")), obj["metadata"]["name"]


def version_of(obj: Object) -> Version:
    """Returns the resourceVersion of *obj* as a number."""
    return int(obj["metadata"]["resourceVersion"])


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of object, with its group, version and plural name in the API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """``frameworks.launcher.microsoft.com``, or ``pods`` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


FRAMEWORKS = ResourceKind("launcher.microsoft.com", "v1", "frameworks", "Framework")
FRAMEWORK_ATTEMPTS = ResourceKind(
    FRAMEWORKS.group, FRAMEWORKS.version, "frameworkattempts", "FrameworkAttempt"
)
PODS = ResourceKind("", "v1", "pods", "Pod")
NODES = ResourceKind("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = ResourceKind("", "v1", "namespaces", "Namespace", namespaced=False)
EVENTS = ResourceKind("", "v1", "events", "Event")
SERVICES = ResourceKind("", "v1", "services", "Service")
#: Computed from Services and pods, and not stored.
ENDPOINTS = ResourceKind("", "v1", "endpoints", "Endpoints")
ENDPOINT_SLICES = ResourceKind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
CONFIG_MAPS = ResourceKind("", "v1", "configmaps", "ConfigMap")
SECRETS = ResourceKind("", "v1", "secrets", "Secret")
LEASES = ResourceKind("coordination.k8s.io", "v1", "leases", "Lease")
_ADMISSION = "admissionregistration.k8s.io"
VALIDATING_WEBHOOKS = ResourceKind(
    _ADMISSION,
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
MUTATING_WEBHOOKS = ResourceKind(
    _ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False
)


class ChangeType(StrEnum):
    """Type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class Change:
    """A watch event: the object after the change, or its last state if it was deleted."""

    type: ChangeType
    object: Object
    version: Version


@dataclass(frozen=True, slots=True)
class Page:
    """All or part of a list at *version*. A watch from that version has no gaps and no duplicates."""

    items: Sequence[Object]
    version: Version
    #: Requests the next page, at the same version. None on the last page.
    continue_token: str | None = None
    #: The number of objects after this page, if known.
    remaining: int | None = None


class Propagation(StrEnum):
    """How objects owned by the deleted one are handled."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Preconditions and options of a deletion."""

    uid: str | None = None
    version: Version | None = None
    #: Grace period of a pod in seconds. None uses the pod's own, 0 removes it at once.
    grace: int | None = None
    propagation: Propagation | None = None


@dataclass(frozen=True, slots=True)
class MergePatch:
    """RFC 7396: null deletes, lists are replaced."""

    changes: Object


@dataclass(frozen=True, slots=True)
class JsonPatch:
    """RFC 6902: operations in order, all or none."""

    operations: Sequence[Object]


Patch = MergePatch | JsonPatch
Subresource = Literal["status"]


class Store(Protocol):
    """
    Objects by kind, namespace and name, each with an increasing version.

    Every method may raise Unavailable (nothing was changed) or OutcomeUnknown (read the object again). ``dry_run``
    validates and returns the result without storing it. *namespace* is ``""`` for cluster-scoped kinds.
    """

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        """Returns the stored object. Raises AlreadyExists or InvalidObject if nothing was stored."""
        ...

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        """Returns the current object. Raises NotFound."""
        ...

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        continue_token: str | None = None,
    ) -> Page:
        """
        Returns all matching objects, by namespace and name. None selects all namespaces.

        The result includes every write acknowledged before the call. Raises Expired if *continue_token* is too old,
        BadRequest if it is invalid. A cluster sorts only within a page, and supports few fields in field selectors;
        others are BadRequest, here and in ``watch``.
        """
        ...

    def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
    ) -> AsyncIterator[Change]:
        """
        Yields every change after *since*, in order and without gaps.

        An object that starts to match is ADDED; one that stops matching is DELETED, with its last matching state and
        the new version. Raises Expired if *since* is too old or the watcher is too slow. *bookmarks* adds occasional
        changes that only report the current version. A watch may end at any time, as connections do: another one from
        the last observed version continues without a gap.
        """
        ...

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        """
        Replaces all but the status. Raises NotFound, or Conflict if the object has changed since it was read.

        An update without changes returns the stored object: same version, no watch event.
        """
        ...

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        """Replaces the status only, otherwise like ``update``."""
        ...

    async def patch(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        patch: Patch,
        *,
        subresource: Subresource | None = None,
        dry_run: bool = False,
    ) -> Object:
        """
        Applies the patch to the current object, so that no concurrent write is lost.

        A patch with ``metadata.resourceVersion`` raises Conflict if that is not the current one.
        """
        ...

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        options: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        """
        Returns the last state of the object, or its state with deletionTimestamp while finalizers or grace remain.

        Raises NotFound, or Conflict if a precondition in *options* does not hold.
        """
        ...
