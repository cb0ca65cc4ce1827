"""The client ``kubernetes_asyncio``."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from kubernetes_asyncio import client, watch
from kubernetes_asyncio.client.exceptions import ApiException

from tests.clients.isolated_namespace import IsolatedNamespace, wait_for_file

GROUP, VERSION, PLURAL = "launcher.microsoft.com", "v1", "frameworks"


@pytest.fixture
async def connection(isolated: IsolatedNamespace) -> AsyncIterator[client.ApiClient]:
    """A client of the test's server."""
    async with client.ApiClient(client.Configuration(host=isolated.server.url)) as connection:
        yield connection


@pytest.fixture
def frameworks_arguments(isolated: IsolatedNamespace) -> tuple[str, str, str, str]:
    """The first arguments of every call on the namespace's Frameworks."""
    return GROUP, VERSION, isolated.namespace, PLURAL


async def wait_completed(
    frameworks: client.CustomObjectsApi, frameworks_arguments: tuple[str, ...], name: str
) -> Any:
    """Waits until the Framework is completed, and returns it."""
    async with asyncio.timeout(60), watch.Watch() as watching:
        options = {"field_selector": f"metadata.name={name}"}
        async for event in watching.stream(
            frameworks.list_namespaced_custom_object, *frameworks_arguments, **options
        ):
            if event["object"].get("status", {}).get("state") == "Completed":
                return event["object"]
    raise AssertionError(f"the watch of {name} ended too early")


async def test_a_framework_is_created_changed_and_deleted(
    connection: client.ApiClient, frameworks_arguments: tuple[str, str, str, str], isolated: IsolatedNamespace
) -> None:
    frameworks = client.CustomObjectsApi(connection)

    created = await frameworks.create_namespaced_custom_object(*frameworks_arguments, isolated.suspended())
    patched = await frameworks.patch_namespaced_custom_object(
        *frameworks_arguments, "mnist", [{"op": "add", "path": "/spec/description", "value": "patched"}]
    )
    listed = await frameworks.list_namespaced_custom_object(*frameworks_arguments)
    await frameworks.delete_namespaced_custom_object(*frameworks_arguments, "mnist")

    assert patched["metadata"]["uid"] == created["metadata"]["uid"]
    assert patched["spec"]["description"] == "patched"
    assert [item["metadata"]["name"] for item in listed["items"]] == ["mnist"]


async def test_a_watch_follows_a_framework_until_it_is_completed(
    connection: client.ApiClient, frameworks_arguments: tuple[str, str, str, str], isolated: IsolatedNamespace
) -> None:
    frameworks = client.CustomObjectsApi(connection)
    watching = asyncio.create_task(wait_completed(frameworks, frameworks_arguments, "mnist"))

    await frameworks.create_namespaced_custom_object(*frameworks_arguments, isolated.framework())

    true = {each["type"] for each in (await watching)["status"]["conditions"] if each["status"] == "True"}
    assert "Succeeded" in true


async def test_a_watch_from_an_old_version_has_expired(
    connection: client.ApiClient, frameworks_arguments: tuple[str, str, str, str], isolated: IsolatedNamespace
) -> None:
    frameworks = client.CustomObjectsApi(connection)
    await asyncio.to_thread(isolated.restart_server)

    async def watched() -> None:
        listing = frameworks.list_namespaced_custom_object
        async with asyncio.timeout(30), watch.Watch() as watching:
            async for _ in watching.stream(
                listing, *frameworks_arguments, resource_version="1", timeout_seconds=1
            ):
                pass

    with pytest.raises(ApiException) as error:
        await watched()

    assert error.value.status == 410
    assert str(error.value.reason).startswith("Expired")


async def test_a_log_is_followed_to_its_end(
    connection: client.ApiClient, frameworks_arguments: tuple[str, str, str, str], isolated: IsolatedNamespace
) -> None:
    core = client.CoreV1Api(connection)
    await client.CustomObjectsApi(connection).create_namespaced_custom_object(
        *frameworks_arguments, isolated.framework(script=f"echo first; {wait_for_file('go')} echo last")
    )
    async with asyncio.timeout(60), watch.Watch() as watching:
        async for event in watching.stream(core.list_namespaced_pod, isolated.namespace):
            if event["object"].status.phase == "Running":
                break

    lines = []
    async with asyncio.timeout(60), watch.Watch() as watching:
        async for line in watching.stream(core.read_namespaced_pod_log, "mnist-worker-0", isolated.namespace):
            lines.append(line.rstrip("\n"))
            isolated.create_file("go")

    assert lines == ["first", "last"]


async def test_errors_carry_code_and_reason(
    connection: client.ApiClient, frameworks_arguments: tuple[str, str, str, str], isolated: IsolatedNamespace
) -> None:
    frameworks = client.CustomObjectsApi(connection)

    with pytest.raises(ApiException) as missing:
        await frameworks.get_namespaced_custom_object(*frameworks_arguments, "nosuch")

    assert missing.value.status == 404
    assert orjson.loads(str(missing.value.body))["reason"] == "NotFound"


async def test_the_version_is_returned(connection: client.ApiClient) -> None:
    assert "+launcher." in (await client.VersionApi(connection).get_code()).git_version
