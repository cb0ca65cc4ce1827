"""
A real API server on which nothing happens but what a test does: no scheduler, no controllers, no nodes.

The store's contract speaks of objects with any content at all, while the definition of a Framework takes only
Frameworks. So the definition is changed to fit the tests: *open*, or the real one.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from launcher.core.crd import framework_crd
from launcher.core.defaults import defaulted
from launcher.core.errors import NotFound
from launcher.store.interface import (
    CONFIG_MAPS,
    FRAMEWORKS,
    NODES,
    PODS,
    DeleteOptions,
    MergePatch,
    Object,
    ResourceKind,
    Store,
)
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from launcher.store.kubernetes.kube_store import KubeStore
from launcher.tls.client_context import ClientTls
from tests.cluster.client import MERGE_PATCH
from tests.cluster.controlplane import ControlPlane
from tests.cluster.parts import Part
from tests.local.server import until

#: Beside ``default``; the contract names them.
NAMESPACES = ("one", "two", "three", "a", "b", "a-b")
#: That a test of the contract makes.
MADE = "team"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_FRAMEWORKS = "/apis/launcher.microsoft.com/v1/namespaces/default/frameworks"
PROBE: Object = {
    "apiVersion": FRAMEWORKS.api_version,
    "kind": "Framework",
    "metadata": {"name": "probe"},
    "spec": {"probe": 1, "taskRoles": [{"name": "probe", "task": {}}]},
}
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def open_crd() -> dict[str, Any]:
    """The definition of Frameworks of which nothing is asked."""
    crd = framework_crd()
    (version,) = crd["spec"]["versions"]
    version["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {"spec": _ANYTHING, "status": _ANYTHING},
    }
    version["selectableFields"] = []
    return crd


def probe_defaulted() -> Object:
    """What becomes of the probe's spec where Frameworks are what they are."""
    spec: Object = defaulted(PROBE)["spec"]
    del spec["probe"]
    return spec


class Quiet:
    """The server, and what a Framework is to it at the moment."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.admin = plane, plane.admin
        self._defined: dict[str, Any] | None = None

    def access(self) -> ClusterConfig:
        return ClusterConfig(
            self.plane.url, FixedHeader(f"Bearer {self.plane.admin_token}"), ClientTls(self.plane.ca)
        )

    def define(self, crd: dict[str, Any], becomes: Object) -> None:
        """Frameworks are what *crd* says, and the spec of ``PROBE`` *becomes* that; return when it does."""
        if crd == self._defined:
            return
        if self.admin.ask("POST", _CRDS, crd).status == 409:
            path = f"{_CRDS}/{crd['metadata']['name']}"
            answer = self.admin.ask("PATCH", path, {"spec": crd["spec"]}, content_type=MERGE_PATCH)
            assert answer.status == 200, answer.body
        until(lambda: self._probed() == becomes or None, "the definition is in force")
        until(lambda: self.admin.ask("GET", _FRAMEWORKS).status == 200 or None, "Frameworks are listed")
        self._defined = crd

    def define_frameworks(self) -> None:
        """Frameworks are what they are."""
        self.define(framework_crd(), probe_defaulted())

    def define_anything(self) -> None:
        """Frameworks are any objects at all."""
        self.define(open_crd(), PROBE["spec"])

    def _probed(self) -> Any:
        """What becomes of the spec of a Framework that has an unknown field and leaves much out."""
        answer = self.admin.ask("POST", f"{_FRAMEWORKS}?dryRun=All", PROBE)
        return answer.body["spec"] if answer.status == 201 else None

    def tidy(self) -> None:
        """Take away the namespace that a test may have made; nobody else does so here."""
        if self.admin.ask("DELETE", f"/api/v1/namespaces/{MADE}").status != 404:
            done = {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": MADE},
                "spec": {"finalizers": []},
            }
            answer = self.admin.ask("PUT", f"/api/v1/namespaces/{MADE}/finalize", done)
            assert answer.status == 200, answer.body


@pytest.fixture(scope="session")
def quiet(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    """An API server for all tests of a worker."""
    with ControlPlane(tmp_path_factory.mktemp("quiet"), programs, nodes=0) as plane:
        for name in NAMESPACES:
            plane.admin.post("/api/v1/namespaces", {"metadata": {"name": name}})
        for name in NAMESPACES:
            until(partial(_is_set_up, plane, name), f"namespace {name} is set up")
        for part in (Part.KWOK, Part.SCHEDULER, Part.CONTROLLER_MANAGER):
            plane.kill(part)
        yield Quiet(plane)


@asynccontextmanager
async def quiet_store(quiet: Quiet) -> AsyncIterator[KubeStore]:
    """An empty store of anything at all, for the tests of the contract."""
    quiet.define_anything()
    store = await KubeStore.open(quiet.access())
    try:
        yield store
    finally:
        await empty(store)
        quiet.tidy()
        await store.close()


def _is_set_up(plane: ControlPlane, namespace: str) -> bool | None:
    """True once pods can be created there."""
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    return plane.admin.ask("GET", account).status == 200 or None


async def empty(store: Store) -> None:
    """Take away all that a test may have left."""
    for kind in (FRAMEWORKS, PODS, CONFIG_MAPS, NODES):
        namespaces = ("default", *NAMESPACES) if kind == CONFIG_MAPS else (None,)
        for namespace in namespaces:
            for obj in (await store.list(kind, namespace)).items:
                if obj["metadata"]["name"] != "kube-root-ca.crt":
                    await _remove(store, kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


async def _remove(store: Store, kind: ResourceKind, namespace: str, name: str) -> None:
    try:
        await store.patch(kind, namespace, name, MergePatch({"metadata": {"finalizers": None}}))
        await store.delete(kind, namespace, name, DeleteOptions(grace=0))
    except NotFound:
        pass  # it was only waiting for its finalizers
