"""The controller with a log archive, in virtual time: what waits for the archive, for how long, and what does not."""

import asyncio
from random import Random
from typing import Any

import pytest

from launcher.controller.log_copier import ContainerLogCopier, LogArchiveOptions
from launcher.core.errors import Forbidden, Unavailable
from launcher.log_archive.interface import ArchivedPod, LogKey
from launcher.store.interface import EVENTS, FRAMEWORKS, PODS, MergePatch, Object
from tests.controller.harness import RecordingStore, run_controller, wait_for_state
from tests.controller.simulation.faults import Faults
from tests.controller.simulation.logs import FaultyArchive, SimulatedLogRequest, SimulatedLogs, log_line
from tests.controller.simulation.scenarios import a_framework, a_role
from tests.controller.simulation.virtual_time import run
from tests.eventually import eventually

LIMIT = 30.0
POD = "f-w-0"


class LogArchiveHarness:
    """A store, the logs of its pods, and an archive whose faults a test sets."""

    def __init__(self, **faults: Any) -> None:
        self.faults, random = Faults(**faults), Random(3)
        self.store = RecordingStore()
        self.logs = SimulatedLogs(self.store, self.faults, random)
        self.archive = FaultyArchive(self.faults, random)
        self.copier = self.new_copier()

    def new_copier(self) -> ContainerLogCopier:
        return ContainerLogCopier(self.logs, self.archive, LogArchiveOptions(1024, LIMIT))

    async def submit(self, *roles: Object, **spec: Any) -> None:
        await self.store.create(FRAMEWORKS, a_framework("f", *roles, **spec))

    async def uid(self, pod: str = POD) -> str:
        return str((await self.store.pods())[pod]["metadata"]["uid"])

    def stored(self, uid: str, pod: str = POD, container: str = "c") -> bytes | None:
        return self.archive.logs.get(LogKey(ArchivedPod("default", pod, uid), container, 0))

    async def events(self, reason: str = "LogArchiveFailed") -> list[str]:
        events = (await self.store.list(EVENTS)).items
        return [event["message"] for event in events if event["reason"] == reason]

    async def wait_for_pod(self, *, other_than: str = "", within: float = 120.0) -> str:
        """The uid of a running pod of the task."""

        async def probe() -> str | None:
            pod = (await self.store.pods()).get(POD)
            is_new = pod is not None and pod["metadata"]["uid"] != other_than and _phase(pod) == "Running"
            return str(pod["metadata"]["uid"]) if pod is not None and is_new else None

        return await eventually(probe, "a pod of the task runs", within)

    async def wait_for_phase(self, phase: str, pod: str = POD) -> None:
        async def probe() -> bool:
            return _phase((await self.store.pods()).get(pod, {})) == phase

        await eventually(probe, f"{pod} is {phase}", 120.0)

    def deleted_at(self) -> "asyncio.Future[float]":
        """The time of the controller's next deletion of a pod."""
        result: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        def observe(verb: str, kind: Any, _: Any) -> None:
            if (verb, kind) == ("delete", PODS) and not result.done():
                result.set_result(asyncio.get_running_loop().time())

        self.store.fail = observe
        return result


def _phase(pod: Object) -> str | None:
    phase: str | None = pod.get("status", {}).get("phase")
    return phase


def a_retried_role(tasks: int = 1) -> Object:
    return a_role("w", tasks, fancy=False, retries=3)


def test_the_log_of_a_retried_task_is_stored_before_its_pod_is_deleted() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness()
        await rig.submit(a_retried_role())
        async with run_controller(rig.store, code=1, log_copier=rig.copier):
            uid = await rig.wait_for_pod()
            deleted_at = rig.deleted_at()
            await deleted_at

            assert rig.stored(uid) == log_line(uid) + log_line("the end")
            await rig.wait_for_pod(other_than=uid)
            assert await rig.events() == []
            assert rig.copier.counts.stored_bytes == len(rig.stored(uid) or b"")

    run(scenario())


def test_each_container_causes_one_log_request_and_one_write() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness()
        await rig.submit(a_role("w", 5, retries=1))
        async with run_controller(rig.store, code=1, log_copier=rig.copier):
            await wait_for_state(rig.store, "Completed", timeout_seconds=600)
            await asyncio.sleep(60)

            pods = rig.store.count("create", PODS)
            assert pods == len(rig.logs.requests) == len(rig.archive.logs)
            assert set(rig.archive.writes.values()) == {1}
            assert {request.follow for request in rig.logs.requests} <= {False, True}
            assert rig.copier.counts.stored == pods
            assert rig.copier.counts.pending == 0

    run(scenario())


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param({"archive_errors": 1.0}, id="failing"),
        pytest.param({"archive_hangs": 1.0}, id="hanging"),
        pytest.param({"log_errors": 1.0}, id="the kubelet does not respond"),
    ],
)
def test_a_retry_waits_for_a_broken_archive_for_the_limit_and_no_longer(faults: dict[str, float]) -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness(**faults)
        await rig.submit(a_retried_role())
        async with run_controller(rig.store, code=210, log_copier=rig.copier):
            uid = await rig.wait_for_pod()
            deleted_at = rig.deleted_at()
            await rig.wait_for_phase("Failed")
            ended_at = asyncio.get_running_loop().time()

            assert await deleted_at - ended_at == pytest.approx(LIMIT, abs=1.0)
            assert await rig.wait_for_pod(other_than=uid, within=5.0)
            assert rig.stored(uid) is None

    run(scenario())


def test_a_broken_archive_is_reported_by_one_event_per_framework_and_cause() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness(archive_hangs=1.0)
        await rig.submit(a_role("w", 20, retries=2), retries=1)
        async with run_controller(rig.store, code=1, log_copier=rig.copier):
            await wait_for_state(rig.store, "Completed", timeout_seconds=3600)
            await asyncio.sleep(120)

            events = await rig.events()
            assert "Logs are not archived: the log archive is too slow." in events
            # A pod of the simulated cluster may be gone a few milliseconds after its deletion.
            assert len(events) <= 2
            assert rig.copier.counts.failures.total() > 20
            assert rig.copier.counts.lost > 0

    run(scenario())


def test_a_slow_archive_delays_a_retry_until_the_log_is_stored() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness()
        respond = rig.archive.create

        async def slow(key: LogKey, text: bytes) -> bool:
            await asyncio.sleep(10.0)
            return await respond(key, text)

        rig.archive.create = slow  # type: ignore[method-assign]  # a slow archive
        await rig.submit(a_retried_role())
        async with run_controller(rig.store, code=210, log_copier=rig.copier):
            uid = await rig.wait_for_pod()
            deleted_at = rig.deleted_at()
            await rig.wait_for_phase("Failed")
            ended_at = asyncio.get_running_loop().time()

            assert await deleted_at - ended_at == pytest.approx(10.0, abs=0.5)
            assert rig.stored(uid) is not None
            assert await rig.events() == []

    run(scenario())


def test_a_call_that_hangs_is_repeated_within_the_limit() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness()
        respond, calls = rig.archive.create, []

        async def hang_once(key: LogKey, text: bytes) -> bool:
            calls.append(key)
            if len(calls) == 1:
                await asyncio.Event().wait()
            return await respond(key, text)

        rig.archive.create = hang_once  # type: ignore[method-assign]  # the first call hangs
        await rig.submit(a_retried_role())
        async with run_controller(rig.store, code=210, log_copier=rig.copier):
            uid = await rig.wait_for_pod()
            await rig.wait_for_pod(other_than=uid)

            assert rig.stored(uid) is not None
            assert len(rig.logs.requests) == 1
            assert await rig.events() == []

    run(scenario())


def test_a_task_that_waits_for_the_archive_does_not_delay_another() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness()
        respond = rig.archive.create

        async def hang_for_the_first(key: LogKey, text: bytes) -> bool:
            if key.pod.name == POD:
                await asyncio.Event().wait()
            return await respond(key, text)

        rig.archive.create = hang_for_the_first  # type: ignore[method-assign]  # a hanging archive
        await rig.submit(a_role("w", 2, fancy=False, retries=3))
        async with run_controller(rig.store, code=210, log_copier=rig.copier):
            await rig.wait_for_phase("Running", "f-w-1")
            uids = {name: await rig.uid(name) for name in (POD, "f-w-1")}
            await rig.wait_for_phase("Failed", "f-w-1")
            await rig.wait_for_phase("Running", "f-w-1")

            assert await rig.uid("f-w-1") != uids["f-w-1"]
            assert await rig.uid(POD) == uids[POD], "the other one still waits"

    run(scenario())


def test_the_log_of_a_stopped_task_is_followed_to_its_end_and_delays_nothing() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness()
        await rig.submit(a_role("w", 1))
        async with run_controller(rig.store, seconds=1000, log_copier=rig.copier):
            uid = await rig.wait_for_pod()
            deleted_at = rig.deleted_at()
            await rig.store.patch(FRAMEWORKS, "default", "f", MergePatch({"spec": {"executionType": "Stop"}}))
            stopped_at = asyncio.get_running_loop().time()

            assert await deleted_at - stopped_at < 1.0
            await wait_for_state(rig.store, "Completed")
            await asyncio.sleep(5)
            assert rig.logs.requests == [SimulatedLogRequest(POD, "c", follow=True)]
            assert rig.stored(uid) == log_line(uid) + log_line("the end")

    run(scenario())


def test_the_log_of_a_pod_that_another_client_deletes_is_stored() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness()
        await rig.submit(a_retried_role())
        async with run_controller(rig.store, seconds=1000, log_copier=rig.copier):
            uid = await rig.wait_for_pod()
            await rig.store.delete(PODS, "default", POD)
            await rig.wait_for_pod(other_than=uid)
            await asyncio.sleep(5)

            assert rig.stored(uid) == log_line(uid) + log_line("the end")
            assert await rig.events() == []

    run(scenario())


def test_after_a_restart_a_stored_log_is_neither_read_nor_stored_again() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness()
        rig.store.fail = lambda verb, kind, _: (
            Unavailable("down") if (verb, kind) == ("delete", PODS) else None
        )
        await rig.submit(a_retried_role())
        async with run_controller(rig.store, code=210, log_copier=rig.copier):
            uid = await rig.wait_for_pod()
            await eventually(lambda: rig.stored(uid), "the log is stored")
        reads = len(rig.logs.requests)
        rig.store.fail = lambda *_: None
        async with run_controller(rig.store, code=210, log_copier=rig.new_copier()):
            await rig.wait_for_pod(other_than=uid)

        assert len([request for request in rig.logs.requests[reads:] if request.pod == POD]) == 0
        assert rig.archive.writes == {LogKey(ArchivedPod("default", POD, uid), "c", 0): 1}

    run(scenario())


def test_after_a_restart_a_log_that_is_not_stored_is_stored_before_the_deletion() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness(archive_hangs=1.0)
        await rig.submit(a_retried_role())
        async with run_controller(rig.store, code=210, log_copier=rig.copier):
            uid = await rig.wait_for_pod()
            await rig.wait_for_phase("Failed")
            await asyncio.sleep(1)
        rig.faults.archive_hangs = 0.0
        async with run_controller(rig.store, code=210, log_copier=rig.new_copier()):
            await rig.wait_for_pod(other_than=uid)

        assert rig.stored(uid) is not None

    run(scenario())


def test_a_write_whose_response_is_lost_is_not_repeated_with_effect() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness(archive_lost_responses=0.5)
        await rig.submit(a_role("w", 10, retries=1))
        async with run_controller(rig.store, code=1, log_copier=rig.copier):
            await wait_for_state(rig.store, "Completed", timeout_seconds=600)
            await asyncio.sleep(120)

            assert len(rig.archive.logs) == rig.store.count("create", PODS)
            assert all(key.pod.uid.encode() in text for key, text in rig.archive.logs.items())
            assert max(rig.archive.writes.values()) > 1
            assert rig.copier.counts.stored <= len(rig.archive.logs)

    run(scenario())


def test_pods_that_are_kept_are_archived_when_the_archive_is_back() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness(archive_errors=1.0)
        await rig.submit(a_role("w", 1))
        async with run_controller(rig.store, log_copier=rig.copier):
            await wait_for_state(rig.store, "Completed")
            uid = await rig.uid()
            await asyncio.sleep(300)
            assert rig.stored(uid) is None
            assert len(await rig.events()) in (1, 2), "one for each cause"

            rig.faults.archive_errors = 0.0
            await asyncio.sleep(120)
            assert rig.stored(uid) is not None

    run(scenario())


def test_a_framework_whose_time_to_live_has_passed_waits_for_its_logs() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness()
        await rig.submit(a_role("w", 3), ttlSecondsAfterFinished=0)
        async with run_controller(rig.store, log_copier=rig.copier):

            async def is_deleted() -> bool:
                return not (await rig.store.list(FRAMEWORKS)).items

            await eventually(is_deleted, "the Framework is deleted", 120.0)
            assert len(rig.archive.logs) == 3
            assert await rig.events() == []

    run(scenario())


def test_without_permission_to_read_logs_nothing_waits() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness()

        def forbidden(*args: Any, **options: Any) -> Any:
            raise Forbidden("pods/log is forbidden")

        rig.logs.open_log = forbidden  # type: ignore[method-assign]  # no permission
        await rig.submit(a_retried_role())
        async with run_controller(rig.store, code=210, log_copier=rig.copier):
            await rig.wait_for_pod()
            deleted_at = rig.deleted_at()
            await rig.wait_for_phase("Failed")
            ended_at = asyncio.get_running_loop().time()

            assert await deleted_at - ended_at < 2.0
            await asyncio.sleep(1)
            assert await rig.events() == [
                "Logs are not archived: the launcher has no permission to get pods/log."
            ]

    run(scenario())


def test_a_pod_without_a_grace_period_is_archived_before_it_is_deleted() -> None:
    async def scenario() -> None:
        rig = LogArchiveHarness()
        role = a_role("w", 1)
        role["task"]["pod"]["spec"]["terminationGracePeriodSeconds"] = 0
        await rig.submit(role)
        async with run_controller(rig.store, seconds=1000, log_copier=rig.copier):
            uid = await rig.wait_for_pod()
            await rig.store.patch(FRAMEWORKS, "default", "f", MergePatch({"spec": {"executionType": "Stop"}}))
            await wait_for_state(rig.store, "Completed")

            assert rig.logs.requests == [SimulatedLogRequest(POD, "c")]
            assert (rig.stored(uid) or b"").startswith(log_line(uid))

    run(scenario())
