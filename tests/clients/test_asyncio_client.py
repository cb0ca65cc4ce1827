"""The client ``kubernetes_asyncio``."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from kubernetes_asyncio import client, watch
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.stream import WsApiClient

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
    await wait_running(core, "mnist-worker-0", isolated.namespace)

    lines = []
    async with asyncio.timeout(60), watch.Watch() as watching:
        async for line in watching.stream(core.read_namespaced_pod_log, "mnist-worker-0", isolated.namespace):
            lines.append(line.rstrip("\n"))
            isolated.create_file("go")

    assert lines == ["first", "last"]


async def wait_running(core: client.CoreV1Api, pod: str, namespace: str) -> None:
    """Waits until the pod runs."""
    async with asyncio.timeout(60), watch.Watch() as watching:
        async for event in watching.stream(core.list_namespaced_pod, namespace):
            if event["object"].metadata.name == pod and event["object"].status.phase == "Running":
                return


async def test_exec_returns_output_and_exit_code(
    connection: client.ApiClient, isolated: IsolatedNamespace
) -> None:
    core: Any = client.CoreV1Api(connection)
    await core.create_namespaced_pod(isolated.namespace, isolated.pod(main=wait_for_file("never")))
    await wait_running(core, "alone", isolated.namespace)
    channels = {1: b"", 2: b"", 3: b""}

    async with asyncio.timeout(60), WsApiClient(connection.configuration) as sockets:
        # A command is declared as one string.
        sessions: Any = client.CoreV1Api(sockets)
        pod = ("alone", isolated.namespace)
        output = await sessions.connect_get_namespaced_pod_exec(*pod, command=["echo", "a b"], stdout=True)
        opened = await sessions.connect_get_namespaced_pod_exec(
            *pod,
            command=["sh", "-c", "read line; echo $line; echo bad >&2; exit 5"],
            stdin=True,
            stdout=True,
            stderr=True,
            _preload_content=False,
        )
        async with opened as socket:
            await socket.send_bytes(b"\0hello\n")
            async for message in socket:
                channels[message.data[0]] += message.data[1:]

    assert output == "a b\n"
    assert (channels[1], channels[2]) == (b"hello\n", b"bad\n")
    assert WsApiClient.parse_error_data(channels[3]) == 5


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
