"""A stored object that cannot be handled affects only its own key: the launcher works, reports and deletes it."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from launcher.store.interface import EVENTS, NAMESPACES, NODES, SERVICES, ResourceKind
from tests.builders import a_framework, a_pod_template, a_role
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.malformed_objects import samples, store_objects, with_wrong_values
from tests.local.server import FRAMEWORKS, PODS, Server

NODE = "here"
StoredKeys = list[tuple[ResourceKind, str, str]]


def path_of(kind: ResourceKind, namespace: str, name: str = "") -> str:
    root = f"/apis/{kind.group}" if kind.group else "/api"
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}/{kind.version}{within}/{kind.plural}" + (f"/{name}" if name else "")


def code_of(server: Server, path: str, *options: str) -> str:
    return server.curl(path, "--output", "/dev/null", "--write-out", "%{http_code}", *options)


def run_framework(server: Server, name: str) -> None:
    """Creates a Framework with DNS names, and waits for its success."""
    role = a_role("worker", 2, pod=a_pod_template(subdomain=name))

    created = server.post(FRAMEWORKS, a_framework(role, name=name))

    assert created["kind"] == "Framework", created
    assert (
        server.completed(name)["status"]["attemptStatus"]["completionStatus"]["type"]["name"] == "Succeeded"
    )


def test_a_stored_service_with_a_malformed_selector_ends_neither_the_launcher_nor_its_next_start(
    serve: Serve, tmp_path: Path
) -> None:
    selectors = ("x", ["a"], {"a": ["b"]}, 7, {"a": None})
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"generation": 1}}
    malformed = store_objects(
        tmp_path / "data", [(SERVICES, {**service, "spec": {"selector": each}}) for each in selectors]
    )

    server = serve("--node", NODE, at=tmp_path)
    run_framework(server, "first")
    server.kill()
    server.start()
    run_framework(server, "second")

    assert server.curl("/readyz") == "ok"
    for key in malformed:
        assert code_of(server, path_of(*key), "-X", "DELETE") == "200"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "step",
    [pytest.param(3, id="every third"), pytest.param(1, id="all", marks=pytest.mark.slow)],
)
def test_stored_objects_with_wrong_types_affect_only_their_own_keys(
    serve: Serve, tmp_path: Path, step: int
) -> None:
    objects = [(kind, obj) for kind, sample in samples(NODE) for obj in with_wrong_values(sample)]
    malformed = store_objects(tmp_path / "data", objects[::step])

    server = serve("--node", NODE, at=tmp_path)
    run_framework(server, "next")
    server.kill()
    server.start()
    run_framework(server, "after")

    verbose = server.curl("/readyz?verbose")
    assert server.curl("/readyz") == "ok"
    assert "pods default/bad-" in verbose
    assert "launcher_object_errors{" in server.curl("/metrics")
    table = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"
    for kind in dict.fromkeys(kind for kind, _, _ in malformed):
        namespace = "default" if kind.namespaced else ""
        assert code_of(server, path_of(kind, namespace)) == "200", kind
        assert code_of(server, path_of(kind, namespace), "-H", table) == "200", kind
    delete_malformed(server, malformed)
    until(lambda: None if "default/bad-" in server.curl("/readyz?verbose") else True, "no error is left")
    assert "Traceback" not in server.output


def has_other_node(pod: Any) -> bool:
    spec = pod.get("spec")
    return isinstance(spec, dict) and spec.get("nodeName") not in (None, NODE)


def delete_malformed(server: Server, malformed: StoredKeys) -> None:
    """Deletes every malformed object that users can delete, and waits until none is left."""
    # Users can delete neither events nor nodes, and every namespace exists implicitly.
    deletable = [key for key in malformed if key[0] not in (EVENTS, NODES, NAMESPACES)]
    on_missing_nodes = {pod["metadata"]["name"] for pod in server.get(PODS)["items"] if has_other_node(pod)}
    # No node would report the end of such a pod, so it is deleted without a grace period.
    urls = [
        f"{server.url}{path_of(*key)}{'?gracePeriodSeconds=0' if key[2] in on_missing_nodes else ''}"
        for key in deletable
    ]
    for start in range(0, len(urls), 50):
        batch = urls[start : start + 50]
        options = [option for url in batch for option in ("-o", "/dev/null", url)]
        command = ["curl", "-sS", "--max-time", "60", "-X", "DELETE", "-w", "%{http_code} %{url}\n", *options]
        output = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
        unexpected = [
            line for line in output.splitlines() if line.split()[0] not in ("200", "202", "404", "409")
        ]
        assert not unexpected, unexpected

    def remaining() -> list[str]:
        kinds = dict.fromkeys(kind for kind, _, _ in deletable)
        listed = {kind: server.get(path_of(kind, "default"))["items"] for kind in kinds}
        existing = {(kind, obj["metadata"]["name"]) for kind, items in listed.items() for obj in items}
        return [path_of(*key) for key in deletable if (key[0], key[2]) in existing]

    try:
        until(lambda: None if remaining() else True, "the malformed objects are deleted")
    except AssertionError:
        raise AssertionError(
            f"{len(remaining())} still exist: {remaining()[:20]}: {server.get(remaining()[0])}"
        ) from None


def test_a_configured_node_with_wrong_types_is_corrected(serve: Serve, tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"generation": 1}, "spec": "x", "status": ["x"]}
    store_objects(tmp_path / "data", [(NODES, node)])

    server = serve("--node", "bad-0", at=tmp_path)
    run_framework(server, "first")

    assert server.get("/api/v1/nodes/bad-0")["status"]["capacity"]
