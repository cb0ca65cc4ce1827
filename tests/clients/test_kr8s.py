"""``kr8s``, the small client for scripts."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import kr8s
import pytest
import yaml
from kr8s.asyncio.objects import APIObject, ConfigMap, Pod, new_class

from tests.clients.space import Space, once


@pytest.fixture
async def api(space: Space, tmp_path: Path) -> AsyncIterator[Any]:
    """A client of the test's server and namespace."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": space.server.url}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "here", "user": "me", "namespace": space.namespace}}
        ],
        "current-context": "here",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    api = await kr8s.asyncio.api(kubeconfig=str(tmp_path / "config"), namespace=space.namespace)
    yield api
    if api._session is not None:
        await api._session.aclose()  # it has no close of its own


Framework: type[APIObject] = new_class(kind="Framework", version="launcher.microsoft.com/v1", namespaced=True)


async def has_status(framework: Any) -> None:
    """Return when the launcher has said a first word about it: kr8s cannot wait for that itself."""
    while "status" not in framework.raw:
        await asyncio.sleep(0.05)
        await framework.refresh()


async def test_a_framework_is_created_awaited_and_deleted(api: Any, space: Space) -> None:
    framework = await Framework(space.framework(script="echo done"), api=api, namespace=space.namespace)

    async with asyncio.timeout(60):
        await framework.create()
        await has_status(framework)
        await framework.wait("condition=Succeeded")
        pods = [pod async for pod in api.get("pods", namespace=space.namespace)]
        lines = [line async for line in pods[0].logs()]
        await framework.delete()
        await framework.wait("delete")

    assert [pod.name for pod in pods] == ["mnist-worker-0"]
    assert lines == ["done"]
    assert not await framework.exists()


async def test_a_framework_is_found_by_its_kind(api: Any, space: Space) -> None:
    await Framework(space.held(), api=api, namespace=space.namespace).create()

    found = [each async for each in api.get("frameworks.launcher.microsoft.com", namespace=space.namespace)]
    one = await Framework.get("mnist", api=api, namespace=space.namespace)

    assert [each.name for each in found] == ["mnist"]
    assert one.raw.spec.executionType == "Create"


async def test_a_framework_is_patched_labelled_and_scaled(api: Any, space: Space) -> None:
    framework = await Framework(space.held(), api=api, namespace=space.namespace)
    await framework.create()

    await framework.patch({"spec": {"description": "patched"}})
    await framework.label(colour="red")
    await framework.patch({"spec": {"replicas": 3}}, subresource="scale")

    await framework.refresh()
    assert framework.raw.spec.description == "patched"
    assert framework.labels["colour"] == "red"
    assert framework.raw.spec.taskRoles[0].taskNumber == 3


async def test_a_log_is_followed_to_its_end(api: Any, space: Space) -> None:
    pod = await Pod(space.pod(main=f"echo first; {once('go')} echo last"), api=api, namespace=space.namespace)

    lines = []
    async with asyncio.timeout(60):
        await pod.create()
        await pod.wait("condition=Ready")
        async for line in pod.logs(follow=True):
            lines.append(line)
            space.open("go")

    assert lines == ["first", "last"]


async def test_a_watch_tells_what_happens(api: Any, space: Space) -> None:
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
    config = await ConfigMap(settings, api=api, namespace=space.namespace)
    told = []

    async with asyncio.timeout(30):
        await config.create()
        async for happened, obj in api.watch("configmaps", namespace=space.namespace):
            told.append((happened, obj.name))
            if happened == "DELETED":
                break
            await obj.delete()

    assert told == [("ADDED", "settings"), ("DELETED", "settings")]


async def test_what_is_not_there_is_not_found(api: Any, space: Space) -> None:
    with pytest.raises(kr8s.NotFoundError, match="nosuch"):
        _ = await Framework.get("nosuch", api=api, namespace=space.namespace, timeout=0)
