"""The conformance checks that want a whole launcher: with its collector and agent, and with a real crash."""

import http.client
import threading
from typing import Any
from urllib.parse import urlsplit

import orjson

from tests.core.manifests import a_framework, a_pod, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PATIENCE, PODS, Server, until


def request(server: Server, method: str, path: str, body: Any = None) -> Any:
    """The answer as JSON; raises OSError or HTTPException when the server goes away meanwhile."""
    where = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=PATIENCE)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, None if body is None else orjson.dumps(body), headers)
        return orjson.loads(connection.getresponse().read())
    finally:
        connection.close()


def watched(server: Server, path: str, last: str) -> list[Any]:
    """Every change, up to and with the first that is *last*."""
    where = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=PATIENCE)
    connection.request("GET", path)
    changes = []
    with connection.getresponse() as stream:
        for line in stream:
            changes.append(orjson.loads(line))
            if changes[-1]["type"] == last:
                break
    connection.close()
    return changes


def test_check_064_deleted_in_the_foreground_a_framework_goes_after_its_pods(serve: Serve) -> None:
    server = serve()
    container = {"name": "main", "image": "none", "command": ["sleep", "1000"]}
    pod = a_pod(containers=[container], terminationGracePeriodSeconds=1)
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


def test_check_079_killed_in_the_middle_of_writes_it_keeps_every_acknowledged_one(serve: Serve) -> None:
    server = serve()
    until(lambda: server.curl("/readyz") == "ok" or None, "the server is ready")
    acknowledged: dict[str, int] = {}

    def write(writer: int) -> None:
        for number in range(10_000):
            name = f"w{writer}-{number}"
            try:
                framework = a_framework(a_role(tasks=1), name=name, executionType="Create")
                answer = request(server, "POST", FRAMEWORKS, framework)
            except (OSError, http.client.HTTPException):
                return
            acknowledged[name] = int(answer["metadata"]["resourceVersion"])

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for writer in writers:
        writer.start()
    until(lambda: len(acknowledged) > 100 or None, "many are written")
    server.kill()
    for writer in writers:
        writer.join(PATIENCE)
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
