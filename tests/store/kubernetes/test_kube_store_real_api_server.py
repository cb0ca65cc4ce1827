"""Errors of a real API server, and its restarts."""

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
    MergePatch,
    Object,
    ResourceKind,
)
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from launcher.store.kubernetes.kube_store import KubeStore
from launcher.tls.client_context import ClientTls
from tests.builders import a_pod
from tests.cluster.components import Component
from tests.eventually import TIMEOUT_SECONDS
from tests.store.builders import a_framework, an_object, with_metadata
from tests.store.kubernetes.real_api_server import BareApiServer
from tests.store.recording_handler import RecordingHandler

HOOKS = ResourceKind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
QUOTAS = ResourceKind("", "v1", "resourcequotas", "ResourceQuota")


@asynccontextmanager
async def store_with_token(bare_api_server: BareApiServer, token: str) -> AsyncIterator[KubeStore]:
    """A store with this token."""
    access = ClusterConfig(
        bare_api_server.plane.url, FixedHeader(f"Bearer {token}"), ClientTls(bare_api_server.plane.ca)
    )
    store = await KubeStore.open(access)
    try:
        yield store
    finally:
        await store.close()


async def test_a_forbidden_request_has_the_servers_message(
    crd_store: KubeStore, bare_api_server: BareApiServer
) -> None:
    user = bare_api_server.plane.new_user()

    async with store_with_token(bare_api_server, user.token) as store:
        with pytest.raises(Forbidden, match=f'User "{user.name}" cannot create resource "pods"'):
            await store.create(PODS, a_pod())
        with pytest.raises(Forbidden, match="cannot watch"):
            await anext(store.watch(PODS, since=1))


async def test_rejected_credentials_are_unavailable(bare_api_server: BareApiServer) -> None:
    async with store_with_token(bare_api_server, "unknown") as store:
        with pytest.raises(Unavailable, match="credentials"):
            await store.create(PODS, a_pod())
        with pytest.raises(Unavailable, match="credentials"):
            await anext(store.watch(PODS, since=1))


async def create_until_rejected(store: KubeStore, pod: Object) -> None:
    """Retries until kube-apiserver enforces a new rule. Raises its error."""
    meta = pod["metadata"]
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            await store.create(PODS, pod)
            await store.delete(PODS, meta["namespace"], meta["name"], DeleteOptions(grace=0))


async def test_a_quota_error_has_the_servers_message(crd_store: KubeStore) -> None:
    await crd_store.create(QUOTAS, an_object(QUOTAS, "full", spec={"hard": {"pods": "0"}}))
    await crd_store.patch(
        QUOTAS,
        "default",
        "full",
        MergePatch({"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}),
        subresource="status",
    )
    try:
        with pytest.raises(Forbidden, match="exceeded quota: full"):
            await create_until_rejected(crd_store, a_pod())
    finally:
        await crd_store.delete(QUOTAS, "default", "full")


async def test_a_pod_security_error_has_the_servers_message(crd_store: KubeStore) -> None:
    label = "pod-security.kubernetes.io/enforce"
    await crd_store.patch(NAMESPACES, "", "one", MergePatch({"metadata": {"labels": {label: "restricted"}}}))
    try:
        with pytest.raises(Forbidden, match="violates PodSecurity"):
            await create_until_rejected(crd_store, a_pod(namespace="one", hostNetwork=True))
    finally:
        await crd_store.patch(NAMESPACES, "", "one", MergePatch({"metadata": {"labels": {label: None}}}))


async def test_an_invalid_pod_reports_all_errors(crd_store: KubeStore) -> None:
    with pytest.raises(InvalidObject) as caught:
        await crd_store.create(PODS, a_pod(restartPolicy="Sometimes", containers=[{"name": "A"}]))

    fields = {problem.field for problem in caught.value.errors}
    assert {"spec.restartPolicy", "spec.containers[0].image", "spec.containers[0].name"} <= fields


async def test_a_missing_namespace_is_not_found(crd_store: KubeStore) -> None:
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        await crd_store.create(PODS, a_pod(namespace="nowhere"))


async def test_a_kind_that_is_not_served_does_not_mean_not_found(crd_store: KubeStore) -> None:
    kind = ResourceKind("example.com", "v1", "things", "Thing")

    with pytest.raises(Unavailable, match="does not serve"):
        await crd_store.get(kind, "default", "one")
    with pytest.raises(Unavailable, match="does not serve"):
        await crd_store.list(kind)
    with pytest.raises(Unavailable, match="does not serve"):
        await anext(crd_store.watch(kind, since=1))


async def test_a_framework_over_the_limit_of_etcd_is_too_large(crd_store: KubeStore) -> None:
    with pytest.raises(TooLarge):
        await crd_store.create(FRAMEWORKS, {**a_framework(), "spec": {"description": "x" * 2_500_000}})


async def test_an_unreachable_webhook_stores_nothing(crd_store: KubeStore) -> None:
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
    await crd_store.create(HOOKS, {**an_object(HOOKS, "away"), "webhooks": [hook]})
    try:
        error: Exception | None = None
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while error is None:
                # Until the server uses the webhook.
                try:
                    created = await crd_store.create(CONFIG_MAPS, with_generated(an_object(CONFIG_MAPS, "")))
                    await crd_store.delete(CONFIG_MAPS, "default", created["metadata"]["name"])
                except Unavailable as raised:
                    error = raised
    finally:
        await crd_store.delete(HOOKS, "", "away")

    assert not isinstance(error, OutcomeUnknown)
    assert "failed calling webhook" in str(error)


def with_generated(obj: Object) -> Object:
    return with_metadata(obj, name=None, generateName="probe-")


async def test_the_second_of_two_status_updates_conflicts(crd_store: KubeStore) -> None:
    created = await crd_store.create(FRAMEWORKS, a_framework())
    await crd_store.update_status(FRAMEWORKS, {**created, "status": {"state": "AttemptRunning"}})

    with pytest.raises(Conflict, match="modified"):
        await crd_store.update_status(FRAMEWORKS, {**created, "status": {"state": "Completed"}})


async def test_an_informer_survives_a_restart_of_the_api_server(
    crd_store: KubeStore, bare_api_server: BareApiServer
) -> None:
    await crd_store.create(FRAMEWORKS, a_framework("before"))
    handler = RecordingHandler()
    informer = Informer(crd_store, FRAMEWORKS)
    informer.add_event_handler(handler)
    running = asyncio.create_task(informer.run())
    try:
        await handler.wait_for({"before"})

        bare_api_server.plane.kill(Component.APISERVER)
        with pytest.raises(Unavailable):
            await crd_store.get(FRAMEWORKS, "default", "before")
        await asyncio.to_thread(bare_api_server.plane.restart, Component.APISERVER)
        await crd_store.create(FRAMEWORKS, a_framework("after"))

        await handler.wait_for({"before", "after"})
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
