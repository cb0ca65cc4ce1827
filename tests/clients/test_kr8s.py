"""``kr8s``, the small client for scripts."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import kr8s
import pytest
import yaml
from kr8s.asyncio.objects import APIObject, ConfigMap, Pod, new_class

from tests.clients.isolated_namespace import IsolatedNamespace, wait_for_file


@pytest.fixture
async def api(isolated: IsolatedNamespace, tmp_path: Path) -> AsyncIterator[Any]:
    """A client of the test's server and namespace."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": isolated.server.url}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "here", "user": "me", "namespace": isolated.namespace}}
        ],
        "current-context": "here",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    api = await kr8s.asyncio.api(kubeconfig=str(tmp_path / "config"), namespace=isolated.namespace)
    yield api
    if api._session is not None:
        await api._session.aclose()  # kr8s has no method to close it


Framework: type[APIObject] = new_class(kind="Framework", version="launcher.microsoft.com/v1", namespaced=True)


async def has_status(framework: Any) -> None:
    """Returns when the Framework has a status, for which kr8s cannot wait."""
    while "status" not in framework.raw:
        await asyncio.sleep(0.05)
        await framework.refresh()


async def test_a_framework_is_created_awaited_and_deleted(api: Any, isolated: IsolatedNamespace) -> None:
    framework = await Framework(isolated.framework(script="echo done"), api=api, namespace=isolated.namespace)

    async with asyncio.timeout(60):
        await framework.create()
        await has_status(framework)
        await framework.wait("condition=Succeeded")
        pods = [pod async for pod in api.get("pods", namespace=isolated.namespace)]
        lines = [line async for line in pods[0].logs()]
        await framework.delete()
        await framework.wait("delete")

    assert [pod.name for pod in pods] == ["mnist-worker-0"]
    assert lines == ["done"]
    assert not await framework.exists()


async def test_a_framework_is_found_by_its_kind(api: Any, isolated: IsolatedNamespace) -> None:
    await Framework(isolated.suspended(), api=api, namespace=isolated.namespace).create()

    found = [
        each async for each in api.get("frameworks.launcher.microsoft.com", namespace=isolated.namespace)
    ]
    one = await Framework.get("mnist", api=api, namespace=isolated.namespace)

    assert [each.name for each in found] == ["mnist"]
    assert one.raw.spec.executionType == "Create"


async def test_a_framework_is_patched_labelled_and_scaled(api: Any, isolated: IsolatedNamespace) -> None:
    framework = await Framework(isolated.suspended(), api=api, namespace=isolated.namespace)
    await framework.create()

    await framework.patch({"spec": {"description": "patched"}})
    await framework.label(colour="red")
    await framework.patch({"spec": {"replicas": 3}}, subresource="scale")

    await framework.refresh()
    assert framework.raw.spec.description == "patched"
    assert framework.labels["colour"] == "red"
    assert framework.raw.spec.taskRoles[0].taskNumber == 3


async def test_a_log_is_followed_to_its_end(api: Any, isolated: IsolatedNamespace) -> None:
    pod = await Pod(
        isolated.pod(main=f"echo first; {wait_for_file('go')} echo last"),
        api=api,
        namespace=isolated.namespace,
    )

    lines = []
    async with asyncio.timeout(60):
        await pod.create()
        await pod.wait("condition=Ready")
        async for line in pod.logs(follow=True):
            lines.append(line)
            isolated.create_file("go")

    assert lines == ["first", "last"]


async def test_a_watch_reports_changes(api: Any, isolated: IsolatedNamespace) -> None:
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
    config = await ConfigMap(settings, api=api, namespace=isolated.namespace)
    reported = []

    async with asyncio.timeout(30):
        await config.create()
        async for happened, obj in api.watch("configmaps", namespace=isolated.namespace):
            reported.append((happened, obj.name))
            if happened == "DELETED":
                break
            await obj.delete()

    assert reported == [("ADDED", "settings"), ("DELETED", "settings")]


async def test_a_missing_object_is_not_found(api: Any, isolated: IsolatedNamespace) -> None:
    with pytest.raises(kr8s.NotFoundError, match="nosuch"):
        _ = await Framework.get("nosuch", api=api, namespace=isolated.namespace, timeout=0)
