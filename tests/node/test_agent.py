"""The agent runs what is bound to its nodes, and says so as a kubelet does."""

import asyncio
import signal
from pathlib import Path

import pytest

from launcher.node.agent.dependencies import AgentDependencies
from launcher.node.agent.hosts_files import HostsFileManager
from launcher.node.agent.status_manager import PodDeleted, PodStatusManager
from launcher.node.agent.termination_messages import TerminationMessages
from launcher.node.container_runtime import RunId
from launcher.node.volumes.nfs import Nfs
from launcher.node.volumes.volume_manager import VolumeManager
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import CONFIG_MAPS, NODES, PODS, DeleteOptions, MergePatch, Object
from tests.node.world import (
    ADDRESS,
    World,
    a_container,
    a_node,
    a_pod,
    container_status,
    eventually,
    in_virtual_time,
    phase,
    runs,
    state,
    waits,
)


def run(pod: Object, container: str = "main", restart: int = 0) -> RunId:
    return RunId(f"{pod['metadata']['uid']}.{container}.{restart}")


async def until_nothing_runs(world: World) -> None:
    """Until the runtime knows of no run at all."""
    await eventually(lambda: not world.runtime.runs())


def test_a_short_pod_is_started_once_and_written_down_twice(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sleep", "3")))
            running = await world.when("p", phase("Running"))
            done = await world.when("p", phase("Succeeded"))

        assert state(running)["running"] == {"startedAt": "2026-01-01T00:00:00Z"}
        assert state(done)["terminated"]["exitCode"] == 0
        assert state(done)["terminated"]["reason"] == "Completed"
        assert state(done)["terminated"]["finishedAt"] == "2026-01-01T00:00:03Z"
        assert done["status"]["podIP"] == done["status"]["hostIP"] == ADDRESS
        assert len(world.runtime.orders) == 1
        assert world.store.status_writes == 2

    in_virtual_time(scenario, tmp_path)


def test_nothing_is_left_of_a_pod_that_is_over_but_its_status(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "false")))
            await world.when("p", phase("Failed"))
            await until_nothing_runs(world)
            await asyncio.sleep(1)

        assert list((tmp_path / "ends").iterdir()) == []
        assert world.logs.removed == []

    in_virtual_time(scenario, tmp_path)


def test_pods_of_other_nodes_and_of_none_are_left_alone(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("elsewhere", node="n2"))
            await world.create(a_pod("unbound", node=None))
            await world.create(a_pod("here"))
            await world.when("here", phase("Succeeded"))

        assert len(world.runtime.orders) == 1

    in_virtual_time(scenario, tmp_path)


def test_a_pod_that_is_bound_later_is_run_then(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("p", node=None))
            await asyncio.sleep(1)
            await world.store.patch(PODS, "default", "p", MergePatch({"spec": {"nodeName": "n1"}}))
            await world.when("p", phase("Succeeded"))

    in_virtual_time(scenario, tmp_path)


def test_a_pod_whose_node_is_not_there_yet_waits_for_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.store.delete(NODES, "", "n1")
        async with world.agent():
            await world.create(a_pod("p"))
            await asyncio.sleep(5)
            assert world.runtime.orders == []
            [event] = await world.events("NodeNotReady")
            await world.store.create(NODES, a_node(address="127.0.0.9"))
            done = await world.when("p", phase("Succeeded"))

        assert event == "Node n1 is not registered; the pod waits for it"
        assert done["status"]["podIP"] == "127.0.0.9"

    in_virtual_time(scenario, tmp_path)


def test_init_containers_run_one_after_the_other_and_before_the_others(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        first, second = a_container("a", "sleep", "2"), a_container("b", "sleep", "3")
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sleep", "1"), initContainers=[first, second]))
            waiting = await world.when("p", waits("PodInitializing"))
            done = await world.when("p", phase("Succeeded"))

        assert waiting["status"]["phase"] == "Pending"
        assert [order.id.split(".")[1] for order in world.runtime.orders] == ["a", "b", "main"]
        assert state(done, "b")["terminated"]["finishedAt"] == "2026-01-01T00:00:05Z"
        assert container_status(done, "a")["ready"] is True
        assert state(done)["terminated"]["startedAt"] == "2026-01-01T00:00:05Z"

    in_virtual_time(scenario, tmp_path)


def test_an_init_container_that_fails_for_good_fails_the_pod(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("p", initContainers=[a_container("a", "sh", "-c", "exit 7")]))
            done = await world.when("p", phase("Failed"))

        assert state(done, "a")["terminated"]["exitCode"] == 7
        assert state(done)["waiting"]["reason"] == "PodInitializing"
        assert len(world.runtime.orders) == 1

    in_virtual_time(scenario, tmp_path)


def test_a_sidecar_starts_before_the_others_and_ends_after_them(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        sidecar = a_container("side", "sleep", "1000", restartPolicy="Always")
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sleep", "5"), initContainers=[sidecar]))
            done = await world.when("p", phase("Succeeded"))

        assert [order.id.split(".")[1] for order in world.runtime.orders] == ["side", "main"]
        assert [number for _, number in world.runtime.signals] == [signal.SIGTERM]
        assert state(done, "side")["terminated"]["exitCode"] == 143

    in_virtual_time(scenario, tmp_path)


def test_a_container_that_keeps_failing_waits_longer_each_time(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(
                a_pod("p", a_container("main", "sh", "-c", "exit 3"), restartPolicy="OnFailure")
            )
            waiting = await world.when("p", waits("CrashLoopBackOff"))
            await eventually(lambda: len(world.runtime.orders) == 4)
            await eventually(lambda: len(world.runtime.orders) == 5)
            elapsed = world.clock() - 1_767_225_600
            events = await world.events("BackOff")

        # At once, then after 10, 20 and 40 seconds.
        assert 70 <= elapsed <= 72
        assert state(waiting)["waiting"]["message"].startswith(
            "back-off 10s restarting failed container=main pod=p_"
        )
        assert container_status(waiting)["lastState"]["terminated"]["exitCode"] == 3
        assert container_status(waiting)["restartCount"] == 1
        assert waiting["status"]["phase"] == "Running"
        assert events[0].startswith("Back-off restarting failed container main in pod p_default(")

    in_virtual_time(scenario, tmp_path)


def test_a_container_that_always_runs_again_has_worked_after_ten_minutes(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sleep", "700"), restartPolicy="Always"))
            await world.when("p", runs(restarts=3))

        # Never a pause: 3 times 700 seconds.
        assert world.clock() - 1_767_225_600 < 2102

    in_virtual_time(scenario, tmp_path)


def test_a_program_that_is_not_there_ends_the_container_as_an_engine_would(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "no-such-program")))
            done = await world.when("p", phase("Failed"))

        ended = state(done)["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
        assert "executable file not found" in ended["message"]
        assert world.store.status_writes == 1

    in_virtual_time(scenario, tmp_path)


def test_a_container_without_a_command_is_told_to_write_one(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        container = {"name": "main", "image": "nginx", "args": ["-v"]}
        async with world.agent():
            await world.create(a_pod("p", container))
            waiting = await world.when("p", waits("CreateContainerConfigError"))

        assert "write `command`" in state(waiting)["waiting"]["message"]
        assert waiting["status"]["phase"] == "Pending"

    in_virtual_time(scenario, tmp_path)


def test_a_container_whose_config_map_comes_late_starts_then(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        reference = {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "true", env=[reference])))
            waiting = await world.when("p", waits("CreateContainerConfigError"))
            config = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "c", "namespace": "default"},
            }
            await world.store.create(CONFIG_MAPS, {**config, "data": {"k": "v"}})
            await world.when("p", phase("Succeeded"))

        assert state(waiting)["waiting"]["message"] == 'configmap "c" not found'
        assert world.runtime.orders[0].environment["X"] == "v"

    in_virtual_time(scenario, tmp_path)


def test_a_pod_that_is_deleted_has_its_grace_and_then_goes(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sh", "-c", "trap '' TERM; sleep 1000")))
            pod = await world.when("p", runs())
            asked = world.clock()
            await world.store.delete(PODS, "default", "p")
            last = await world.gone("p")
            took = world.clock() - asked
            await until_nothing_runs(world)

        assert world.runtime.signals == [(run(pod), signal.SIGTERM), (run(pod), signal.SIGKILL)]
        assert 5 <= took < 6.1
        assert state(last)["terminated"]["exitCode"] == 137
        assert last["status"]["phase"] == "Failed"

    in_virtual_time(scenario, tmp_path)


def test_a_grace_that_is_shortened_ends_sooner(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        container = a_container("main", "sh", "-c", "trap '' TERM; sleep 1000")
        async with world.agent():
            await world.create(a_pod("p", container, terminationGracePeriodSeconds=300))
            await world.when("p", runs())
            asked = world.clock()
            await world.store.delete(PODS, "default", "p")
            await asyncio.sleep(10)
            await world.store.delete(PODS, "default", "p", DeleteOptions(grace=2))
            await world.gone("p")

        assert world.clock() - asked < 15

    in_virtual_time(scenario, tmp_path)


def test_a_pod_that_is_deleted_before_it_could_start_goes_without_a_word(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("p", {"name": "main", "image": "x"}))
            await world.when("p", waits("CreateContainerConfigError"))
            writes = world.store.status_writes
            await world.store.delete(PODS, "default", "p")
            await world.gone("p")

        assert world.runtime.orders == []
        assert world.store.status_writes == writes

    in_virtual_time(scenario, tmp_path)


def test_a_sidecar_has_a_little_time_even_when_the_grace_is_used_up(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        stubborn = ("sh", "-c", "trap '' TERM; sleep 1000")
        sidecar = a_container("side", *stubborn, restartPolicy="Always")
        async with world.agent():
            await world.create(a_pod("p", a_container("main", *stubborn), initContainers=[sidecar]))
            await world.when("p", runs())
            await world.store.delete(PODS, "default", "p")
            last = await world.gone("p")

        assert state(last)["terminated"]["finishedAt"] == "2026-01-01T00:00:05Z"
        assert state(last, "side")["terminated"]["finishedAt"] == "2026-01-01T00:00:07Z"

    in_virtual_time(scenario, tmp_path)


def test_a_run_whose_start_was_never_answered_ends_as_gently_as_others(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.runtime.answers_lost = 1
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sleep", "1000")))
            await eventually(lambda: bool(world.runtime.orders), every=0.01)
            await world.store.delete(PODS, "default", "p")
            last = await world.gone("p")

        assert state(last)["terminated"]["exitCode"] == 143

    in_virtual_time(scenario, tmp_path)


def test_what_is_known_of_a_container_that_restarts_does_not_grow(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sleep", "700"), restartPolicy="Always"))
            await world.when("p", runs(restarts=4))
            await eventually(lambda: len(world.runtime.runs()) == 1)

            assert len(list((tmp_path / "ends").iterdir())) == 1

    in_virtual_time(scenario, tmp_path)


async def test_a_status_is_never_written_to_another_pod_of_the_same_name(tmp_path: Path) -> None:
    world = World(tmp_path)
    old = await world.create(a_pod("p"))
    events = EventRecorder(world.store, world.clock)
    volumes = VolumeManager(tmp_path, Nfs(tmp_path, {}))
    tools = AgentDependencies(
        world.store,
        world.runtime,
        volumes,
        TerminationMessages(tmp_path),
        HostsFileManager(world.store, tmp_path),
        world.logs,
        events,
        world.clock,
        wrote=lambda _: None,
    )
    stored = PodStatusManager(old, tools)
    await world.store.delete(PODS, "default", "p", DeleteOptions(grace=0))
    new = await world.create(a_pod("p"))

    with pytest.raises(PodDeleted):
        await stored.report(lambda _: {"phase": "Running"})
    with pytest.raises(PodDeleted):
        await stored.remove()

    assert await world.pod("p") == new


def test_a_pod_that_vanishes_is_killed_before_the_next_of_its_name_starts(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        container = a_container("main", "sh", "-c", "trap '' TERM; sleep 1000")
        world.runtime.dying = 3.0
        async with world.agent():
            await world.create(a_pod("p", container))
            old = await world.when("p", runs())
            await world.store.delete(PODS, "default", "p", DeleteOptions(grace=0))
            await world.create(a_pod("p", container))
            await asyncio.sleep(2)
            assert world.runtime.running() == [run(old)]
            new = await world.when("p", runs())

            assert world.runtime.running() == [run(new)]
            assert run(old) not in world.runtime.runs()

    in_virtual_time(scenario, tmp_path)


def test_a_pod_that_vanishes_before_its_turn_never_starts(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        container = a_container("main", "sh", "-c", "trap '' TERM; sleep 1000")
        world.runtime.dying = 3.0
        async with world.agent():
            await world.create(a_pod("p", container))
            await world.when("p", runs())
            await world.store.delete(PODS, "default", "p", DeleteOptions(grace=0))
            await world.create(a_pod("p", container))
            await asyncio.sleep(1)
            await world.store.delete(PODS, "default", "p", DeleteOptions(grace=0))
            await asyncio.sleep(10)

        assert len(world.runtime.orders) == 1
        assert world.runtime.running() == []

    in_virtual_time(scenario, tmp_path)


def test_a_pod_that_is_active_for_too_long_fails(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sleep", "100"), activeDeadlineSeconds=7))
            done = await world.when("p", phase("Failed"))

        assert done["status"]["reason"] == "DeadlineExceeded"
        assert done["status"]["message"] == "Pod was active on the node longer than the specified deadline"
        assert state(done)["terminated"]["exitCode"] == 143
        assert state(done)["terminated"]["finishedAt"] == "2026-01-01T00:00:07Z"

    in_virtual_time(scenario, tmp_path)


def test_containers_that_were_killed_for_memory_or_unseen_are_told_as_such(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("p", a_container("a", "sleep", "99"), a_container("b", "sleep", "99")))
            pod = await world.when("p", phase("Running"))
            world.runtime.end(run(pod, "a"), 137, out_of_memory=True)
            world.runtime.end(run(pod, "b"), 137, unseen=True)
            done = await world.when("p", phase("Failed"))

        assert state(done, "a")["terminated"]["reason"] == "OOMKilled"
        assert state(done, "b")["terminated"]["reason"] == "ContainerStatusUnknown"

    in_virtual_time(scenario, tmp_path)


def test_a_process_that_was_killed_for_memory_in_a_container_that_goes_on_has_an_event(
    tmp_path: Path,
) -> None:
    async def scenario(world: World) -> None:
        container = a_container("main", "sleep", "99", resources={"limits": {"memory": "64Mi"}})
        async with world.agent():
            await world.create(a_pod("p", container))
            pod = await world.when("p", phase("Running"))
            world.runtime.kill_for_memory(run(pod, "main"))
            [event] = await world.events("OOMKilling")
            world.runtime.end(run(pod, "main"), 0)
            done = await world.when("p", phase("Succeeded"))

        assert event == "A process of container main was killed: out of memory (limit 64Mi)"
        assert state(done)["terminated"]["reason"] == "Completed"

    in_virtual_time(scenario, tmp_path)


def test_last_words_come_from_their_file_or_else_from_the_log(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        fallback = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        world.logs.ends = {"logs": "the last line\n", "both": "not this", "fine": "not this"}
        async with world.agent():
            await world.create(
                a_pod(
                    "p",
                    a_container("logs", "sh", "-c", "sleep 5; exit 1", **fallback),
                    a_container("both", "sh", "-c", "sleep 5; exit 1", **fallback),
                    a_container("fine", "sleep", "5", **fallback),
                )
            )
            await world.when("p", phase("Running"))
            [order] = [order for order in world.runtime.orders if ".both." in order.id]
            mount = order.mounts[-1]
            mount.source.write_text("x" * 5000 + "the end")
            done = await world.when("p", phase("Failed"))

        assert mount.target == "/dev/termination-log"
        assert state(done, "logs")["terminated"]["message"] == "the last line\n"
        assert state(done, "both")["terminated"]["message"].endswith("xxthe end")
        assert len(state(done, "both")["terminated"]["message"]) == 4096
        assert "message" not in state(done, "fine")["terminated"]

    in_virtual_time(scenario, tmp_path)


def test_people_are_told_once_for_each_image_that_nothing_is_pulled(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.images = ("known",)
        async with world.agent():
            await world.create(
                a_pod("p", a_container("a"), a_container("b"), a_container("c", image="known"))
            )
            await world.create(a_pod("q", a_container("a")))
            await world.when("p", phase("Succeeded"))
            await world.when("q", phase("Succeeded"))
            events = await world.events("ImageNotPulled")

        assert len(events) == 1
        assert "--image busybox=DIR" in events[0]

    in_virtual_time(scenario, tmp_path)


def test_a_pod_that_needs_what_cannot_be_done_is_told_so_once(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.runtime.cannot_do = ["Memory is not limited: no cgroup may be made."]
        limited = {"resources": {"limits": {"memory": "64Mi", "cpu": "500m"}}}
        async with world.agent():
            await world.create(a_pod("plain"))
            await world.create(a_pod("limited", a_container("a", **limited), a_container("b", **limited)))
            await world.when("plain", phase("Succeeded"))
            await world.when("limited", phase("Succeeded"))
            events = await world.events("NotSupported")

        limits = next(order.limits for order in world.runtime.orders if ".a." in order.id)
        assert events == ["Memory is not limited: no cgroup may be made."]
        assert (limits.memory, limits.cpu) == (64 * 1024 * 1024, 0.5)

    in_virtual_time(scenario, tmp_path)


def test_whatever_is_wrong_with_one_pod_the_others_go_on(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("bad", {"image": "without a name"}))
            await world.create(a_pod("good"))
            await world.when("good", phase("Succeeded"))
            assert await world.events("FailedSync")
            await world.store.delete(PODS, "default", "bad")
            await world.gone("bad")

    in_virtual_time(scenario, tmp_path)
