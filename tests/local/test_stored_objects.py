"""A stored object that cannot be handled costs its own key: the launcher starts, works, reports it and deletes it."""

import subprocess
from pathlib import Path

import pytest

from launcher.store.interface import EVENTS, NAMESPACES, NODES, SERVICES, ResourceKind
from tests.core.manifests import a_framework, a_pod, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, Server, until
from tests.local.stored import put, samples, spoilt

NODE = "here"
Placed = list[tuple[ResourceKind, str, str]]


def path_of(kind: ResourceKind, namespace: str, name: str = "") -> str:
    root = f"/apis/{kind.group}" if kind.group else "/api"
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}/{kind.version}{within}/{kind.plural}" + (f"/{name}" if name else "")


def code_of(server: Server, path: str, *options: str) -> str:
    return server.curl(path, "--output", "/dev/null", "--write-out", "%{http_code}", *options)


def runs_a_framework(server: Server, name: str) -> None:
    """A new Framework, whose pods have names in a Service, runs to its end."""
    role = a_role("worker", 2, pod=a_pod(subdomain=name))

    made = server.post(FRAMEWORKS, a_framework(role, name=name))

    assert made["kind"] == "Framework", made
    assert (
        server.completed(name)["status"]["attemptStatus"]["completionStatus"]["type"]["name"] == "Succeeded"
    )


def test_a_service_whose_selector_is_no_object_ends_neither_the_launcher_nor_its_next_start(
    serve: Serve, tmp_path: Path
) -> None:
    selectors = ("x", ["a"], {"a": ["b"]}, 7, {"a": None})
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"generation": 1}}
    bad = put(tmp_path / "data", [(SERVICES, {**service, "spec": {"selector": each}}) for each in selectors])

    server = serve("--node", NODE, at=tmp_path)
    runs_a_framework(server, "first")
    server.kill()
    server.start()
    runs_a_framework(server, "second")

    assert server.curl("/readyz") == "ok"
    for place in bad:
        assert code_of(server, path_of(*place), "-X", "DELETE") == "200"


@pytest.mark.timeout(600)
def test_stored_objects_with_wrong_types_cost_their_own_keys(serve: Serve, tmp_path: Path) -> None:
    bad = put(tmp_path / "data", [(kind, obj) for kind, sample in samples(NODE) for obj in spoilt(sample)])

    server = serve("--node", NODE, at=tmp_path)
    runs_a_framework(server, "next")
    server.kill()
    server.start()
    runs_a_framework(server, "after")

    verbose = server.curl("/readyz?verbose")
    assert server.curl("/readyz") == "ok"
    assert "pods default/bad-" in verbose
    assert "launcher_object_errors{" in server.curl("/metrics")
    table = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"
    for kind in dict.fromkeys(kind for kind, _, _ in bad):
        namespace = "default" if kind.namespaced else ""
        assert code_of(server, path_of(kind, namespace)) == "200", kind
        assert code_of(server, path_of(kind, namespace), "-H", table) == "200", kind
    is_deleted(server, bad)
    until(lambda: None if "default/bad-" in server.curl("/readyz?verbose") else True, "no error is left")
    assert "Traceback" not in server.said


def is_deleted(server: Server, bad: Placed) -> None:
    """Every bad object of a kind that can be deleted is gone soon after a DELETE."""
    # Neither events nor nodes can be deleted by users, and every name of a namespace is there.
    doomed = [place for place in bad if place[0] not in (EVENTS, NODES, NAMESPACES)]
    urls = [server.url + path_of(*place) for place in doomed]
    for start in range(0, len(urls), 50):
        batch = urls[start : start + 50]
        words = [word for url in batch for word in ("-o", "/dev/null", url)]
        command = ["curl", "-sS", "--max-time", "60", "-X", "DELETE", "-w", "%{http_code} %{url}\n", *words]
        said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
        wrong = [line for line in said.splitlines() if line.split()[0] not in ("200", "202", "404", "409")]
        assert not wrong, wrong

    def left() -> list[str]:
        kinds = dict.fromkeys(kind for kind, _, _ in doomed)
        listed = {kind: server.get(path_of(kind, "default"))["items"] for kind in kinds}
        there = {(kind, obj["metadata"]["name"]) for kind, items in listed.items() for obj in items}
        return [path_of(*place) for place in doomed if (place[0], place[2]) in there]

    try:
        until(lambda: None if left() else True, "bad objects are gone")
    except AssertionError:
        raise AssertionError(
            f"{len(left())} are still there: {left()[:20]}: {server.get(left()[0])}"
        ) from None


def test_a_node_of_its_own_with_wrong_types_is_put_right(serve: Serve, tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"generation": 1}, "spec": "x", "status": ["x"]}
    put(tmp_path / "data", [(NODES, node)])

    server = serve("--node", "bad-0", at=tmp_path)
    runs_a_framework(server, "first")

    assert server.get("/api/v1/nodes/bad-0")["status"]["capacity"]
