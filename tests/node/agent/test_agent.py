"""The node agent runs the pods of its nodes and reports their status like a kubelet."""

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.owner_references import controller_reference
from launcher.node.agent.status_manager import PodDeleted, PodStatusManager
from launcher.node.container_runtime import ContainerRun, RunId
from launcher.node.network.pod_network import SharedPodNetwork
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import SharedInformers
from launcher.store.interface import CONFIG_MAPS, NODES, PODS, DeleteOptions, MergePatch, Object
from tests.eventually import eventually
from tests.node.fake_runtime import FakeRuntime
from tests.node.harness import (
    ADDRESS,
    NodeAgentHarness,
    a_container,
    a_node,
    a_pod,
    container_status,
    in_virtual_time,
    phase,
    runs,
    state,
    waits,
)


def run(pod: Object, container: str = "main", restart: int = 0) -> RunId:
    return RunId(f"{pod['metadata']['uid']}.{container}.{restart}")


async def wait_until_no_runs(harness: NodeAgentHarness) -> None:
    """Waits until the runtime has no runs."""
    await eventually(lambda: not harness.runtime.list_containers())


def test_a_short_pod_is_started_once_and_its_status_written_twice(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "3")))
            running = await harness.when("p", phase("Running"))
            done = await harness.when("p", phase("Succeeded"))

        assert state(running)["running"] == {"startedAt": "2026-01-01T00:00:00Z"}
        assert state(done)["terminated"]["exitCode"] == 0
        assert state(done)["terminated"]["reason"] == "Completed"
        assert state(done)["terminated"]["finishedAt"] == "2026-01-01T00:00:03Z"
        assert done["status"]["podIP"] == done["status"]["hostIP"] == ADDRESS
        assert len(harness.runtime.configs) == 1
        assert harness.store.status_writes == 2

    in_virtual_time(scenario, tmp_path)


def test_only_the_status_of_a_terminated_pod_remains(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "false")))
            await harness.when("p", phase("Failed"))
            await wait_until_no_runs(harness)
            await asyncio.sleep(1)

        assert list((tmp_path / "ends").iterdir()) == []
        assert harness.logs.removed == []

    in_virtual_time(scenario, tmp_path)


def test_pods_of_other_nodes_and_unscheduled_pods_are_not_started(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("elsewhere", node="n2"))
            await harness.create(a_pod("unbound", node=None))
            await harness.create(a_pod("here"))
            await harness.when("here", phase("Succeeded"))

        assert len(harness.runtime.configs) == 1

    in_virtual_time(scenario, tmp_path)


def test_a_pod_is_started_when_it_is_bound(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p", node=None))
            await asyncio.sleep(1)
            await harness.store.patch(PODS, "default", "p", MergePatch({"spec": {"nodeName": "n1"}}))
            await harness.when("p", phase("Succeeded"))

    in_virtual_time(scenario, tmp_path)


def test_a_pod_waits_for_the_registration_of_its_node(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.store.delete(NODES, "", "n1")
        async with harness.agent():
            await harness.create(a_pod("p"))
            await asyncio.sleep(5)
            assert harness.runtime.configs == []
            [event] = await harness.events("NodeNotReady")
            await harness.store.create(NODES, a_node(address="127.0.0.9"))
            done = await harness.when("p", phase("Succeeded"))

        assert event == "Node n1 is not registered; waiting for it"
        assert done["status"]["podIP"] == "127.0.0.9"

    in_virtual_time(scenario, tmp_path)


def test_init_containers_run_one_after_the_other_and_before_the_others(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        first, second = a_container("a", "sleep", "2"), a_container("b", "sleep", "3")
        async with harness.agent():
            await harness.create(
                a_pod("p", a_container("main", "sleep", "1"), initContainers=[first, second])
            )
            waiting = await harness.when("p", waits("PodInitializing"))
            done = await harness.when("p", phase("Succeeded"))

        assert waiting["status"]["phase"] == "Pending"
        assert [order.id.split(".")[1] for order in harness.runtime.configs] == ["a", "b", "main"]
        assert state(done, "b")["terminated"]["finishedAt"] == "2026-01-01T00:00:05Z"
        assert container_status(done, "a")["ready"] is True
        assert state(done)["terminated"]["startedAt"] == "2026-01-01T00:00:05Z"

    in_virtual_time(scenario, tmp_path)


def test_a_failed_init_container_that_is_not_restarted_fails_the_pod(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p", initContainers=[a_container("a", "sh", "-c", "exit 7")]))
            done = await harness.when("p", phase("Failed"))

        assert state(done, "a")["terminated"]["exitCode"] == 7
        assert state(done)["waiting"]["reason"] == "PodInitializing"
        assert len(harness.runtime.configs) == 1

    in_virtual_time(scenario, tmp_path)


def test_a_sidecar_starts_before_the_others_and_ends_after_them(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        sidecar = a_container("side", "sleep", "1000", restartPolicy="Always")
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "5"), initContainers=[sidecar]))
            done = await harness.when("p", phase("Succeeded"))

        assert [order.id.split(".")[1] for order in harness.runtime.configs] == ["side", "main"]
        assert [number for _, number in harness.runtime.signals] == [signal.SIGTERM]
        assert state(done, "side")["terminated"]["exitCode"] == 143

    in_virtual_time(scenario, tmp_path)


def test_the_restarts_of_a_failing_container_are_backed_off(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(
                a_pod("p", a_container("main", "sh", "-c", "exit 3"), restartPolicy="OnFailure")
            )
            waiting = await harness.when("p", waits("CrashLoopBackOff"))
            await eventually(lambda: len(harness.runtime.configs) == 4)
            await eventually(lambda: len(harness.runtime.configs) == 5)
            elapsed = harness.clock() - 1_767_225_600
            events = await harness.events("BackOff")

        # Immediately, then after 10, 20 and 40 seconds.
        assert 70 <= elapsed <= 72
        assert state(waiting)["waiting"]["message"].startswith(
            "back-off 10s restarting failed container=main pod=p_"
        )
        assert container_status(waiting)["lastState"]["terminated"]["exitCode"] == 3
        assert container_status(waiting)["restartCount"] == 1
        assert waiting["status"]["phase"] == "Running"
        assert events[0].startswith("Back-off restarting failed container main in pod p_default(")

    in_virtual_time(scenario, tmp_path)


def test_a_run_of_ten_minutes_resets_the_restart_backoff(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "700"), restartPolicy="Always"))
            await harness.when("p", runs(restarts=3))

        # Without back-off: 3 times 700 seconds.
        assert harness.clock() - 1_767_225_600 < 2102

    in_virtual_time(scenario, tmp_path)


def test_a_missing_program_ends_the_container_with_start_error(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "no-such-program")))
            done = await harness.when("p", phase("Failed"))

        ended = state(done)["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
        assert "executable file not found" in ended["message"]
        assert harness.store.status_writes == 1

    in_virtual_time(scenario, tmp_path)


def test_a_container_without_a_command_waits_with_the_reason(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p", {"name": "main", "image": "nginx"}))
            waiting = await harness.when("p", waits("CreateContainerError"))

        assert "set command" in state(waiting)["waiting"]["message"]
        assert waiting["status"]["phase"] == "Pending"

    in_virtual_time(scenario, tmp_path)


def test_a_container_starts_when_its_config_map_is_created(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        reference = {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "true", env=[reference])))
            waiting = await harness.when("p", waits("CreateContainerConfigError"))
            config = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "c", "namespace": "default"},
            }
            await harness.store.create(CONFIG_MAPS, {**config, "data": {"k": "v"}})
            await harness.when("p", phase("Succeeded"))

        assert state(waiting)["waiting"]["message"] == 'configmap "c" not found'
        assert harness.runtime.configs[0].environment["X"] == "v"

    in_virtual_time(scenario, tmp_path)


def test_a_deleted_pod_is_removed_after_its_grace_period(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sh", "-c", "trap '' TERM; sleep 1000")))
            pod = await harness.when("p", runs())
            deleted_at = harness.clock()
            await harness.store.delete(PODS, "default", "p")
            last = await harness.wait_until_deleted("p")
            took = harness.clock() - deleted_at
            await wait_until_no_runs(harness)

        assert harness.runtime.signals == [(run(pod), signal.SIGTERM), (run(pod), signal.SIGKILL)]
        assert 5 <= took < 6.1
        assert state(last)["terminated"]["exitCode"] == 137
        assert last["status"]["phase"] == "Failed"

    in_virtual_time(scenario, tmp_path)


def test_a_shortened_grace_period_ends_earlier(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        container = a_container("main", "sh", "-c", "trap '' TERM; sleep 1000")
        async with harness.agent():
            await harness.create(a_pod("p", container, terminationGracePeriodSeconds=300))
            await harness.when("p", runs())
            deleted_at = harness.clock()
            await harness.store.delete(PODS, "default", "p")
            await asyncio.sleep(10)
            await harness.store.delete(PODS, "default", "p", DeleteOptions(grace=2))
            await harness.wait_until_deleted("p")

        assert harness.clock() - deleted_at < 15

    in_virtual_time(scenario, tmp_path)


def test_a_pod_deleted_before_its_start_is_removed_without_a_final_status(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p", {"name": "main", "image": "x"}))
            await harness.when("p", waits("CreateContainerError"))
            writes = harness.store.status_writes
            await harness.store.delete(PODS, "default", "p")
            await harness.wait_until_deleted("p")

        assert harness.runtime.configs == []
        assert harness.store.status_writes == writes

    in_virtual_time(scenario, tmp_path)


def test_a_sidecar_has_two_seconds_even_if_the_grace_period_is_used_up(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        ignores_sigterm = ("sh", "-c", "trap '' TERM; sleep 1000")
        sidecar = a_container("side", *ignores_sigterm, restartPolicy="Always")
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", *ignores_sigterm), initContainers=[sidecar]))
            await harness.when("p", runs())
            await harness.store.delete(PODS, "default", "p")
            last = await harness.wait_until_deleted("p")

        assert state(last)["terminated"]["finishedAt"] == "2026-01-01T00:00:05Z"
        assert state(last, "side")["terminated"]["finishedAt"] == "2026-01-01T00:00:07Z"

    in_virtual_time(scenario, tmp_path)


def test_a_run_whose_start_response_was_lost_is_stopped_gracefully(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        harness.runtime.lost_responses = 1
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "1000")))
            await eventually(lambda: bool(harness.runtime.configs), interval=0.01)
            await harness.store.delete(PODS, "default", "p")
            last = await harness.wait_until_deleted("p")

        assert state(last)["terminated"]["exitCode"] == 143

    in_virtual_time(scenario, tmp_path)


def test_a_run_that_may_have_been_started_is_removed_with_its_pod(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        harness.runtime.failing_calls = 1
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "1000")))
            await eventually(lambda: not harness.runtime.failing_calls, interval=0.01)
            await harness.store.delete(PODS, "default", "p")
            await harness.wait_until_deleted("p")
            (removed,) = await eventually(lambda: harness.runtime.removed or None)

        assert harness.runtime.configs == []
        assert removed.endswith(".main.0")

    in_virtual_time(scenario, tmp_path)


def test_old_runs_of_a_restarted_container_are_removed(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "700"), restartPolicy="Always"))
            await harness.when("p", runs(restarts=4))
            await eventually(lambda: len(harness.runtime.list_containers()) == 1)

            assert len(list((tmp_path / "ends").iterdir())) == 1

    in_virtual_time(scenario, tmp_path)


class StaleRuntime(FakeRuntime):
    """Reports exits in its exit stream, while ``list_containers`` still shows the runs as running."""

    def list_containers(self) -> Mapping[RunId, ContainerRun]:
        return {run.id: replace(run, ended=None) for run in super().list_containers().values()}


def test_an_exit_from_the_exit_stream_is_used_without_looking_up_the_run_again(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        harness.runtime = StaleRuntime(harness.clock)
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sh", "-c", "sleep 5; exit 3")))
            pod = await harness.when("p", phase("Failed"))

        assert state(pod)["terminated"]["exitCode"] == 3
        assert state(pod)["terminated"]["reason"] == "Error"

    in_virtual_time(scenario, tmp_path)


async def test_a_status_is_never_written_to_another_pod_of_the_same_name(tmp_path: Path) -> None:
    harness = NodeAgentHarness(tmp_path)
    old = await harness.create(a_pod("p"))
    dependencies = harness.dependencies(
        EventRecorder(harness.store, harness.clock), SharedInformers(harness.store)
    )
    stored = PodStatusManager(old, dependencies, lambda _: None)
    await harness.store.delete(PODS, "default", "p", DeleteOptions(grace=0))
    new = await harness.create(a_pod("p"))

    with pytest.raises(PodDeleted):
        await stored.write_status(lambda _: {"phase": "Running"})
    with pytest.raises(PodDeleted):
        await stored.remove()

    assert await harness.pod("p") == new


def test_a_pod_without_an_object_is_killed_before_the_next_of_its_name_starts(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        container = a_container("main", "sh", "-c", "trap '' TERM; sleep 1000")
        harness.runtime.kill_seconds = 3.0
        async with harness.agent():
            await harness.create(a_pod("p", container))
            old = await harness.when("p", runs())
            await harness.store.delete(PODS, "default", "p", DeleteOptions(grace=0))
            await harness.create(a_pod("p", container))
            await asyncio.sleep(2)
            assert harness.runtime.running() == [run(old)]
            new = await harness.when("p", runs())

            assert harness.runtime.running() == [run(new)]
            assert run(old) not in harness.runtime.list_containers()

    in_virtual_time(scenario, tmp_path)


def test_a_pod_deleted_while_it_waits_for_another_of_its_name_never_starts(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        container = a_container("main", "sh", "-c", "trap '' TERM; sleep 1000")
        harness.runtime.kill_seconds = 3.0
        async with harness.agent():
            await harness.create(a_pod("p", container))
            await harness.when("p", runs())
            await harness.store.delete(PODS, "default", "p", DeleteOptions(grace=0))
            await harness.create(a_pod("p", container))
            await asyncio.sleep(1)
            await harness.store.delete(PODS, "default", "p", DeleteOptions(grace=0))
            await asyncio.sleep(10)

        assert len(harness.runtime.configs) == 1
        assert harness.runtime.running() == []

    in_virtual_time(scenario, tmp_path)


def test_a_pod_that_exceeds_active_deadline_seconds_fails(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "100"), activeDeadlineSeconds=7))
            done = await harness.when("p", phase("Failed"))

        assert done["status"]["reason"] == "DeadlineExceeded"
        assert done["status"]["message"] == "Pod was active on the node longer than the specified deadline"
        assert state(done)["terminated"]["exitCode"] == 143
        assert state(done)["terminated"]["finishedAt"] == "2026-01-01T00:00:07Z"

    in_virtual_time(scenario, tmp_path)


def test_out_of_memory_and_unobserved_exits_have_their_own_reasons(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p", a_container("a", "sleep", "99"), a_container("b", "sleep", "99")))
            pod = await harness.when("p", phase("Running"))
            harness.runtime.end(run(pod, "a"), 137, out_of_memory=True)
            harness.runtime.end(run(pod, "b"), 137, unknown=True)
            done = await harness.when("p", phase("Failed"))

        assert state(done, "a")["terminated"]["reason"] == "OOMKilled"
        assert state(done, "b")["terminated"]["reason"] == "ContainerStatusUnknown"

    in_virtual_time(scenario, tmp_path)


def test_a_process_that_is_killed_for_memory_in_a_running_container_has_an_event(
    tmp_path: Path,
) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        container = a_container("main", "sleep", "99", resources={"limits": {"memory": "64Mi"}})
        async with harness.agent():
            await harness.create(a_pod("p", container))
            pod = await harness.when("p", phase("Running"))
            harness.runtime.kill_for_memory(run(pod, "main"))
            [event] = await harness.events("OOMKilling")
            harness.runtime.end(run(pod, "main"), 0)
            done = await harness.when("p", phase("Succeeded"))

        assert event == "A process of container main was killed: out of memory (limit 64Mi)"
        assert state(done)["terminated"]["reason"] == "Completed"

    in_virtual_time(scenario, tmp_path)


def test_termination_messages_are_read_from_the_file_or_else_from_the_log(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        fallback = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        harness.logs.tails = {"logs": "the last line\n", "both": "not this", "fine": "not this"}
        async with harness.agent():
            await harness.create(
                a_pod(
                    "p",
                    a_container("logs", "sh", "-c", "sleep 5; exit 1", **fallback),
                    a_container("both", "sh", "-c", "sleep 5; exit 1", **fallback),
                    a_container("fine", "sleep", "5", **fallback),
                )
            )
            await harness.when("p", phase("Running"))
            [order] = [order for order in harness.runtime.configs if ".both." in order.id]
            mount = order.mounts[-1]
            mount.source.write_text("x" * 5000 + "the end")
            done = await harness.when("p", phase("Failed"))

        assert mount.target == "/dev/termination-log"
        assert state(done, "logs")["terminated"]["message"] == "the last line\n"
        assert state(done, "both")["terminated"]["message"].endswith("xxthe end")
        assert len(state(done, "both")["terminated"]["message"]) == 4096
        assert "message" not in state(done, "fine")["terminated"]

    in_virtual_time(scenario, tmp_path)


def test_arguments_that_need_an_entrypoint_name_the_solutions(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        harness.images = {"known": ("sh", "-c", "exit 3")}
        for name, image in (("p", "busybox"), ("q", "known")):
            await harness.create(a_pod(name, {"name": "main", "image": image, "args": ["--steps=5"]}))
        async with harness.agent():
            failed = await harness.when("p", phase("Failed"))
            other = await harness.when("q", phase("Failed"))

        message = state(failed)["terminated"]["message"]
        assert 'exec: "--steps=5": executable file not found in $PATH; it has no command' in message
        assert "--image busybox=DIR,entrypoint=COMMAND" in message
        assert state(other)["terminated"]["exitCode"] == 3
        assert harness.runtime.configs[0].argv == ("sh", "-c", "exit 3", "--steps=5")

    in_virtual_time(scenario, tmp_path)


OF_FRAMEWORK = {
    "ownerReferences": [controller_reference("launcher.microsoft.com/v1", "Framework", "f", "uid-of-f")]
}


def test_a_network_that_cannot_be_isolated_is_recorded_once_for_each_framework(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        harness.network = SharedPodNetwork("install pasta")
        pods = [
            *(a_pod(f"f-worker-{index}", metadata=OF_FRAMEWORK) for index in range(3)),
            a_pod("alone"),
            a_pod("on-host-network", hostNetwork=True),
        ]
        async with harness.agent():
            for pod in pods:
                await harness.create(pod)
            for pod in pods:
                await harness.when(pod["metadata"]["name"], phase("Succeeded"))
            events = await harness.events("NotSupported")

        assert len(events) == 2
        assert all("cannot be isolated: install pasta" in event for event in events)

    in_virtual_time(scenario, tmp_path)


def test_image_not_pulled_is_recorded_once_for_each_image_and_framework(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        harness.images = {"known": ()}
        containers = a_container("a"), a_container("b"), a_container("c", image="known")
        async with harness.agent():
            await harness.create(a_pod("f-worker-0", *containers, metadata=OF_FRAMEWORK))
            await harness.when("f-worker-0", phase("Succeeded"))
            await harness.create(a_pod("f-worker-1", *containers, metadata=OF_FRAMEWORK))
            await harness.create(a_pod("alone", a_container("d")))
            await harness.when("f-worker-1", phase("Succeeded"))
            await harness.when("alone", phase("Succeeded"))
            await asyncio.sleep(10)
            events = await harness.events("ImageNotPulled")

        assert [event.split('"')[1] for event in sorted(events)] == ["a", "d"]
        assert all("--image busybox=DIR" in event for event in events)

    in_virtual_time(scenario, tmp_path)


def test_not_supported_is_recorded_once_for_each_feature(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        harness.runtime.unsupported = ["Memory is not limited: no cgroup may be made."]
        limited = {"resources": {"limits": {"memory": "64Mi", "cpu": "500m"}}}
        async with harness.agent():
            await harness.create(a_pod("plain"))
            await harness.create(a_pod("limited", a_container("a", **limited), a_container("b", **limited)))
            await harness.when("plain", phase("Succeeded"))
            await harness.when("limited", phase("Succeeded"))
            events = await harness.events("NotSupported")

        limits = next(order.limits for order in harness.runtime.configs if ".a." in order.id)
        assert events == ["Memory is not limited: no cgroup may be made."]
        assert (limits.memory, limits.cpu) == (64 * 1024 * 1024, 0.5)

    in_virtual_time(scenario, tmp_path)


def test_an_error_of_one_pod_does_not_affect_others(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("bad", {"image": "without a name"}))
            await harness.create(a_pod("good"))
            await harness.when("good", phase("Succeeded"))
            assert await harness.events("FailedSync")
            await harness.store.delete(PODS, "default", "bad")
            await harness.wait_until_deleted("bad")

    in_virtual_time(scenario, tmp_path)
