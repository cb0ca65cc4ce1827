"""An object that the launcher cannot handle is not stored."""

from typing import Any

import pytest

from tests.builders import a_framework, a_pod_template, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, ended

SERVICES = "/api/v1/namespaces/default/services"


@pytest.mark.parametrize("selector", ["x", ["a"], {"a": ["b"]}], ids=["text", "list", "object of lists"])
def test_a_service_with_a_malformed_selector_is_rejected_and_frameworks_continue(
    serve: Serve, selector: Any
) -> None:
    server = serve()
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"selector": selector},
    }

    response = server.post(SERVICES, service)

    assert (response["code"], response["reason"]) == (422, "Invalid")
    assert response["details"]["causes"][0]["field"].startswith("spec.selector")
    server.kill()
    server.start()
    quick = a_pod_template(containers=[{"name": "main", "image": "busybox", "command": ["true"]}])
    server.post(FRAMEWORKS, a_framework(a_role(pod=quick, tasks=1), name="after"))
    assert ended(server.completed("after")) == "Succeeded"
