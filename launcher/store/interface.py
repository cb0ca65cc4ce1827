"""
The one port: objects by kind, namespace and name, in Kubernetes' own verbs.

Objects are plain JSON values. Whoever holds one treats it as frozen: it may be shared with other readers, so a
change is made on a copy. Every write gives the object a new ``metadata.resourceVersion``, a number that grows over
the whole store, and is acknowledged only when it will survive a crash.
"""

import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from launcher.store.selectors import EVERYTHING, Selector

#: One stored object, as its JSON.
Object = dict[str, Any]
#: A resourceVersion as a number; only compare versions of one store.
Version = int
#: Namespace and name.
Key = tuple[str, str]


def key_of(obj: Object) -> Key:
    """Namespace and name of *obj*."""
    # Thousands of objects share a few namespaces: one string serves them all.
    return sys.intern(obj["metadata"].get("namespace", "")), obj["metadata"]["name"]


def version_of(obj: Object) -> Version:
    """The version of *obj* as a number."""
    return int(obj["metadata"]["resourceVersion"])


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of object: where it stands in the API, and what it is called."""

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
PODS = ResourceKind("", "v1", "pods", "Pod")
NODES = ResourceKind("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = ResourceKind("", "v1", "namespaces", "Namespace", namespaced=False)
EVENTS = ResourceKind("", "v1", "events", "Event")
SERVICES = ResourceKind("", "v1", "services", "Service")
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
    """What a Change says."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happened, and the object as it was then (as it last was, if deleted)."""

    happened: ChangeType
    object: Object
    version: Version


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, or all of it, as it stood at *version*: a watch from there misses and repeats nothing."""

    items: Sequence[Object]
    version: Version
    #: Brings the next page, at the same version; None at the end.
    continue_token: str | None = None
    #: How many come after this page, where that is known.
    remaining: int | None = None


class Propagation(StrEnum):
    """What becomes of the objects that the deleted one owns."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete: only that uid, only at that version, with that grace."""

    uid: str | None = None
    version: Version | None = None
    #: Seconds that a pod may take to end; None is the pod's own wish, 0 removes it at once.
    grace: int | None = None
    propagation: Propagation | None = None


@dataclass(frozen=True, slots=True)
class MergePatch:
    """RFC 7396: null deletes, lists are replaced whole."""

    changes: Object


@dataclass(frozen=True, slots=True)
class JsonPatch:
    """RFC 6902: operations one after another, all or none."""

    operations: Sequence[Object]


Patch = MergePatch | JsonPatch
Subresource = Literal["status"]


class Store(Protocol):
    """
    Objects by kind, namespace and name, each with a version that only grows.

    Every method may raise Unavailable (nothing has changed) or OutcomeUnknown (read back). ``dry_run`` checks and
    answers as if, and changes nothing. *namespace* is ``""`` for kinds without one.
    """

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        """The object as stored. Raises AlreadyExists, InvalidObject; then nothing has changed."""
        ...

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        """The object as it is now. Raises NotFound."""
        ...

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        token: str | None = None,
    ) -> Page:
        """
        Everything that matches, by namespace and name; None is all namespaces.

        The answer holds every write acknowledged before the call. Raises Expired when *token* is too old, BadRequest
        when it is none of ours. A cluster orders only the items of one page so, and selects by few fields: by another,
        it is BadRequest, here and in ``watch``.
        """
        ...

    def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
    ) -> AsyncIterator[Change]:
        """
        Every change after *since*, in order, none left out.

        An object that begins to match is ADDED; one that no longer does is DELETED, in its last matching state with
        the new version. Raises Expired when *since* is no longer known or the watcher has fallen too far behind.
        With *bookmarks*, an occasional Change that only says which version has been reached. A watch may end at any
        time, as connections do: another one from the last version heard of goes on without a gap.
        """
        ...

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        """
        All but the status replaced. Raises NotFound, Conflict when the object has changed since it was read.

        An update that changes nothing is answered with the stored object: same version, no Change.
        """
        ...

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        """The status alone replaced, under the same rules as ``update``."""
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
        The patch applied to whatever is stored now, so that nobody else's write is lost.

        A patch that carries ``metadata.resourceVersion`` raises Conflict when that is not the stored one.
        """
        ...

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        how: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        """
        The object as it last was, or as it now waits for its finalizers or its grace (deletionTimestamp set).

        Raises NotFound, Conflict when a precondition of *how* does not hold.
        """
        ...
