"""Pods that can never start fail their attempt instead of waiting."""

from typing import Any

from tests.builders import Json, a_framework, a_pod_template, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS


def a_framework_that_cannot_start(name: str, *, restart_policy: str = "Never", **container: Any) -> Json:
    container = {"name": "main", "image": "x", "command": ["true"], **container}
    pod = a_pod_template(containers=[container], restartPolicy=restart_policy)
    return a_framework(a_role("worker", 1, pod=pod), name=name)


def test_pods_that_can_never_start_fail_with_the_reason(serve: Serve) -> None:
    server = serve()
    request = {"requests": {"cpu": "100000"}}
    server.post(FRAMEWORKS, a_framework_that_cannot_start("large", resources=request))
    command = ["/does/not/exist"]
    server.post(
        FRAMEWORKS, a_framework_that_cannot_start("typo", restart_policy="OnFailure", command=command)
    )

    messages = {name: server.completed(name)["status"]["message"] for name in ("large", "typo")}

    assert "can never start" in messages["large"]
    assert "Insufficient cpu" in messages["large"]
    assert "can never start" in messages["typo"]
    assert "/does/not/exist" in messages["typo"]
    first = {name: server.get(f"{FRAMEWORKS}/{name}/diagnosis")["findings"][0] for name in messages}
    assert {name: finding["id"] for name, finding in first.items()} == {
        "large": "FL-PEND-02",
        "typo": "FL-RUN-01",
    }
