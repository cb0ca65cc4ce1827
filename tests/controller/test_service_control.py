"""Services are created before the pods that need them, follow the spec, and never replace those of other owners."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from launcher.controller.framework_controller import FrameworkController
from launcher.controller.service_control import ServiceControl
from launcher.core.errors import Forbidden, OutcomeUnknown
from launcher.core.pods.services import SERVICES_ANNOTATION
from launcher.store.interface import FRAMEWORKS, PODS, SERVICES, DeleteOptions, MergePatch, Object
from tests.controller.harness import RecordingStore, run_controller, unavailable, wait_for_state
from tests.controller.simulation.scenarios import a_framework, a_role
from tests.controller.simulation.virtual_time import run
from tests.eventually import eventually


def role_with_services(name: str, tasks: int, mode: str = "PerTask", port: int = 2222) -> Object:
    """A role with the annotation for Services."""
    container = {"name": "c", "image": "busybox", "ports": [{"containerPort": port}]}
    pod = {
        "metadata": {"annotations": {SERVICES_ANNOTATION: mode}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {**a_role(name, tasks), "task": {"pod": pod}}


@asynccontextmanager
async def run_service_controller(
    store: RecordingStore, *frameworks: Object, **options: Any
) -> AsyncIterator[FrameworkController]:
    """Creates the Frameworks and runs a controller with the Service hook."""
    for framework in frameworks:
        await store.create(FRAMEWORKS, framework)
    async with run_controller(store, hooks=[ServiceControl(store)], **options) as controller:
        yield controller


async def services(store: RecordingStore) -> dict[str, Object]:
    return {service["metadata"]["name"]: service for service in (await store.list(SERVICES)).items}


def created_names(store: RecordingStore) -> list[str]:
    """Returns the names of the Services and pods that the controller created, in order."""
    return [
        obj["metadata"]["name"]
        for verb, kind, obj in store.calls
        if verb == "create" and kind in _RECORDED_KINDS
    ]


_RECORDED_KINDS = (SERVICES, PODS)


def a_service(name: str = "f", **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"app": "other"}, **spec},
    }


async def first_task_message(store: RecordingStore) -> str:
    """Returns the message of the first task."""
    roles = (await store.status())["attemptStatus"]["taskRoleStatuses"]
    return str(roles[0]["taskStatuses"][0].get("message", ""))


def test_services_are_created_before_the_first_pod_and_owned_by_the_framework() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        async with run_service_controller(store, a_framework("f", role_with_services("w", 2), discovery={})):
            await wait_for_state(store, "AttemptRunning")
            existing = await services(store)
            uid = (await store.get(FRAMEWORKS, "default", "f"))["metadata"]["uid"]

        assert sorted(created_names(store)[:3]) == ["f", "f-w-0", "f-w-1"]
        assert sorted(created_names(store)[3:]) == ["f-w-0", "f-w-1"]
        assert {service["metadata"]["ownerReferences"][0]["uid"] for service in existing.values()} == {uid}

    run(scenario())


def test_a_framework_without_services_causes_no_calls() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        listed_kinds: list[object] = []
        original = store.list

        async def record_list(kind: Any, *args: Any, **kwargs: Any) -> Any:
            listed_kinds.append(kind)
            return await original(kind, *args, **kwargs)

        store.list = record_list  # type: ignore[method-assign]  # records the kinds
        async with run_service_controller(store, a_framework("f", a_role("w", 2))):
            await wait_for_state(store, "Completed")

        assert SERVICES not in listed_kinds
        assert store.count("create", SERVICES) == 0

    run(scenario())


def test_existing_services_are_used_after_a_retry_and_after_a_restart() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        framework = a_framework("f", role_with_services("w", 2), discovery={}, retries=1)
        async with run_service_controller(store, framework, seconds=100.0):
            await wait_for_state(store, "AttemptRunning")
        uids = {service["metadata"]["uid"] for service in (await services(store)).values()}
        async with run_service_controller(store, seconds=100.0, code=1):
            await eventually(lambda: _has_attempt(store, 1), within=300)
            await wait_for_state(store, "AttemptRunning")

            assert {service["metadata"]["uid"] for service in (await services(store)).values()} == uids
        assert store.count("create", SERVICES) == 3

    run(scenario())


async def _has_attempt(store: RecordingStore, number: int) -> bool:
    return bool((await store.status())["attemptStatus"]["id"] == number)


def test_a_lost_response_does_not_create_a_second_service() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        lost: asyncio.Queue[Object] = asyncio.Queue()
        remaining_failures = [1]

        def lose_first_response(verb: str, kind: object, obj: Any) -> Exception | None:
            if (verb, kind) == ("create", SERVICES) and remaining_failures:
                remaining_failures.clear()
                lost.put_nowait(obj)
                return OutcomeUnknown("response lost")
            return None

        async def store_lost_request() -> None:
            # The first call takes effect although its response was lost.
            await store.create(SERVICES, await lost.get())

        store.fail = lose_first_response
        task = asyncio.create_task(store_lost_request())
        async with run_service_controller(store, a_framework("f", a_role("w", 1), discovery={})):
            await wait_for_state(store, "Completed")
            await task
        assert store.count("create", SERVICES) == 1

    run(scenario())


def test_services_follow_the_spec_also_at_a_scale_down() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        framework = a_framework("f", role_with_services("w", 3), role_with_services("p", 1))
        async with run_service_controller(store, framework, seconds=1000.0):
            await wait_for_state(store, "AttemptRunning")
            before = await services(store)
            await _replace_roles(store, role_with_services("w", 1), role_with_services("p", 1))
            await eventually(lambda: _services_are(store, "f-p-0", "f-w-0"))
            await _replace_roles(store, role_with_services("w", 2))
            await eventually(lambda: _services_are(store, "f-w-0", "f-w-1"))
            await _replace_roles(store, a_role("w", 2))
            await eventually(lambda: _services_are(store))

        assert sorted(before) == ["f-p-0", "f-w-0", "f-w-1", "f-w-2"]

    run(scenario())


async def _replace_roles(store: RecordingStore, *roles: Object) -> None:
    await store.patch(FRAMEWORKS, "default", "f", MergePatch({"spec": {"taskRoles": list(roles)}}))


async def _services_are(store: RecordingStore, *names: str) -> bool:
    return sorted(await services(store)) == sorted(names)


def test_a_failed_deletion_of_a_service_is_retried() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        async with run_service_controller(
            store, a_framework("f", role_with_services("w", 2)), seconds=1000.0
        ):
            await wait_for_state(store, "AttemptRunning")
            store.fail = unavailable("delete", SERVICES)
            await _replace_roles(store, role_with_services("w", 1))
            await eventually(lambda: _pods_are(store, "f-w-0"))
            # No further events would cause a reconcile.
            await asyncio.sleep(300)
            assert sorted(await services(store)) == ["f-w-0", "f-w-1"]

            store.fail = lambda verb, kind, obj: None
            await eventually(lambda: _services_are(store, "f-w-0"))

    run(scenario())


async def _pods_are(store: RecordingStore, *names: str) -> bool:
    return sorted(await store.pods()) == sorted(names)


def test_a_service_with_outdated_ports_is_recreated() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        async with run_service_controller(
            store, a_framework("f", role_with_services("w", 1)), seconds=1000.0
        ):
            await wait_for_state(store, "AttemptRunning")
            await _replace_roles(store, role_with_services("w", 1, port=3333))
            await eventually(lambda: _has_port(store, 3333))

    run(scenario())


async def _has_port(store: RecordingStore, port: int) -> bool:
    existing = (await services(store)).get("f-w-0")
    return existing is not None and existing["spec"]["ports"][0]["port"] == port


def test_services_are_deleted_when_the_framework_completes_unless_its_pods_keep_running() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        async with run_service_controller(
            store,
            a_framework("f", role_with_services("w", 1), discovery={}),
            a_framework("g", role_with_services("w", 1), cleanPodPolicy="None"),
        ):
            await wait_for_state(store, "Completed", "f")
            await wait_for_state(store, "Completed", "g")
            await eventually(lambda: _services_are(store, "g-w-0"))

    run(scenario())


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"clusterIP": "None"}, id="another selector"),
        pytest.param({"selector": {"FC_FRAMEWORK_NAME": "f"}}, id="not headless"),
    ],
)
def test_a_service_of_another_owner_is_not_changed_and_the_status_contains_the_fix(spec: Object) -> None:
    async def scenario() -> None:
        store = RecordingStore()
        existing = await store.create(SERVICES, a_service(**spec))
        async with run_service_controller(store, a_framework("f", a_role("w", 1), discovery={})):
            await eventually(lambda: _message_contains(store, "Service f already exists"))
            assert "rename the Framework" in await first_task_message(store)
            assert await store.pods() == {}
            assert (await services(store))["f"] == existing

            await store.delete(SERVICES, "default", "f")
            await wait_for_state(store, "Completed")

    run(scenario())


async def _message_contains(store: RecordingStore, text: str) -> bool:
    return bool((await store.status()).get("attemptStatus")) and text in await first_task_message(store)


def test_an_equivalent_service_of_the_user_is_used_and_not_changed() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        service = a_service(clusterIP="None", selector={"FC_FRAMEWORK_NAME": "f"})
        existing = await store.create(SERVICES, service)
        async with run_service_controller(store, a_framework("f", a_role("w", 1), discovery={})):
            await wait_for_state(store, "Completed")

        assert await services(store) == {"f": existing}

    run(scenario())


def test_a_service_that_the_pod_template_refers_to_may_be_the_users() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        role = a_role("w", 1)
        role["task"]["pod"] = {"spec": {**role["task"]["pod"]["spec"], "subdomain": "f"}}
        existing = await store.create(SERVICES, a_service(clusterIP="None"))
        async with run_service_controller(store, a_framework("f", role)):
            await wait_for_state(store, "Completed")

        assert await services(store) == {"f": existing}

    run(scenario())


def test_pods_wait_until_the_services_of_a_deleted_framework_with_the_same_name_are_removed() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        async with run_service_controller(
            store, a_framework("f", a_role("w", 1), discovery={}), seconds=1000.0
        ):
            await wait_for_state(store, "AttemptRunning")
            old = (await services(store))["f"]["metadata"]
            # The simulated garbage collector deletes pods only.
            await store.delete(FRAMEWORKS, "default", "f")
            await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1), discovery={}))
            await eventually(lambda: _message_contains(store, "of a deleted Framework to be removed"))

            await store.delete(SERVICES, "default", "f", DeleteOptions(uid=old["uid"]))
            await eventually(lambda: _is_recreated(store, old["uid"]))

    run(scenario())


async def _is_recreated(store: RecordingStore, uid: str) -> bool:
    existing = (await services(store)).get("f")
    return existing is not None and existing["metadata"]["uid"] != uid


def test_a_rejected_creation_of_a_service_is_in_the_status() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        store.fail = lambda verb, kind, obj: (
            Forbidden("quota: 0 services") if (verb, kind) == ("create", SERVICES) else None
        )
        async with run_service_controller(store, a_framework("f", a_role("w", 1), discovery={})):
            await eventually(lambda: _message_contains(store, "quota: 0 services"))
            assert await store.pods() == {}

    run(scenario())
