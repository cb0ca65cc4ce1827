"""What attempts need beside their pods is seen to before the first of them, and let go after the last."""

import asyncio
from collections.abc import Mapping

from launcher.core.errors import Unavailable
from launcher.core.framework import Framework
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.store.interface import FRAMEWORKS, PODS, MergePatch
from tests.controller.simulation.scenes import a_framework, a_role
from tests.controller.simulation.virtual_time import run
from tests.controller.watched import Watched, launched, reaches


class Marker:
    """Puts a label on every pod, counts what it is asked for, and cannot do it for the first few times."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.prepared: list[tuple[str, int, int]] = []
        self.finished: list[str] = []

    async def prepare(self, framework: Framework, attempt: int) -> Mapping[RoleName, PodOverlay]:
        if self.failures:
            self.failures -= 1
            raise Unavailable("nobody answers")
        self.prepared.append((framework.name, attempt, framework.generation))
        return {role.name: PodOverlay(labels={"marked": role.name}) for role in framework.spec.roles}

    async def finish(self, framework: Framework) -> None:
        self.finished.append(framework.name)


def test_pods_get_what_their_role_gets_and_it_is_seen_to_once() -> None:
    async def story() -> None:
        store, marker = Watched(), Marker()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 3), a_role("p", 1)))
        async with launched(store, attendants=[marker]):
            await reaches(store, "AttemptRunning")
            labels = [pod["metadata"]["labels"]["marked"] for pod in (await store.pods()).values()]
            assert sorted(labels) == ["p", "w", "w", "w"]
            assert (marker.prepared, marker.finished) == ([("f", 0, 1)], [])
            await reaches(store, "Completed")
        assert (marker.prepared, marker.finished) == ([("f", 0, 1)], ["f"])

    run(story())


def test_while_it_cannot_be_done_no_pod_is_created_and_the_status_says_why() -> None:
    async def story() -> None:
        store, marker = Watched(), Marker(failures=10**6)
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        async with launched(store, attendants=[marker]):
            await asyncio.sleep(30)
            task = (await store.status())["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]
            assert "nobody answers" in task["message"]
            assert store.count("create", PODS) == 0

            marker.failures = 0
            await reaches(store, "Completed")
            assert store.count("create", PODS) == 1

    run(story())


def test_each_attempt_and_each_change_of_the_spec_is_seen_to_anew() -> None:
    async def story() -> None:
        store, marker = Watched(), Marker()
        wish = a_framework("f", a_role("w", 1), retries=1)
        await store.create(FRAMEWORKS, wish)
        async with launched(store, seconds=100.0, code=1, attendants=[marker]):
            await reaches(store, "AttemptRunning")
            more = {"spec": {"taskRoles": [a_role("w", 2)]}}
            await store.patch(FRAMEWORKS, "default", "f", MergePatch(more))
            await reaches(store, "Completed", within=600)

        assert marker.prepared == [("f", 0, 1), ("f", 0, 2), ("f", 1, 2)]
        assert marker.finished == ["f"]

    run(story())
