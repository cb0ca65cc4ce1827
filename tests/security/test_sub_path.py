"""A subPath never leads out of its volume, neither by dots nor by a link that a container creates."""

from pathlib import Path

import pytest

from tests.builders import Json, a_framework, a_pod_template, a_role
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, Server


def a_reader(sub_path: str, *init: Json) -> Json:
    """A Framework whose task reads a file at *sub_path* of a volume that the init containers write."""
    mount = {"name": "work", "mountPath": "/mnt/work", "subPath": sub_path}
    main = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", "cat /mnt/work/secret || cat /mnt/work"],
        "volumeMounts": [mount],
    }
    pod = a_pod_template(
        containers=[main], initContainers=list(init), volumes=[{"name": "work", "emptyDir": {}}]
    )
    return a_framework(a_role(tasks=1, pod=pod), name="reader")


def a_link_maker(target: Path) -> Json:
    return {
        "name": "link",
        "image": "none",
        "command": ["ln", "-s", str(target), "/mnt/volume/link"],
        "volumeMounts": [{"name": "work", "mountPath": "/mnt/volume"}],
    }


def waiting_reason(server: Server) -> str | None:
    """The waiting message of the main container."""
    pod = server.get(f"{PODS}/reader-worker-0")
    statuses = pod["status"].get("containerStatuses", []) if pod["kind"] == "Pod" else []
    return next((state["state"].get("waiting", {}).get("message") for state in statuses), None)


@pytest.mark.parametrize("sub_path", ["../..", "a/../../b", "/etc"])
def test_a_sub_path_with_dots_is_rejected_or_not_mounted(serve: Serve, sub_path: str) -> None:
    server = serve()

    response = server.post(FRAMEWORKS, a_reader(sub_path))

    if response["kind"] == "Framework":
        message = until(lambda: waiting_reason(server), "the container reports why it does not start")
        assert f'subPath "{sub_path}" must be relative' in message
    else:
        assert response["details"]["causes"][0]["field"].endswith("volumeMounts[0].subPath")


@pytest.mark.parametrize("below", ["link", "link/deeper"])
def test_a_link_that_leads_out_of_the_volume_is_not_followed(
    serve: Serve, tmp_path: Path, below: str
) -> None:
    outside = tmp_path / "outside"
    (outside / "deeper").mkdir(parents=True)
    for directory in (outside, outside / "deeper"):
        (directory / "secret").write_text("a secret of the machine")
    server = serve()

    server.post(FRAMEWORKS, a_reader(below, a_link_maker(outside)))

    message = until(lambda: waiting_reason(server), "the container reports why it does not start")
    assert f'subPath "{below}" leads out of the volume' in message
    assert sorted(path.name for path in outside.iterdir()) == ["deeper", "secret"]
