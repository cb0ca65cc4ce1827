"""Probes and lifecycle hooks: when a container is started, ready, or killed."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from launcher.node.agent.handler_runner import HandlerRunner
from launcher.node.agent.probe_manager import Probe, ResultCounter, parse_probe
from launcher.node.container_runtime import ContainerConfig, RunId
from launcher.store.interface import PODS, Object
from tests.node.fake_runtime import FakeRuntime
from tests.node.harness import (
    NodeAgentHarness,
    a_container,
    a_pod,
    container_status,
    in_virtual_time,
    phase,
    runs,
    state,
)


def ready(expected: bool) -> Any:
    return lambda pod: (
        bool(pod["status"].get("containerStatuses")) and container_status(pod)["ready"] is expected
    )


def condition(pod: Object, kind: str) -> Object:
    found: Object = next(one for one in pod["status"]["conditions"] if one["type"] == kind)
    return found


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        pytest.param([True], None, id="one success of two is not enough"),
        pytest.param([True, True], True, id="two consecutive successes are enough"),
        pytest.param([True, False, True], None, id="a failure resets the count"),
        pytest.param([False, False], None, id="two failures of three are not enough"),
        pytest.param([True, True, False, False, False], False, id="three consecutive failures are enough"),
    ],
)
def test_consecutive_results_decide_at_the_threshold(results: list[bool], expected: bool | None) -> None:
    counter = ResultCounter(Probe({}, success_threshold=2, failure_threshold=3))

    assert [counter.add(result) for result in results][-1] is expected


def test_a_probe_has_the_defaults_of_the_kubelet() -> None:
    probe = parse_probe({"exec": {"command": ["x"]}, "failureThreshold": None})

    assert probe is not None
    times = (probe.delay, probe.period, probe.timeout)
    assert (times, probe.success_threshold, probe.failure_threshold) == ((0, 10, 1), 1, 3)


def test_readiness_follows_its_probe(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        probe = {"exec": {"command": ["check"]}, "periodSeconds": 2, "failureThreshold": 2}
        harness.runtime.command_results["check"] = (1, b"not yet")
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "900", readinessProbe=probe)))
            unready = await harness.when("p", runs())
            await asyncio.sleep(20)
            harness.runtime.command_results["check"] = (0, b"")
            good = await harness.when("p", ready(True))
            harness.runtime.command_results["check"] = (1, b"")
            await harness.when("p", ready(False))
            events = await harness.events("Unhealthy")

        assert unready["status"]["phase"] == "Running"
        assert condition(unready, "Ready")["message"] == "containers with unready status: [main]"
        assert condition(good, "Ready")["status"] == "True"
        assert "Readiness probe failed: not yet" in events

    in_virtual_time(scenario, tmp_path)


def test_a_container_with_a_failed_liveness_probe_is_restarted(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        probe = {
            "exec": {"command": ["check"]},
            "initialDelaySeconds": 5,
            "periodSeconds": 1,
            "failureThreshold": 3,
        }
        container = a_container("main", "sh", "-c", "trap '' TERM; sleep 900", livenessProbe=probe)
        harness.runtime.command_results["check"] = (1, b"")
        async with harness.agent():
            await harness.create(a_pod("p", container, restartPolicy="OnFailure"))
            again = await harness.when("p", runs(restarts=1))
            events = await harness.events("Killing")

        last = container_status(again)["lastState"]["terminated"]
        # 5 s delay, 3 results, 5 s grace period.
        assert last["finishedAt"] == "2026-01-01T00:00:12Z"
        assert [number for _, number in harness.runtime.signals] == [signal.SIGTERM, signal.SIGKILL]
        assert events == ["Container main failed liveness probe, will be restarted"]

    in_virtual_time(scenario, tmp_path)


def test_a_failed_liveness_probe_fails_a_pod_with_restart_policy_never(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "900", livenessProbe=probe)))
            done = await harness.when("p", phase("Failed"))

        assert state(done)["terminated"]["exitCode"] == 143

    in_virtual_time(scenario, tmp_path)


def test_other_probes_wait_for_the_startup_probe(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        startup = {"exec": {"command": ["startup"]}, "periodSeconds": 1, "failureThreshold": 100}
        liveness = {"exec": {"command": ["liveness"]}, "periodSeconds": 1, "failureThreshold": 1}
        harness.runtime.command_results = {"startup": (1, b""), "liveness": (0, b"")}
        container = a_container("main", "sleep", "900", startupProbe=startup, livenessProbe=liveness)
        async with harness.agent():
            await harness.create(a_pod("p", container))
            starting = await harness.when("p", runs())
            await asyncio.sleep(10)
            assert {argv[0] for _, argv in harness.runtime.executed} == {"startup"}
            harness.runtime.command_results["startup"] = (0, b"")
            started = await harness.when("p", lambda pod: bool(container_status(pod)["started"]))
            await asyncio.sleep(2)

        assert container_status(starting)["started"] is False
        assert container_status(started)["ready"] is True
        assert "liveness" in {argv[0] for _, argv in harness.runtime.executed}

    in_virtual_time(scenario, tmp_path)


def test_a_probe_that_times_out_has_failed(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        probe = {"exec": {"command": ["sleep", "60"]}, "timeoutSeconds": 2, "failureThreshold": 1}
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "900", livenessProbe=probe)))
            done = await harness.when("p", phase("Failed"))

        assert state(done)["terminated"]["finishedAt"] == "2026-01-01T00:00:02Z"

    in_virtual_time(scenario, tmp_path)


def test_readiness_survives_a_restart_of_the_agent(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        probe = {"exec": {"command": ["true"]}, "initialDelaySeconds": 30}
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "900", readinessProbe=probe)))
            await harness.when("p", ready(True))
        writes = harness.store.status_writes
        async with harness.agent():
            await asyncio.sleep(60)

        assert harness.store.status_writes == writes

    in_virtual_time(scenario, tmp_path)


def test_a_container_is_not_ready_before_its_probe_succeeds(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        probe = {"exec": {"command": ["true"]}, "initialDelaySeconds": 30}
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "900", readinessProbe=probe)))
            await harness.when("p", runs())
            await asyncio.sleep(29)
            assert container_status(await harness.pod("p"))["ready"] is False
            await harness.when("p", ready(True))

    in_virtual_time(scenario, tmp_path)


def test_a_container_may_be_killed_by_its_probe_repeatedly(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2}
        async with harness.agent():
            pod = a_pod("p", a_container("main", "sleep", "900", livenessProbe=probe), restartPolicy="Always")
            await harness.create(pod)
            running = await harness.when("p", runs(restarts=2))

        assert container_status(running)["lastState"]["terminated"]["exitCode"] == 143

    in_virtual_time(scenario, tmp_path)


def test_an_agent_restart_repeats_neither_hooks_nor_delays(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        container = a_container(
            "main",
            *("sleep", "900"),
            lifecycle={"postStart": {"exec": {"command": ["hook"]}}},
            livenessProbe={"exec": {"command": ["alive"]}, "initialDelaySeconds": 30},
        )
        harness.runtime.command_results = {"hook": (0, b""), "alive": (0, b"")}
        async with harness.agent():
            await harness.create(a_pod("p", container))
            await harness.when("p", ready(True))
        await asyncio.sleep(40)
        async with harness.agent():
            await asyncio.sleep(1)

        assert [argv[0] for _, argv in harness.runtime.executed] == ["hook", "alive"]

    in_virtual_time(scenario, tmp_path)


def test_a_failed_post_start_hook_kills_the_container(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        hook = {"postStart": {"exec": {"command": ["false"]}}}
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "900", lifecycle=hook)))
            await harness.when("p", phase("Failed"))
            assert await harness.events("FailedPostStartHook")

    in_virtual_time(scenario, tmp_path)


def test_the_pre_stop_hook_runs_before_sigterm(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        hook = {"preStop": {"sleep": {"seconds": 3}}}
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "900", lifecycle=hook)))
            await harness.when("p", runs())
            await harness.store.delete(PODS, "default", "p")
            last = await harness.wait_until_deleted("p")

        assert state(last)["terminated"]["exitCode"] == 143
        assert state(last)["terminated"]["finishedAt"] == "2026-01-01T00:00:03Z"

    in_virtual_time(scenario, tmp_path)


def test_a_pre_stop_hook_that_uses_up_the_grace_period_leaves_two_seconds(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        hook = {"preStop": {"exec": {"command": ["sleep", "600"]}}}
        container = a_container("main", "sh", "-c", "trap '' TERM; sleep 900", lifecycle=hook)
        async with harness.agent():
            await harness.create(a_pod("p", container))
            await harness.when("p", runs())
            await harness.store.delete(PODS, "default", "p")
            last = await harness.wait_until_deleted("p")
            assert await harness.events("FailedPreStopHook")

        assert state(last)["terminated"]["exitCode"] == 137
        assert state(last)["terminated"]["finishedAt"] in ("2026-01-01T00:00:07Z", "2026-01-01T00:00:08Z")

    in_virtual_time(scenario, tmp_path)


async def handler_runner(**ports: int) -> HandlerRunner:
    runtime = FakeRuntime(lambda: 0.0)
    run = RunId("u.c.0")
    await runtime.start_container(ContainerConfig(run, "", ["true"], {}, Path("log")))
    spec = {"ports": [{"name": name, "containerPort": port} for name, port in ports.items()]}
    return HandlerRunner(runtime, run, spec, "127.0.0.1")


@pytest.fixture
async def server() -> Any:
    async def answer(request: web.Request) -> web.Response:
        status = request.headers.get("X-Wanted", "200")
        return web.Response(status=int(status))

    app = web.Application()
    app.router.add_get("/health", answer)
    server = TestServer(app)
    await server.start_server()
    yield server
    await server.close()


@pytest.mark.parametrize(("status", "good"), [("200", True), ("399", True), ("400", False), ("503", False)])
async def test_an_http_response_below_400_is_a_success(server: TestServer, status: str, good: bool) -> None:
    headers = [{"name": "X-Wanted", "value": status}]
    action = {"httpGet": {"path": "/health", "port": "web", "httpHeaders": headers}}

    outcome = await (await handler_runner(web=server.port or 0)).run_action(action, 5.0)

    assert outcome.succeeded is good
    assert good or f"statuscode: {status}" in outcome.output


async def test_a_tcp_probe_succeeds_if_the_port_is_open(server: TestServer) -> None:
    reached = await handler_runner()

    assert (await reached.run_action({"tcpSocket": {"port": server.port}}, 5.0)).succeeded
    assert not (await reached.run_action({"tcpSocket": {"port": unused_port()}}, 5.0)).succeeded
    assert not (await reached.run_action({"httpGet": {"port": unused_port()}}, 5.0)).succeeded
    assert (
        "no port of the container" in (await reached.run_action({"tcpSocket": {"port": "nope"}}, 5.0)).output
    )
