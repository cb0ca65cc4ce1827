"""
A real API server without scheduler, controllers and nodes, so that only the test changes objects.

The tests of the store contract write objects with any content, which the CRD of Frameworks rejects. For them the CRD
is replaced by one without a schema.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deploy.generate.framework_crd import framework_crd
from launcher.core.defaults import with_defaults
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
from tests.cluster.components import Component
from tests.cluster.controlplane import ControlPlane
from tests.eventually import until

#: Namespaces of the contract tests, in addition to ``default``.
NAMESPACES = ("one", "two", "three", "a", "b", "a-b")
#: A namespace that a contract test creates.
CREATED_NAMESPACE = "team"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_FRAMEWORKS = "/apis/launcher.microsoft.com/v1/namespaces/default/frameworks"
PROBE: Object = {
    "apiVersion": FRAMEWORKS.api_version,
    "kind": "Framework",
    "metadata": {"name": "probe"},
    "spec": {"probe": 1, "taskRoles": [{"name": "probe", "task": {}}]},
}
_ANY_OBJECT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def open_crd() -> dict[str, Any]:
    """The CRD of Frameworks without any schema."""
    crd = framework_crd()
    (version,) = crd["spec"]["versions"]
    version["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {"spec": _ANY_OBJECT, "status": _ANY_OBJECT},
    }
    version["selectableFields"] = []
    return crd


def probe_defaulted() -> Object:
    """The spec of the probe after it was stored with the current CRD."""
    spec: Object = with_defaults(PROBE)["spec"]
    del spec["probe"]
    return spec


class BareApiServer:
    """The API server and its current CRD of Frameworks."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.admin = plane, plane.admin
        self._applied: dict[str, Any] | None = None

    def access(self) -> ClusterConfig:
        return ClusterConfig(
            self.plane.url, FixedHeader(f"Bearer {self.plane.admin_token}"), ClientTls(self.plane.ca)
        )

    def apply_crd(self, crd: dict[str, Any], stored_spec: Object) -> None:
        """Applies *crd* and waits until the spec of ``PROBE`` is stored as *becomes*."""
        if crd == self._applied:
            return
        if self.admin.request("POST", _CRDS, crd).status == 409:
            path = f"{_CRDS}/{crd['metadata']['name']}"
            response = self.admin.request("PATCH", path, {"spec": crd["spec"]}, content_type=MERGE_PATCH)
            assert response.status == 200, response.body
        until(lambda: self._stored_probe_spec() == stored_spec or None, "the CRD is in effect")
        until(lambda: self.admin.request("GET", _FRAMEWORKS).status == 200 or None, "Frameworks are listed")
        self._applied = crd

    def apply_framework_crd(self) -> None:
        """Applies the real CRD."""
        self.apply_crd(framework_crd(), probe_defaulted())

    def apply_open_crd(self) -> None:
        """Applies a CRD that accepts any object."""
        self.apply_crd(open_crd(), PROBE["spec"])

    def _stored_probe_spec(self) -> Any:
        """Returns the stored spec of a Framework with an unknown field and few others."""
        response = self.admin.request("POST", f"{_FRAMEWORKS}?dryRun=All", PROBE)
        return response.body["spec"] if response.status == 201 else None

    def delete_created_namespace(self) -> None:
        """Deletes the namespace that a test may have created."""
        if self.admin.request("DELETE", f"/api/v1/namespaces/{CREATED_NAMESPACE}").status != 404:
            without_finalizers = {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": CREATED_NAMESPACE},
                "spec": {"finalizers": []},
            }
            response = self.admin.request(
                "PUT", f"/api/v1/namespaces/{CREATED_NAMESPACE}/finalize", without_finalizers
            )
            assert response.status == 200, response.body


@pytest.fixture(scope="session")
def bare_api_server(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareApiServer]:
    """An API server for all tests of a worker."""
    with ControlPlane(tmp_path_factory.mktemp("quiet"), programs, nodes=0) as plane:
        for name in NAMESPACES:
            plane.admin.post("/api/v1/namespaces", {"metadata": {"name": name}})
        for name in NAMESPACES:
            until(partial(_is_set_up, plane, name), f"namespace {name} is set up")
        for part in (Component.KWOK, Component.SCHEDULER, Component.CONTROLLER_MANAGER):
            plane.kill(part)
        yield BareApiServer(plane)


@asynccontextmanager
async def empty_api_server_store(bare_api_server: BareApiServer) -> AsyncIterator[KubeStore]:
    """An empty store that accepts any object, for the contract tests."""
    bare_api_server.apply_open_crd()
    store = await KubeStore.open(bare_api_server.access())
    try:
        yield store
    finally:
        await remove_all_objects(store)
        bare_api_server.delete_created_namespace()
        await store.close()


def _is_set_up(plane: ControlPlane, namespace: str) -> bool | None:
    """Whether pods can be created in the namespace."""
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    return plane.admin.request("GET", account).status == 200 or None


async def remove_all_objects(store: Store) -> None:
    """Removes all objects of a test."""
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
        pass  # it was removed with its finalizers
