"""Services are there before the pods that need them, follow the spec, and are never anybody else's."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from launcher.controller.framework_controller import FrameworkController
from launcher.controller.service_control import ServiceControl
from launcher.core.errors import Forbidden, OutcomeUnknown
from launcher.core.pods.services import ANNOTATION
from launcher.store.interface import FRAMEWORKS, PODS, SERVICES, DeleteOptions, MergePatch, Object
from tests.controller.simulation.scenes import a_framework, a_role
from tests.controller.simulation.virtual_time import run
from tests.controller.watched import Watched, down, launched, reaches


def named(name: str, tasks: int, wish: str = "PerTask", port: int = 2222) -> Object:
    """A role whose template asks for Services."""
    container = {"name": "c", "image": "busybox", "ports": [{"containerPort": port}]}
    pod = {
        "metadata": {"annotations": {ANNOTATION: wish}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {**a_role(name, tasks), "task": {"pod": pod}}


@asynccontextmanager
async def naming(store: Watched, *frameworks: Object, **how: Any) -> AsyncIterator[FrameworkController]:
    """A controller that sees to Services, at work on these."""
    for framework in frameworks:
        await store.create(FRAMEWORKS, framework)
    async with launched(store, attendants=[ServiceControl(store)], **how) as controller:
        yield controller


async def services(store: Watched) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in (await store.list(SERVICES)).items}


async def until(look: Callable[[], Awaitable[bool]], within: float = 300.0) -> None:
    async with asyncio.timeout(within):
        while not await look():  # noqa: ASYNC110  virtual time costs nothing
            await asyncio.sleep(0.1)


def made(store: Watched) -> list[str]:
    """What the controller created, in order, but for events."""
    return [
        what["metadata"]["name"] for verb, kind, what in store.calls if verb == "create" and kind in _MADE
    ]


_MADE = (SERVICES, PODS)


def a_users_service(name: str = "f", **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"app": "theirs"}, **spec},
    }


async def message_of(store: Watched) -> str:
    """What the status says of the first task."""
    roles = (await store.status())["attemptStatus"]["taskRoleStatuses"]
    return str(roles[0]["taskStatuses"][0].get("message", ""))


def test_services_are_made_before_the_first_pod_and_belong_to_the_framework() -> None:
    async def story() -> None:
        store = Watched()
        async with naming(store, a_framework("f", named("w", 2), discovery={})):
            await reaches(store, "AttemptRunning")
            found = await services(store)
            uid = (await store.get(FRAMEWORKS, "default", "f"))["metadata"]["uid"]

        assert sorted(made(store)[:3]) == ["f", "f-w-0", "f-w-1"]
        assert sorted(made(store)[3:]) == ["f-w-0", "f-w-1"]
        assert {each["metadata"]["ownerReferences"][0]["uid"] for each in found.values()} == {uid}

    run(story())


def test_a_framework_that_uses_no_names_costs_nothing() -> None:
    async def story() -> None:
        store = Watched()
        asked: list[object] = []
        listed = store.list

        async def list_(kind: Any, *words: Any, **more: Any) -> Any:
            asked.append(kind)
            return await listed(kind, *words, **more)

        store.list = list_  # type: ignore[method-assign]  # to see what is asked for
        async with naming(store, a_framework("f", a_role("w", 2))):
            await reaches(store, "Completed")

        assert SERVICES not in asked
        assert store.count("create", SERVICES) == 0

    run(story())


def test_a_new_attempt_and_a_new_launcher_find_them_again() -> None:
    async def story() -> None:
        store = Watched()
        wish = a_framework("f", named("w", 2), discovery={}, retries=1)
        async with naming(store, wish, seconds=100.0):
            await reaches(store, "AttemptRunning")
        uids = {each["metadata"]["uid"] for each in (await services(store)).values()}
        async with naming(store, seconds=100.0, code=1):
            await until(lambda: _is_attempt(store, 1))
            await reaches(store, "AttemptRunning")

            assert {each["metadata"]["uid"] for each in (await services(store)).values()} == uids
        assert store.count("create", SERVICES) == 3

    run(story())


async def _is_attempt(store: Watched, number: int) -> bool:
    return bool((await store.status())["attemptStatus"]["id"] == number)


def test_an_answer_that_is_lost_makes_no_second_one() -> None:
    async def story() -> None:
        store = Watched()
        lost: asyncio.Queue[Object] = asyncio.Queue()
        unlucky = ["f"]

        def fails(verb: str, kind: object, what: Any) -> Exception | None:
            if (verb, kind) == ("create", SERVICES) and unlucky:
                unlucky.clear()
                lost.put_nowait(what)
                return OutcomeUnknown("no answer")
            return None

        async def lose() -> None:
            # As if the first call had been carried out, and its answer lost.
            await store.create(SERVICES, await lost.get())

        store.fails = fails
        losing = asyncio.create_task(lose())
        async with naming(store, a_framework("f", a_role("w", 1), discovery={})):
            await reaches(store, "Completed")
            await losing
        assert store.count("create", SERVICES) == 1

    run(story())


def test_services_follow_the_spec_also_when_only_pods_go() -> None:
    async def story() -> None:
        store = Watched()
        wish = a_framework("f", named("w", 3), named("p", 1))
        async with naming(store, wish, seconds=1000.0):
            await reaches(store, "AttemptRunning")
            before = await services(store)
            await _change(store, named("w", 1), named("p", 1))
            await until(lambda: _are(store, "f-p-0", "f-w-0"))
            await _change(store, named("w", 2))
            await until(lambda: _are(store, "f-w-0", "f-w-1"))
            await _change(store, a_role("w", 2))
            await until(lambda: _are(store))

        assert sorted(before) == ["f-p-0", "f-w-0", "f-w-1", "f-w-2"]

    run(story())


async def _change(store: Watched, *roles: Object) -> None:
    await store.patch(FRAMEWORKS, "default", "f", MergePatch({"spec": {"taskRoles": list(roles)}}))


async def _are(store: Watched, *names: str) -> bool:
    return sorted(await services(store)) == sorted(names)


def test_what_cannot_go_at_once_goes_later() -> None:
    async def story() -> None:
        store = Watched()
        async with naming(store, a_framework("f", named("w", 2)), seconds=1000.0):
            await reaches(store, "AttemptRunning")
            store.fails = down("delete", SERVICES)
            await _change(store, named("w", 1))
            await until(lambda: _pods_are(store, "f-w-0"))
            # Nothing happens any more that it would be looked at for.
            await asyncio.sleep(300)
            assert sorted(await services(store)) == ["f-w-0", "f-w-1"]

            store.fails = lambda verb, kind, what: None
            await until(lambda: _are(store, "f-w-0"))

    run(story())


async def _pods_are(store: Watched, *names: str) -> bool:
    return sorted(await store.pods()) == sorted(names)


def test_a_service_that_leads_elsewhere_by_now_is_made_anew() -> None:
    async def story() -> None:
        store = Watched()
        async with naming(store, a_framework("f", named("w", 1)), seconds=1000.0):
            await reaches(store, "AttemptRunning")
            await _change(store, named("w", 1, port=3333))
            await until(lambda: _leads_to(store, 3333))

    run(story())


async def _leads_to(store: Watched, port: int) -> bool:
    found = (await services(store)).get("f-w-0")
    return found is not None and found["spec"]["ports"][0]["port"] == port


def test_they_go_when_the_framework_has_completed_unless_its_pods_stay() -> None:
    async def story() -> None:
        store = Watched()
        async with naming(
            store,
            a_framework("f", named("w", 1), discovery={}),
            a_framework("g", named("w", 1), cleanPodPolicy="None"),
        ):
            await reaches(store, "Completed", "f")
            await reaches(store, "Completed", "g")
            await until(lambda: _are(store, "g-w-0"))

    run(story())


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"clusterIP": "None"}, id="it leads elsewhere"),
        pytest.param({"selector": {"FC_FRAMEWORK_NAME": "f"}}, id="pods have no names in it"),
    ],
)
def test_somebody_elses_service_is_never_taken_and_the_status_says_what_to_do(spec: Object) -> None:
    async def story() -> None:
        store = Watched()
        theirs = await store.create(SERVICES, a_users_service(**spec))
        async with naming(store, a_framework("f", a_role("w", 1), discovery={})):
            await until(lambda: _says(store, "a Service named f is there already"))
            assert "give the Framework another name" in await message_of(store)
            assert await store.pods() == {}
            assert (await services(store))["f"] == theirs

            await store.delete(SERVICES, "default", "f")
            await reaches(store, "Completed")

    run(story())


async def _says(store: Watched, words: str) -> bool:
    return bool((await store.status()).get("attemptStatus")) and words in await message_of(store)


def test_a_users_service_that_does_the_same_is_used_and_left_alone() -> None:
    async def story() -> None:
        store = Watched()
        own = a_users_service(clusterIP="None", selector={"FC_FRAMEWORK_NAME": "f"})
        theirs = await store.create(SERVICES, own)
        async with naming(store, a_framework("f", a_role("w", 1), discovery={})):
            await reaches(store, "Completed")

        assert await services(store) == {"f": theirs}

    run(story())


def test_a_service_that_the_template_itself_names_may_be_the_users() -> None:
    async def story() -> None:
        store = Watched()
        role = a_role("w", 1)
        role["task"]["pod"] = {"spec": {**role["task"]["pod"]["spec"], "subdomain": "f"}}
        theirs = await store.create(SERVICES, a_users_service(clusterIP="None"))
        async with naming(store, a_framework("f", role)):
            await reaches(store, "Completed")

        assert await services(store) == {"f": theirs}

    run(story())


def test_the_services_of_an_earlier_framework_of_that_name_are_waited_for() -> None:
    async def story() -> None:
        store = Watched()
        async with naming(store, a_framework("f", a_role("w", 1), discovery={}), seconds=1000.0):
            await reaches(store, "AttemptRunning")
            old = (await services(store))["f"]["metadata"]
            # The simulated cluster collects pods alone.
            await store.delete(FRAMEWORKS, "default", "f")
            await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1), discovery={}))
            await until(lambda: _says(store, "an earlier Framework of this name has yet to go"))

            await store.delete(SERVICES, "default", "f", DeleteOptions(uid=old["uid"]))
            await until(lambda: _is_another(store, old["uid"]))

    run(story())


async def _is_another(store: Watched, uid: str) -> bool:
    found = (await services(store)).get("f")
    return found is not None and found["metadata"]["uid"] != uid


def test_who_may_make_no_services_is_told_why_the_pods_wait() -> None:
    async def story() -> None:
        store = Watched()
        store.fails = lambda verb, kind, what: (
            Forbidden("quota: 0 services") if (verb, kind) == ("create", SERVICES) else None
        )
        async with naming(store, a_framework("f", a_role("w", 1), discovery={})):
            await until(lambda: _says(store, "quota: 0 services"))
            assert await store.pods() == {}

    run(story())
