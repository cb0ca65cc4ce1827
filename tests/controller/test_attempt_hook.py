"""Attempt hooks run before the first pod of an attempt is created, and when the Framework completes."""

import asyncio
from collections.abc import Mapping

from launcher.core.errors import Unavailable
from launcher.core.framework import Framework
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.store.interface import FRAMEWORKS, PODS, MergePatch
from tests.controller.harness import RecordingStore, run_controller, wait_for_state
from tests.controller.simulation.scenarios import a_framework, a_role
from tests.controller.simulation.virtual_time import run


class LabelHook:
    """Adds a label to every pod, records its calls, and fails the first ones."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.prepared: list[tuple[str, int, int]] = []
        #: The number of tasks in the status of each prepared Framework.
        self.tasks: list[int] = []
        self.finished: list[str] = []

    async def prepare(self, framework: Framework, attempt: int) -> Mapping[RoleName, PodOverlay]:
        if self.failures:
            self.failures -= 1
            raise Unavailable("backend unavailable")
        self.prepared.append((framework.name, attempt, framework.generation))
        assert framework.status is not None
        self.tasks.append(sum(len(role.tasks) for role in framework.status.roles))
        return {role.name: PodOverlay(labels={"role": role.name}) for role in framework.spec.roles}

    async def finish(self, framework: Framework) -> None:
        self.finished.append(framework.name)


def test_pods_get_the_overlay_of_their_role_and_hooks_run_once_per_attempt() -> None:
    async def scenario() -> None:
        store, hook = RecordingStore(), LabelHook()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 3), a_role("p", 1)))
        async with run_controller(store, hooks=[hook]):
            await wait_for_state(store, "AttemptRunning")
            labels = [pod["metadata"]["labels"]["role"] for pod in (await store.pods()).values()]
            assert sorted(labels) == ["p", "w", "w", "w"]
            assert (hook.prepared, hook.finished) == ([("f", 0, 1)], [])
            await wait_for_state(store, "Completed")
        assert (hook.prepared, hook.finished) == ([("f", 0, 1)], ["f"])

    run(scenario())


def test_no_pod_is_created_while_a_hook_fails_and_the_status_has_the_reason() -> None:
    async def scenario() -> None:
        store, hook = RecordingStore(), LabelHook(failures=10**6)
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        async with run_controller(store, hooks=[hook]):
            await asyncio.sleep(30)
            task = (await store.status())["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]
            assert "backend unavailable" in task["message"]
            assert store.count("create", PODS) == 0

            hook.failures = 0
            await wait_for_state(store, "Completed")
            assert store.count("create", PODS) == 1

    run(scenario())


def test_hooks_run_again_for_each_attempt_and_each_change_of_the_spec() -> None:
    async def scenario() -> None:
        store, hook = RecordingStore(), LabelHook()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1), retries=1))
        async with run_controller(store, seconds=100.0, code=1, hooks=[hook]):
            await wait_for_state(store, "AttemptRunning")
            scale_up = {"spec": {"taskRoles": [a_role("w", 2)]}}
            await store.patch(FRAMEWORKS, "default", "f", MergePatch(scale_up))
            await wait_for_state(store, "Completed", timeout_seconds=600)

        assert hook.prepared == [("f", 0, 1), ("f", 0, 2), ("f", 1, 2)]
        assert hook.finished == ["f"]

    run(scenario())


def test_only_the_hooks_of_a_gang_get_a_status_with_tasks() -> None:
    async def scenario() -> None:
        store, hook = RecordingStore(), LabelHook()
        gang = a_framework("gang", a_role("w", 3))
        gang["spec"]["gang"] = {}
        await store.create(FRAMEWORKS, gang)
        await store.create(FRAMEWORKS, a_framework("other", a_role("w", 2)))
        async with run_controller(store, hooks=[hook]):
            await wait_for_state(store, "Completed", name="gang")
            await wait_for_state(store, "Completed", name="other")

        tasks = {name: count for (name, _, _), count in zip(hook.prepared, hook.tasks, strict=True)}
        assert tasks == {"gang": 3, "other": 0}

    run(scenario())
