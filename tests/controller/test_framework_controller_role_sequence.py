"""The role sequence is logged as Arena's operator logs it, and is the order of creation."""

import logging

import pytest

from launcher.controller.framework_controller import FrameworkController, log_role_sequence
from launcher.store.interface import EVENTS, FRAMEWORKS, PODS
from tests.controller.simulation.scenarios import a_framework, a_role
from tests.eventually import eventually
from tests.node.clusters import NOW, a_store, running

ROLES = ["worker", "chief", "ps", "evaluator"]


@pytest.mark.parametrize(
    ("annotations", "names"),
    [
        pytest.param(
            {"job-role-sequence": "Worker,Chief,PS,Evaluator"}, "Worker Chief PS Evaluator", id="arena"
        ),
        pytest.param({}, "worker chief ps evaluator", id="roleSequence"),
    ],
)
def test_11_the_sequence_is_logged_with_the_message_of_arenas_operator(
    annotations: dict[str, str], names: str, caplog: pytest.LogCaptureFixture
) -> None:
    metadata = {"name": "tf", "namespace": "default", "uid": "u", "annotations": annotations}

    with caplog.at_level(logging.INFO):
        log_role_sequence({"metadata": metadata, "spec": {"roleSequence": ROLES}})

    (record,) = caplog.records
    assert record.getMessage() == f"the Role Sequence of job tf is: [{names}]"
    assert vars(record)["job"] == "default.tf"


def test_a_sequence_in_the_annotation_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metadata = {
        "name": "f",
        "namespace": "default",
        "uid": "u",
        "annotations": {"job-role-sequence": "PS,Worker"},
    }
    roles = [{"name": "worker"}, {"name": "ps"}]

    with caplog.at_level(logging.INFO):
        log_role_sequence({"metadata": metadata, "spec": {"taskRoles": roles}})

    assert [record.getMessage() for record in caplog.records] == [
        "the Role Sequence of job f is: [PS Worker]"
    ]


async def test_pods_are_created_in_the_order_of_the_annotation() -> None:
    store = a_store()
    framework = a_framework("f", a_role("worker", 2), a_role("chief", 1), a_role("ps", 2))
    framework["metadata"]["annotations"] = {"job-role-sequence": "PS,Worker"}
    await store.create(FRAMEWORKS, framework)

    async def all_pods_exist() -> bool:
        return len((await store.list(PODS)).items) == 5

    async with running(FrameworkController(store, clock=lambda: NOW, jitter=lambda: 0.0)):
        await eventually(all_pods_exist)
        pods = sorted((await store.list(PODS)).items, key=lambda pod: int(pod["metadata"]["resourceVersion"]))

    assert [pod["metadata"]["name"].split("-")[1] for pod in pods] == [
        "ps",
        "ps",
        "worker",
        "worker",
        "chief",
    ]


async def test_the_sequence_of_a_new_framework_is_recorded_in_one_event() -> None:
    store = a_store()
    framework = a_framework("f", a_role("worker", 1), a_role("ps", 1))
    framework["metadata"]["annotations"] = {"job-role-sequence": "PS,Worker"}
    await store.create(FRAMEWORKS, framework)

    async def all_pods_exist() -> bool:
        return len((await store.list(PODS)).items) == 2

    async def sequences() -> list[str]:
        events = (await store.list(EVENTS)).items
        return [event["message"] for event in events if event["reason"] == "RoleSequence"]

    async def is_recorded() -> bool:
        return bool(await sequences())

    async with running(FrameworkController(store, clock=lambda: NOW, jitter=lambda: 0.0)):
        await eventually(all_pods_exist)
        await eventually(is_recorded)
    async with running(FrameworkController(store, clock=lambda: NOW, jitter=lambda: 0.0)):
        await eventually(all_pods_exist)

    assert await sequences() == ["the Role Sequence of job f is: [PS Worker]"]


def test_without_a_sequence_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_role_sequence({"metadata": {"name": "tf", "namespace": "default", "uid": "u"}, "spec": {}})

    assert caplog.records == []
