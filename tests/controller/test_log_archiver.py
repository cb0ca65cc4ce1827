"""The log archiver with pods as they are observed: restarts, deletions and interrupted streams."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from launcher.controller.log_archiver import LogArchiver
from launcher.controller.log_copier import ArchiveFault, ContainerLogCopier, LogArchiveOptions
from launcher.core.errors import BadRequest, NotFound, Unavailable
from launcher.core.events import ObjectEvent
from launcher.core.names import API_VERSION, KIND
from launcher.core.owner_references import controller_reference
from launcher.core.spec import PodName
from launcher.log_archive.interface import ArchivedPod, LogKey
from launcher.store.interface import Key, Object
from tests.controller.simulation.logs import SimulatedLogRequest, log_line
from tests.controller.simulation.virtual_time import run
from tests.eventually import eventually
from tests.log_archive.memory_archive import MemoryArchive

KEY: Key = ("default", "mnist-worker-0")
RUNNING: Object = {"running": {}}
ENDED = {"terminated": {"exitCode": 1}}
WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}
LIMIT = 30.0


def a_status(
    name: str = "main", state: Object = ENDED, restarts: int = 0, last: Object | None = None
) -> Object:
    return {"name": name, "state": state, "restartCount": restarts, "lastState": last or {}}


def a_pod(
    *statuses: Object, uid: str = "uid-1", phase: str = "Running", init: Object | None = None, **metadata: Any
) -> Object:
    """A pod of the Framework mnist with these container statuses."""
    owner = controller_reference(API_VERSION, KIND, "mnist", "framework-uid")
    return {
        "metadata": {
            "namespace": KEY[0],
            "name": KEY[1],
            "uid": uid,
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": {"terminationGracePeriodSeconds": 30},
        "status": {
            "phase": phase,
            "initContainerStatuses": [init] if init else [],
            "containerStatuses": list(statuses),
        },
    }


DELETED: Object = {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}

Reader = Callable[[SimulatedLogRequest], AsyncIterator[bytes]]


class LogArchiverHarness:
    """An archiver on a source of logs that a test defines, and what it has reported."""

    def __init__(self, read: Reader | None = None, *, tail_bytes: int = 4096) -> None:
        self.read = read or self._whole_log
        self.requests: list[SimulatedLogRequest] = []
        self.archive = MemoryArchive()
        self.copier = ContainerLogCopier(self, self.archive, LogArchiveOptions(tail_bytes, LIMIT))
        self.events: list[ObjectEvent] = []
        self.notified: list[tuple[Key, PodName]] = []
        #: The uid of the pod in the store.
        self.stored_uid: str | None = None
        self.archiver = LogArchiver(
            self.copier,
            record=lambda _, events: self.events.extend(events),
            read_pod_uid=self._read_pod_uid,
            on_deletable=lambda framework, pod: self.notified.append((framework, pod)),
        )

    async def _whole_log(self, request: SimulatedLogRequest) -> AsyncIterator[bytes]:
        yield log_line(f"{request.container} {'previous' if request.previous else 'current'}")

    @asynccontextmanager
    async def open_log(
        self, namespace: str, pod: str, container: str, *, previous: bool, follow: bool, tail_lines: int
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        request = SimulatedLogRequest(pod, container, previous, follow)
        self.requests.append(request)
        await asyncio.sleep(0.01)
        yield self.read(request)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.archiver.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _read_pod_uid(self, key: Key) -> str | None:
        await asyncio.sleep(0.01)
        return self.stored_uid

    def observe(self, pod: Object) -> None:
        self.stored_uid = pod["metadata"]["uid"]
        self.archiver.on_pod_upsert(KEY, pod)

    def stored(self, container: str = "main", restart: int = 0, uid: str = "uid-1") -> bytes | None:
        return self.archive.logs.get(LogKey(ArchivedPod(*KEY, uid), container, restart))

    def is_deletable(self, uid: str = "uid-1") -> bool:
        return self.archiver.is_deletable(KEY, uid)


async def chunks(*texts: bytes, error: Exception | None = None) -> AsyncIterator[bytes]:
    """Yields these, then raises the error, if any."""
    for text in texts:
        yield text
    if error is not None:
        raise error


def test_every_terminated_container_is_archived_also_while_others_run() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness()
        async with rig.running():
            rig.observe(a_pod(a_status(state=RUNNING), a_status("side", ENDED), init=a_status("init", ENDED)))
            await asyncio.sleep(1)

        assert rig.requests == [SimulatedLogRequest(KEY[1], "init"), SimulatedLogRequest(KEY[1], "side")]
        assert rig.stored("init") == log_line("init current")
        assert rig.stored("side") == log_line("side current")
        assert rig.stored("main") is None

    run(scenario())


def test_each_restart_of_a_container_is_archived_once() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness()
        async with rig.running():
            rig.observe(a_pod(a_status(state=RUNNING)))
            for pod in (
                a_pod(a_status(state=WAITING, last=ENDED)),
                a_pod(a_status(state=RUNNING, restarts=1, last=ENDED)),
                a_pod(a_status(state=RUNNING, restarts=2, last=ENDED)),
                a_pod(a_status(state=ENDED, restarts=2, last=ENDED), phase="Failed"),
            ):
                rig.observe(pod)
                rig.observe(pod)
                await asyncio.sleep(1)

        assert [request.previous for request in rig.requests] == [False, True, False]
        assert {key.restart for key in rig.archive.logs} == {0, 1, 2}

    run(scenario())


def test_a_run_whose_log_was_replaced_by_those_of_later_runs_is_lost_without_delay() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness()
        rig.observe(a_pod(a_status(state=ENDED)))
        rig.observe(a_pod(a_status(state=RUNNING, restarts=2, last=ENDED)))
        async with rig.running():
            await asyncio.sleep(1)

        assert {key.restart for key in rig.archive.logs} == {1}
        assert rig.copier.counts.lost == 1

    run(scenario())


def test_a_log_that_is_read_while_its_container_restarts_is_read_again() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness()

        async def read(request: SimulatedLogRequest) -> AsyncIterator[bytes]:
            if not request.previous:
                rig.observe(a_pod(a_status(state=RUNNING, restarts=1, last=ENDED)))
                yield log_line("of the next run")
            yield log_line("the right one")

        rig.read = read
        async with rig.running():
            rig.observe(a_pod(a_status(state=ENDED)))
            await asyncio.sleep(1)

        assert rig.stored() == log_line("the right one")

    run(scenario())


def ended_at(time: str) -> Object:
    return {"terminated": {"exitCode": 1, "finishedAt": time}}


#: The second before that of ``log_line``.
BEFORE = "2025-12-31T23:59:59Z"


def test_a_log_of_the_next_run_is_recognized_before_the_restart_is_observed() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness()
        async with rig.running():
            rig.observe(a_pod(a_status(state=ended_at(BEFORE))))
            await asyncio.sleep(1)

        assert rig.stored() == log_line("main previous")

    run(scenario())


def test_a_late_line_of_a_container_that_was_not_restarted_is_stored() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness()

        def read(request: SimulatedLogRequest) -> AsyncIterator[bytes]:
            error = BadRequest("previous terminated container not found") if request.previous else None
            return chunks(*([] if error else [log_line("late")]), error=error)

        rig.read = read
        async with rig.running():
            rig.observe(a_pod(a_status(state=ended_at(BEFORE)), phase="Failed"))
            await asyncio.sleep(1)

        assert rig.stored() == log_line("late")

    run(scenario())


def test_a_line_of_the_second_of_the_end_is_of_the_same_run() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness()
        async with rig.running():
            rig.observe(a_pod(a_status(state=ended_at("2026-01-01T00:00:00Z"))))
            await asyncio.sleep(1)

        assert rig.stored() == log_line("main current")

    run(scenario())


def test_a_followed_log_that_ends_too_early_is_followed_again() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness()

        async def read(_: SimulatedLogRequest) -> AsyncIterator[bytes]:
            yield log_line("hello")
            if len(rig.requests) == 2:
                raise Unavailable("connection lost")
            if len(rig.requests) == 3:
                rig.archiver.on_pod_delete(KEY)
                yield log_line("the end")

        rig.read = read
        async with rig.running():
            rig.observe(a_pod(a_status(state=RUNNING), **DELETED))
            await asyncio.sleep(60)

        assert [request.follow for request in rig.requests] == [True] * 3
        assert rig.stored() == log_line("hello") + log_line("the end")
        assert rig.events == []

    run(scenario())


def test_an_interrupted_log_of_a_container_that_has_ended_is_read_without_following() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness()

        async def read(request: SimulatedLogRequest) -> AsyncIterator[bytes]:
            yield log_line("hello")
            if request.follow:
                rig.observe(a_pod(a_status(state=ENDED), **DELETED))
                raise Unavailable("connection lost")

        rig.read = read
        async with rig.running():
            rig.observe(a_pod(a_status(state=RUNNING), **DELETED))
            await asyncio.sleep(5)

        assert [request.follow for request in rig.requests] == [True, False]
        assert rig.stored() == log_line("hello")

    run(scenario())


def test_the_log_of_a_pod_that_replaced_another_is_not_stored_as_that_of_the_other() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness()
        rig.observe(a_pod(a_status(state=RUNNING), **DELETED))
        async with rig.running():
            await asyncio.sleep(0.005)  # the request is sent
            rig.observe(a_pod(a_status(state=RUNNING), uid="uid-2"))
            await asyncio.sleep(5)

        assert rig.archive.logs == {}
        assert rig.copier.counts.failures == {ArchiveFault.POD_DELETED: 1}
        assert [event.message for event in rig.events] == [
            "Logs are not archived: their pods were deleted before they were read."
        ]

    run(scenario())


def test_the_log_of_a_pod_that_replaced_another_is_recognized_before_the_watch_reports_it() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness()
        async with rig.running():
            rig.observe(a_pod(a_status(state=ENDED)))
            rig.stored_uid = "uid-2"
            await asyncio.sleep(5)

        assert rig.archive.logs == {}
        assert rig.copier.counts.failures == {ArchiveFault.POD_DELETED: 1}

    run(scenario())


def test_the_message_of_a_kubelet_without_the_log_is_not_stored() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness(lambda _: chunks(b"unable to retrieve container logs for containerd://b172"))
        async with rig.running():
            rig.observe(a_pod(a_status(), phase="Failed"))
            await asyncio.sleep(1)
            assert rig.is_deletable()

        assert rig.archive.logs == {}
        assert rig.copier.counts.failures == {ArchiveFault.LOG_UNAVAILABLE: 1}

    run(scenario())


def test_an_empty_log_is_stored_also_if_its_pod_was_replaced() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness(lambda _: chunks())
        rig.observe(a_pod(a_status(state=RUNNING), **DELETED))
        async with rig.running():
            await asyncio.sleep(0.005)
            rig.observe(a_pod(a_status(state=RUNNING), uid="uid-2"))
            await asyncio.sleep(5)

        assert rig.stored() == b""
        assert rig.events == []

    run(scenario())


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        pytest.param(NotFound("gone"), ArchiveFault.POD_DELETED, id="no such pod"),
        pytest.param(BadRequest("waiting to start"), ArchiveFault.LOG_UNAVAILABLE, id="no such log"),
    ],
)
def test_a_log_that_does_not_exist_delays_nothing(error: Exception, fault: ArchiveFault) -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness(lambda _: chunks(error=error))
        async with rig.running():
            rig.observe(a_pod(a_status(), phase="Failed"))
            assert not rig.is_deletable()
            await asyncio.sleep(1)

        assert rig.is_deletable()
        assert rig.notified == [(("default", "mnist"), PodName(KEY[1]))]
        assert rig.copier.counts.failures == {fault: 1}

    run(scenario())


def test_a_bug_concerns_one_log_and_delays_nothing() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness(lambda _: chunks(error=ZeroDivisionError()))
        async with rig.running():
            rig.observe(a_pod(a_status(), phase="Failed"))
            await asyncio.sleep(1)
            assert rig.is_deletable()

            rig.read = rig._whole_log
            rig.observe(a_pod(a_status(), uid="uid-2", phase="Failed"))
            await asyncio.sleep(1)
            assert rig.stored(uid="uid-2") is not None

    run(scenario())


def test_a_deletion_is_allowed_when_all_logs_are_stored_or_the_limit_has_passed() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness(lambda _: chunks(error=Unavailable("no kubelet")))
        loop = asyncio.get_running_loop()
        async with rig.running():
            rig.observe(a_pod(a_status(), a_status("side"), phase="Failed"))
            begin = loop.time()
            assert not rig.is_deletable()
            await eventually(lambda: bool(rig.notified), interval=0.1)
            assert loop.time() - begin == pytest.approx(LIMIT, abs=0.2)
            assert rig.is_deletable()
            assert rig.is_deletable(), "it stays allowed"

        assert [event.message for event in rig.events] == [
            "Logs are not archived: the nodes do not return them."
        ]

    run(scenario())


def test_an_urgent_log_does_not_wait_for_others() -> None:
    async def scenario() -> None:
        async def read(request: SimulatedLogRequest) -> AsyncIterator[bytes]:
            await asyncio.sleep(1000 if request.pod != KEY[1] else 0)
            yield log_line("hello")

        rig = LogArchiverHarness(read)
        async with rig.running():
            for number in range(40):
                pod = a_pod(a_status(), phase="Succeeded", uid=f"other-{number}", name=f"other-{number}")
                rig.archiver.on_pod_upsert(("default", f"other-{number}"), pod)
            rig.observe(a_pod(a_status(), phase="Failed"))
            await asyncio.sleep(1)
            assert rig.stored() is None
            assert not rig.is_deletable()
            await asyncio.sleep(1)

            assert rig.stored() is not None
            assert rig.is_deletable()

    run(scenario())


def test_a_container_that_ends_before_it_is_followed_does_not_wait_for_others() -> None:
    async def scenario() -> None:
        async def read(request: SimulatedLogRequest) -> AsyncIterator[bytes]:
            await asyncio.sleep(1000 if request.pod == "other" else 0)
            yield log_line("hello")

        # So large that one log is followed at a time.
        rig = LogArchiverHarness(read, tail_bytes=128 * 1024 * 1024)
        async with rig.running():
            other = a_pod(a_status(state=RUNNING), uid="other", name="other", **DELETED)
            rig.archiver.on_pod_upsert(("default", "other"), other)
            rig.observe(a_pod(a_status(state=RUNNING), **DELETED))
            await asyncio.sleep(1)
            assert rig.stored() is None

            rig.observe(a_pod(a_status(state=ENDED), **DELETED))
            await asyncio.sleep(1)
            assert rig.stored() == log_line("hello")

    run(scenario())


def test_pods_of_other_owners_are_ignored() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness()
        async with rig.running():
            rig.observe(a_pod(a_status(), phase="Failed", ownerReferences=[]))
            await asyncio.sleep(1)

        assert rig.requests == []
        assert rig.is_deletable()

    run(scenario())


def test_a_running_pod_with_a_grace_period_is_deletable_at_once() -> None:
    async def scenario() -> None:
        rig = LogArchiverHarness()
        rig.observe(a_pod(a_status(state=RUNNING), init=a_status("init", ENDED)))

        assert rig.is_deletable()

    run(scenario())
