"""The conformance checks that need a whole launcher: its garbage collector, its agent, and a crash."""

import http.client
import threading
from typing import Any
from urllib.parse import urlsplit

import orjson

from tests.builders import a_framework, a_pod_template, a_role
from tests.eventually import TIMEOUT_SECONDS, until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, Server


def request(server: Server, method: str, path: str, body: Any = None) -> Any:
    """The response as JSON; raises OSError or HTTPException if the server exits meanwhile."""
    url = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=TIMEOUT_SECONDS)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, None if body is None else orjson.dumps(body), headers)
        return orjson.loads(connection.getresponse().read())
    finally:
        connection.close()


def watched(server: Server, path: str, last: str) -> list[Any]:
    """The types and objects of all changes, up to and including the first of type *last*."""
    url = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=TIMEOUT_SECONDS)
    connection.request("GET", path)
    changes = []
    with connection.getresponse() as stream:
        for line in stream:
            changes.append(orjson.loads(line))
            if changes[-1]["type"] == last:
                break
    connection.close()
    return changes


def test_check_064_foreground_deletion_removes_a_framework_after_its_pods(serve: Serve) -> None:
    server = serve()
    container = {"name": "main", "image": "none", "command": ["sleep", "1000"]}
    pod = a_pod_template(containers=[container], terminationGracePeriodSeconds=1)
    server.post(FRAMEWORKS, a_framework(a_role(pod=pod), name="a"))
    server.runs("a-worker-1")

    deleted = request(server, "DELETE", f"{FRAMEWORKS}/a", {"propagationPolicy": "Foreground"})
    version = int(deleted["metadata"]["resourceVersion"])
    frameworks = watched(
        server, f"{FRAMEWORKS}?watch=1&resourceVersion={version - 1}&timeoutSeconds=60", "DELETED"
    )
    pods = server.get(PODS)

    assert deleted["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert frameworks[-1]["type"] == "DELETED"
    assert pods["items"] == []
    assert server.get(f"{FRAMEWORKS}/a")["code"] == 404


def test_check_079_a_launcher_killed_during_writes_keeps_every_acknowledged_one(serve: Serve) -> None:
    server = serve()
    until(lambda: server.curl("/readyz") == "ok" or None, "the server is ready")
    acknowledged: dict[str, int] = {}

    def write(writer: int) -> None:
        for number in range(10_000):
            name = f"w{writer}-{number}"
            try:
                framework = a_framework(a_role(tasks=1), name=name, executionType="Create")
                response = request(server, "POST", FRAMEWORKS, framework)
            except (OSError, http.client.HTTPException):
                return
            acknowledged[name] = int(response["metadata"]["resourceVersion"])

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for writer in writers:
        writer.start()
    until(lambda: len(acknowledged) > 100 or None, "many are written")
    server.kill()
    for writer in writers:
        writer.join(TIMEOUT_SECONDS)
    newest = max(acknowledged.values())
    server.start()
    listed = request(server, "GET", FRAMEWORKS)
    change = watched(server, f"{FRAMEWORKS}?watch=1&resourceVersion={newest - 1}&timeoutSeconds=5", "ERROR")

    versions = {
        item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in listed["items"]
    }
    assert {name for name, version in acknowledged.items() if versions.get(name, 0) < version} == set()
    assert int(listed["metadata"]["resourceVersion"]) >= newest
    assert change[-1]["type"] != "ERROR" or change[-1]["object"]["code"] == 410
    created = request(server, "POST", FRAMEWORKS, a_framework(a_role(tasks=1), name="later"))
    assert int(created["metadata"]["resourceVersion"]) > newest
