"""What a real API server says when it says no, and what the store makes of it; and how the store outlives it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from launcher.core.errors import (
    Conflict,
    Forbidden,
    InvalidObject,
    NotFound,
    OutcomeUnknown,
    TooLarge,
    Unavailable,
)
from launcher.store.informer import Informer
from launcher.store.interface import (
    CONFIG_MAPS,
    FRAMEWORKS,
    NAMESPACES,
    PODS,
    DeleteOptions,
    Key,
    MergePatch,
    Object,
    ResourceKind,
)
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from launcher.store.kubernetes.kube_store import KubeStore
from launcher.tls.client_context import ClientTls
from tests.cluster.parts import Part
from tests.store.builders import a_pod, an_object, with_metadata
from tests.store.kubernetes.quiet import Quiet
from tests.store.kubernetes.samples import a_framework

PATIENCE = 60.0
HOOKS = ResourceKind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
QUOTAS = ResourceKind("", "v1", "resourcequotas", "ResourceQuota")


@asynccontextmanager
async def store_of(quiet: Quiet, token: str) -> AsyncIterator[KubeStore]:
    """The store of whoever has that token."""
    access = ClusterConfig(quiet.plane.url, FixedHeader(f"Bearer {token}"), ClientTls(quiet.plane.ca))
    store = await KubeStore.open(access)
    try:
        yield store
    finally:
        await store.close()


async def test_who_may_not_is_told_in_the_servers_words(cluster: KubeStore, quiet: Quiet) -> None:
    user = quiet.plane.new_user()

    async with store_of(quiet, user.token) as store:
        with pytest.raises(Forbidden, match=f'User "{user.name}" cannot create resource "pods"'):
            await store.create(PODS, a_pod())
        with pytest.raises(Forbidden, match="cannot watch"):
            await anext(store.watch(PODS, since=1))


async def test_credentials_that_are_not_known_are_no_fault_of_the_request(quiet: Quiet) -> None:
    async with store_of(quiet, "nobody's") as store:
        with pytest.raises(Unavailable, match="credentials"):
            await store.create(PODS, a_pod())
        with pytest.raises(Unavailable, match="credentials"):
            await anext(store.watch(PODS, since=1))


async def create_until_refused(store: KubeStore, pod: Object) -> None:
    """Try until kube-apiserver has heard of what stands against it. Raises what it says then."""
    meta = pod["metadata"]
    async with asyncio.timeout(PATIENCE):
        while True:
            await store.create(PODS, pod)
            await store.delete(PODS, meta["namespace"], meta["name"], DeleteOptions(grace=0))


async def test_a_quota_says_no_in_its_own_words(cluster: KubeStore) -> None:
    await cluster.create(QUOTAS, an_object(QUOTAS, "full", spec={"hard": {"pods": "0"}}))
    await cluster.patch(
        QUOTAS,
        "default",
        "full",
        MergePatch({"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}),
        subresource="status",
    )
    try:
        with pytest.raises(Forbidden, match="exceeded quota: full"):
            await create_until_refused(cluster, a_pod())
    finally:
        await cluster.delete(QUOTAS, "default", "full")


async def test_pod_security_says_no_in_its_own_words(cluster: KubeStore) -> None:
    label = "pod-security.kubernetes.io/enforce"
    await cluster.patch(NAMESPACES, "", "one", MergePatch({"metadata": {"labels": {label: "restricted"}}}))
    try:
        with pytest.raises(Forbidden, match="violates PodSecurity"):
            await create_until_refused(cluster, a_pod(namespace="one", hostNetwork=True))
    finally:
        await cluster.patch(NAMESPACES, "", "one", MergePatch({"metadata": {"labels": {label: None}}}))


async def test_a_pod_that_breaks_rules_is_told_all_of_them(cluster: KubeStore) -> None:
    with pytest.raises(InvalidObject) as caught:
        await cluster.create(PODS, a_pod(restartPolicy="Sometimes", containers=[{"name": "A"}]))

    fields = {problem.field for problem in caught.value.errors}
    assert {"spec.restartPolicy", "spec.containers[0].image", "spec.containers[0].name"} <= fields


async def test_a_namespace_that_is_not_there_is_not_found(cluster: KubeStore) -> None:
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        await cluster.create(PODS, a_pod(namespace="nowhere"))


async def test_a_kind_that_is_not_there_is_no_proof_that_an_object_is_gone(cluster: KubeStore) -> None:
    things = ResourceKind("example.com", "v1", "things", "Thing")

    with pytest.raises(Unavailable, match="does not serve"):
        await cluster.get(things, "default", "one")
    with pytest.raises(Unavailable, match="does not serve"):
        await cluster.list(things)
    with pytest.raises(Unavailable, match="does not serve"):
        await anext(cluster.watch(things, since=1))


async def test_a_framework_over_the_limit_of_etcd_is_too_large(cluster: KubeStore) -> None:
    with pytest.raises(TooLarge):
        await cluster.create(FRAMEWORKS, {**a_framework(), "spec": {"description": "x" * 2_500_000}})


async def test_a_webhook_that_cannot_be_asked_lets_nothing_through(cluster: KubeStore) -> None:
    hook: dict[str, Any] = {
        "name": "away.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [
            {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    await cluster.create(HOOKS, {**an_object(HOOKS, "away"), "webhooks": [hook]})
    try:
        error: Exception | None = None
        async with asyncio.timeout(PATIENCE):
            while error is None:
                # Until the server has taken up the webhook.
                try:
                    made = await cluster.create(CONFIG_MAPS, with_generated(an_object(CONFIG_MAPS, "")))
                    await cluster.delete(CONFIG_MAPS, "default", made["metadata"]["name"])
                except Unavailable as raised:
                    error = raised
    finally:
        await cluster.delete(HOOKS, "", "away")

    assert not isinstance(error, OutcomeUnknown)
    assert "failed calling webhook" in str(error)


def with_generated(obj: Object) -> Object:
    return with_metadata(obj, name=None, generateName="probe-")


async def test_of_two_who_write_a_status_the_second_is_told(cluster: KubeStore) -> None:
    made = await cluster.create(FRAMEWORKS, a_framework())
    await cluster.update_status(FRAMEWORKS, {**made, "status": {"state": "AttemptRunning"}})

    with pytest.raises(Conflict, match="modified"):
        await cluster.update_status(FRAMEWORKS, {**made, "status": {"state": "Completed"}})


class Mirror(dict[Key, Object]):
    """What an informer has told, and when it told something."""

    def __init__(self) -> None:
        super().__init__()
        self._told = asyncio.Event()

    def on_upsert(self, key: Key, obj: Object) -> None:
        self[key] = obj
        self._told.set()

    def on_delete(self, key: Key) -> None:
        del self[key]
        self._told.set()

    async def until(self, names: set[str]) -> None:
        """Return when just these are there."""
        async with asyncio.timeout(PATIENCE):
            while {name for _, name in self} != names:
                self._told.clear()
                await self._told.wait()


async def test_an_informer_outlives_a_restart_of_the_api_server(cluster: KubeStore, quiet: Quiet) -> None:
    await cluster.create(FRAMEWORKS, a_framework("before"))
    mirror = Mirror()
    running = asyncio.create_task(Informer(cluster, FRAMEWORKS, mirror).run())
    try:
        await mirror.until({"before"})

        quiet.plane.kill(Part.APISERVER)
        with pytest.raises(Unavailable):
            await cluster.get(FRAMEWORKS, "default", "before")
        await asyncio.to_thread(quiet.plane.restart, Part.APISERVER)
        await cluster.create(FRAMEWORKS, a_framework("after"))

        await mirror.until({"before", "after"})
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
