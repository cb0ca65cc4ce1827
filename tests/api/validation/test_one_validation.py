"""Frameworks are validated by the same function wherever they enter: API, proxy, webhook and controller."""

from functools import partial
from typing import Any

from launcher.controller.framework_state import FrameworkState
from launcher.core.planning.options import PlannerOptions
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.core.validation.framework import validation_errors
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.conftest import api_dependencies, memory_store, serving
from tests.api.proxy.fake_api_server import run_fake_api_server
from tests.api.proxy.proxies import run_proxy
from tests.api.samples import B
from tests.api.webhook.conftest import run_webhook
from tests.api.webhook.reviews import a_review
from tests.builders import a_framework, a_role

Json = dict[str, Any]
POLICY = AdmissionPolicy(host_network=False)


def an_invalid_framework() -> Json:
    """A Framework that violates the schema, a rule beyond it, and the admission policy."""
    framework = a_framework(a_role("worker", 2), name="a")
    role = framework["spec"]["taskRoles"][0]
    role["task"]["pod"]["spec"]["hostNetwork"] = True
    role["startAfter"] = [{"role": "unknown", "condition": "Running"}]
    framework["spec"]["executionType"] = "Sometimes"
    return framework


def causes(status: Json) -> list[tuple[str, str]]:
    return [(cause["field"], cause["message"]) for cause in status["details"]["causes"]]


async def test_all_errors_are_the_same_in_the_api_the_proxy_the_webhook_and_the_controller() -> None:
    framework = an_invalid_framework()

    async with serving(api_dependencies(memory_store(), policy=POLICY)) as api:
        local = (await api.post(B, framework)).failure(422, "Invalid")
    async with (
        run_fake_api_server() as cluster,
        run_proxy(ClusterConfig(cluster.url, FixedHeader("")), policy=POLICY) as proxy,
    ):
        proxied = (await proxy.post(B, framework)).failure(422, "Invalid")
    async with run_webhook(POLICY) as webhook:
        reviewed = (await webhook.validate(a_review(framework)))["status"]
    metadata = {
        **framework["metadata"],
        "namespace": "default",
        "uid": "u",
        "generation": 1,
        "resourceVersion": "1",
    }
    stored = {**framework, "metadata": metadata}
    state = FrameworkState(stored, PlannerOptions(), [], partial(validation_errors, policy=POLICY))

    fields = {field for field, _ in causes(local)}
    assert fields == {
        "spec.executionType",
        "spec.taskRoles[0].startAfter[0].role",
        "spec.taskRoles[0].task.pod.spec.hostNetwork",
    }
    assert causes(proxied) == causes(reviewed) == causes(local)
    assert state.framework.spec_errors == "; ".join(f"{field}: {message}" for field, message in causes(local))
