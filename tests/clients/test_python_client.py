"""The client ``kubernetes``."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from kubernetes import client, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream

from tests.clients.isolated_namespace import IsolatedNamespace, wait_for_file
from tests.eventually import TIMEOUT_SECONDS, until

GROUP, VERSION, PLURAL = "launcher.microsoft.com", "v1", "frameworks"
#: Parts of the package without types.
Watch: Any = watch.Watch
DynamicClient: Any = dynamic.DynamicClient


@pytest.fixture
def connection(isolated: IsolatedNamespace) -> Iterator[client.ApiClient]:
    """A client of the test's server."""
    configuration = client.Configuration(host=isolated.server.url)
    with client.ApiClient(configuration) as connection:
        yield connection


class Frameworks:
    """Custom objects API with the constant arguments of Frameworks."""

    def __init__(self, connection: client.ApiClient, namespace: str) -> None:
        self._api, self._arguments = client.CustomObjectsApi(connection), (GROUP, VERSION, namespace, PLURAL)

    def create(self, body: Any) -> Any:
        return self._api.create_namespaced_custom_object(*self._arguments, body)

    def get(self, name: str) -> Any:
        return self._api.get_namespaced_custom_object(*self._arguments, name)

    def list(self, **options: Any) -> Any:
        return self._api.list_namespaced_custom_object(*self._arguments, **options)

    def patch(self, name: str, body: Any) -> Any:
        return self._api.patch_namespaced_custom_object(*self._arguments, name, body)

    def replace(self, name: str, body: Any) -> Any:
        return self._api.replace_namespaced_custom_object(*self._arguments, name, body)

    def delete(self, name: str) -> Any:
        return self._api.delete_namespaced_custom_object(*self._arguments, name)

    def watch(self, **options: Any) -> Iterator[Any]:
        listing = self._api.list_namespaced_custom_object
        stream: Iterator[Any] = Watch().stream(listing, *self._arguments, **options)
        return stream

    def completed(self, name: str) -> Any:
        """Waits until the Framework is completed, and returns it."""
        for event in self.watch(field_selector=f"metadata.name={name}", timeout_seconds=60):
            if event["object"].get("status", {}).get("state") == "Completed":
                return event["object"]
        raise AssertionError(f"{name} is not completed")


@pytest.fixture
def frameworks(connection: client.ApiClient, isolated: IsolatedNamespace) -> Frameworks:
    """The Frameworks of the test's namespace."""
    return Frameworks(connection, isolated.namespace)


def test_a_framework_is_created_read_and_listed(frameworks: Frameworks, isolated: IsolatedNamespace) -> None:
    created = frameworks.create(isolated.suspended())

    assert frameworks.get("mnist")["metadata"]["uid"] == created["metadata"]["uid"]
    assert [item["metadata"]["name"] for item in frameworks.list()["items"]] == ["mnist"]
    assert frameworks.list(label_selector="colour=red")["items"] == []


def test_a_framework_is_patched_replaced_and_deleted(
    frameworks: Frameworks, isolated: IsolatedNamespace
) -> None:
    frameworks.create(isolated.suspended())

    patched = frameworks.patch("mnist", {"spec": {"description": "patched"}})
    # The launcher writes the status concurrently, which changes the resourceVersion.
    body = until(lambda: observed_framework(frameworks.get("mnist")), "the launcher has observed the change")
    body["spec"]["description"] = "replaced"
    replaced = frameworks.replace("mnist", body)
    frameworks.delete("mnist")

    assert patched["spec"]["description"] == "patched"
    assert replaced["spec"]["description"] == "replaced"
    assert replaced["metadata"]["generation"] == 3
    until(lambda: frameworks.list()["items"] == [] or None, "it is deleted")


def observed_framework(framework: Any) -> Any:
    """Returns the Framework if its status is that of the current generation."""
    observed_generation = framework.get("status", {}).get("observedGeneration")
    return framework if observed_generation == framework["metadata"]["generation"] else None


def test_errors_carry_code_and_reason(frameworks: Frameworks, isolated: IsolatedNamespace) -> None:
    frameworks.create(isolated.suspended())

    with pytest.raises(ApiException) as missing:
        frameworks.get("nosuch")
    with pytest.raises(ApiException) as double:
        frameworks.create(isolated.suspended())
    with pytest.raises(ApiException) as invalid:
        frameworks.create(isolated.suspended("bad", tasks=-1))

    errors = (missing, double, invalid)
    statuses = [orjson.loads(str(error.value.body)) for error in errors]
    assert [error.value.status for error in errors] == [404, 409, 422]
    assert [status["reason"] for status in statuses] == ["NotFound", "AlreadyExists", "Invalid"]
    assert [cause["field"] for cause in statuses[2]["details"]["causes"]] == ["spec.taskRoles[0].taskNumber"]


def test_a_watch_follows_a_framework_until_it_is_completed(
    frameworks: Frameworks, isolated: IsolatedNamespace
) -> None:
    frameworks.create(isolated.framework())

    completed = frameworks.completed("mnist")

    true = {
        condition["type"] for condition in completed["status"]["conditions"] if condition["status"] == "True"
    }
    assert "Succeeded" in true


def test_a_watch_with_a_limit_ends_by_itself(frameworks: Frameworks, isolated: IsolatedNamespace) -> None:
    frameworks.create(isolated.suspended())

    events = list(frameworks.watch(timeout_seconds=1))

    assert [event["object"]["metadata"]["name"] for event in events if event["type"] == "ADDED"] == ["mnist"]


def test_a_watch_from_an_old_version_has_expired(frameworks: Frameworks, isolated: IsolatedNamespace) -> None:
    isolated.restart_server()

    with pytest.raises(ApiException) as error:
        list(frameworks.watch(resource_version="1", timeout_seconds=1))

    assert error.value.status == 410


def test_pods_are_listed_and_their_logs_read(
    connection: client.ApiClient, frameworks: Frameworks, isolated: IsolatedNamespace
) -> None:
    core: Any = client.CoreV1Api(connection)
    frameworks.create(isolated.framework(script="echo one; echo two", tasks=2))
    frameworks.completed("mnist")

    pods = core.list_namespaced_pod(isolated.namespace).items
    log = core.read_namespaced_pod_log("mnist-worker-1", isolated.namespace, tail_lines=1)

    assert [(pod.metadata.name, pod.status.phase) for pod in pods] == [
        ("mnist-worker-0", "Succeeded"),
        ("mnist-worker-1", "Succeeded"),
    ]
    assert pods[0].status.container_statuses[0].state.terminated.exit_code == 0
    assert log == "two\n"


def test_a_log_is_followed_to_its_end(
    connection: client.ApiClient, frameworks: Frameworks, isolated: IsolatedNamespace
) -> None:
    core: Any = client.CoreV1Api(connection)
    frameworks.create(isolated.framework(script=f"echo first; {wait_for_file('go')} echo last"))
    until(lambda: running(core, isolated.namespace), "the pod runs")

    lines = Watch().stream(core.read_namespaced_pod_log, "mnist-worker-0", isolated.namespace)
    first = next(lines)
    isolated.create_file("go")

    assert [first, *lines] == ["first", "last"]


def running(core: Any, namespace: str) -> bool | None:
    """True if the first task's pod runs, otherwise None."""
    pods = core.list_namespaced_pod(namespace, field_selector="metadata.name=mnist-worker-0").items
    return True if pods and pods[0].status.phase == "Running" else None


def test_typed_objects_are_written_and_read(
    connection: client.ApiClient, isolated: IsolatedNamespace
) -> None:
    core: Any = client.CoreV1Api(connection)
    metadata = client.V1ObjectMeta(name="settings")

    core.create_namespaced_config_map(
        isolated.namespace, client.V1ConfigMap(metadata=metadata, data={"rate": "1"})
    )
    core.patch_namespaced_config_map("settings", isolated.namespace, {"data": {"rate": "2"}})

    assert core.read_namespaced_config_map("settings", isolated.namespace).data == {"rate": "2"}
    assert [node.status.conditions[-1].type for node in core.list_node().items] == ["Ready"]
    assert "default" in [namespace.metadata.name for namespace in core.list_namespace().items]


def test_the_dynamic_client_discovers_the_kind(
    connection: client.ApiClient, isolated: IsolatedNamespace
) -> None:
    found = DynamicClient(connection).resources.get(api_version=f"{GROUP}/{VERSION}", kind="Framework")

    created = found.create(body=isolated.suspended(), namespace=isolated.namespace)
    patched = found.patch(
        name="mnist",
        namespace=isolated.namespace,
        body={"spec": {"description": "patched"}},
        content_type="application/merge-patch+json",
    )
    applied = found.server_side_apply(
        body=isolated.suspended(tasks=2),
        namespace=isolated.namespace,
        field_manager="test",
        force_conflicts=True,
    )

    assert created.metadata.name == "mnist"
    assert patched.spec.description == "patched"
    assert applied.spec.taskRoles[0].taskNumber == 2
    assert [item.metadata.name for item in found.get(namespace=isolated.namespace).items] == ["mnist"]


def test_the_version_is_returned(connection: client.ApiClient) -> None:
    assert "+launcher." in client.VersionApi(connection).get_code().git_version


def test_exec_returns_output_and_exit_code(connection: client.ApiClient, isolated: IsolatedNamespace) -> None:
    pods: Any = client.CoreV1Api(connection)
    pods.create_namespaced_pod(isolated.namespace, isolated.pod(main=wait_for_file("never")))
    until(
        lambda: pods.read_namespaced_pod("alone", isolated.namespace).status.phase == "Running",
        "the pod runs",
    )

    session: Any = stream(
        pods.connect_get_namespaced_pod_exec,
        "alone",
        isolated.namespace,
        command=["sh", "-c", "read line; echo $line; exit 5"],
        stdin=True,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )
    try:
        session.write_stdin("hello\n")
        session.run_forever(timeout=TIMEOUT_SECONDS)
    finally:
        # After the close frame of the server, its close() would leave the connection open.
        session.sock.shutdown()

    assert session.read_stdout() == "hello\n"
    assert session.returncode == 5
