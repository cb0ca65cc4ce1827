"""Probes and hooks: when a container counts as started and ready, and when it is ended for its own good."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from launcher.node.agent.handler_runner import HandlerRunner
from launcher.node.agent.probe_manager import Probe, Tally, probe_of
from launcher.node.container_runtime import ContainerConfig, RunId
from launcher.store.interface import PODS, Object
from tests.node.fake_runtime import FakeRuntime
from tests.node.world import World, a_container, a_pod, container_status, in_virtual_time, phase, runs, state


def ready(wanted: bool) -> Any:
    return lambda pod: (
        bool(pod["status"].get("containerStatuses")) and container_status(pod)["ready"] is wanted
    )


def condition(pod: Object, kind: str) -> Object:
    found: Object = next(one for one in pod["status"]["conditions"] if one["type"] == kind)
    return found


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        pytest.param([True], None, id="one good answer of two is too few"),
        pytest.param([True, True], True, id="two good answers in a row are enough"),
        pytest.param([True, False, True], None, id="a bad answer between them starts the count anew"),
        pytest.param([False, False], None, id="two bad answers of three are too few"),
        pytest.param([True, True, False, False, False], False, id="three bad answers in a row are enough"),
    ],
)
def test_enough_answers_in_a_row_decide(answers: list[bool], verdict: bool | None) -> None:
    tally = Tally(Probe({}, successes=2, failures=3))

    assert [tally.count(answer) for answer in answers][-1] is verdict


def test_a_probe_that_leaves_things_open_has_the_kubelets_defaults() -> None:
    probe = probe_of({"exec": {"command": ["x"]}, "failureThreshold": None})

    assert probe is not None
    assert (probe.delay, probe.period, probe.timeout, probe.successes, probe.failures) == (0, 10, 1, 1, 3)


def test_readiness_follows_its_probe_both_ways(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        probe = {"exec": {"command": ["check"]}, "periodSeconds": 2, "failureThreshold": 2}
        world.runtime.answers["check"] = (1, b"not yet")
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sleep", "900", readinessProbe=probe)))
            unready = await world.when("p", runs())
            await asyncio.sleep(20)
            world.runtime.answers["check"] = (0, b"")
            good = await world.when("p", ready(True))
            world.runtime.answers["check"] = (1, b"")
            await world.when("p", ready(False))
            events = await world.events("Unhealthy")

        assert unready["status"]["phase"] == "Running"
        assert condition(unready, "Ready")["message"] == "containers with unready status: [main]"
        assert condition(good, "Ready")["status"] == "True"
        assert "Readiness probe failed: not yet" in events

    in_virtual_time(scenario, tmp_path)


def test_a_container_that_is_not_alive_is_ended_and_runs_again(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        probe = {
            "exec": {"command": ["check"]},
            "initialDelaySeconds": 5,
            "periodSeconds": 1,
            "failureThreshold": 3,
        }
        container = a_container("main", "sh", "-c", "trap '' TERM; sleep 900", livenessProbe=probe)
        world.runtime.answers["check"] = (1, b"")
        async with world.agent():
            await world.create(a_pod("p", container, restartPolicy="OnFailure"))
            again = await world.when("p", runs(restarts=1))
            events = await world.events("Killing")

        last = container_status(again)["lastState"]["terminated"]
        # 5 s delay, 3 answers, 5 s grace.
        assert last["finishedAt"] == "2026-01-01T00:00:12Z"
        assert [number for _, number in world.runtime.signals] == [signal.SIGTERM, signal.SIGKILL]
        assert events == ["Container main failed liveness probe, will be restarted"]

    in_virtual_time(scenario, tmp_path)


def test_a_container_that_is_not_alive_ends_the_pod_that_runs_but_once(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sleep", "900", livenessProbe=probe)))
            done = await world.when("p", phase("Failed"))

        assert state(done)["terminated"]["exitCode"] == 143

    in_virtual_time(scenario, tmp_path)


def test_nothing_else_is_asked_until_a_container_has_started(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        startup = {"exec": {"command": ["startup"]}, "periodSeconds": 1, "failureThreshold": 100}
        liveness = {"exec": {"command": ["liveness"]}, "periodSeconds": 1, "failureThreshold": 1}
        world.runtime.answers = {"startup": (1, b""), "liveness": (0, b"")}
        container = a_container("main", "sleep", "900", startupProbe=startup, livenessProbe=liveness)
        async with world.agent():
            await world.create(a_pod("p", container))
            starting = await world.when("p", runs())
            await asyncio.sleep(10)
            assert {argv[0] for _, argv in world.runtime.executed} == {"startup"}
            world.runtime.answers["startup"] = (0, b"")
            started = await world.when("p", lambda pod: bool(container_status(pod)["started"]))
            await asyncio.sleep(2)

        assert container_status(starting)["started"] is False
        assert container_status(started)["ready"] is True
        assert "liveness" in {argv[0] for _, argv in world.runtime.executed}

    in_virtual_time(scenario, tmp_path)


def test_a_probe_that_takes_too_long_has_failed(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        probe = {"exec": {"command": ["sleep", "60"]}, "timeoutSeconds": 2, "failureThreshold": 1}
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sleep", "900", livenessProbe=probe)))
            done = await world.when("p", phase("Failed"))

        assert state(done)["terminated"]["finishedAt"] == "2026-01-01T00:00:02Z"

    in_virtual_time(scenario, tmp_path)


def test_a_probe_of_a_kind_that_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            probe = {"grpc": {"port": 1}}
            await world.create(a_pod("p", a_container("main", "sleep", "9", livenessProbe=probe)))
            [event] = await world.events("Failed")

        assert "livenessProbe.grpc" in event
        assert world.runtime.orders == []

    in_virtual_time(scenario, tmp_path)


def test_readiness_survives_a_restart_of_the_agent(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        probe = {"exec": {"command": ["true"]}, "initialDelaySeconds": 30}
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sleep", "900", readinessProbe=probe)))
            await world.when("p", ready(True))
        writes = world.store.status_writes
        async with world.agent():
            await asyncio.sleep(60)

        assert world.store.status_writes == writes

    in_virtual_time(scenario, tmp_path)


def test_a_container_is_not_ready_before_its_probe_says_so(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        probe = {"exec": {"command": ["true"]}, "initialDelaySeconds": 30}
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sleep", "900", readinessProbe=probe)))
            await world.when("p", runs())
            await asyncio.sleep(29)
            assert container_status(await world.pod("p"))["ready"] is False
            await world.when("p", ready(True))

    in_virtual_time(scenario, tmp_path)


def test_a_container_may_be_ended_for_its_own_good_more_than_once(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2}
        async with world.agent():
            pod = a_pod("p", a_container("main", "sleep", "900", livenessProbe=probe), restartPolicy="Always")
            await world.create(pod)
            running = await world.when("p", runs(restarts=2))

        assert container_status(running)["lastState"]["terminated"]["exitCode"] == 143

    in_virtual_time(scenario, tmp_path)


def test_hooks_and_delays_belong_to_the_start_and_not_to_the_agent(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        container = a_container(
            "main",
            *("sleep", "900"),
            lifecycle={"postStart": {"exec": {"command": ["hook"]}}},
            livenessProbe={"exec": {"command": ["alive"]}, "initialDelaySeconds": 30},
        )
        world.runtime.answers = {"hook": (0, b""), "alive": (0, b"")}
        async with world.agent():
            await world.create(a_pod("p", container))
            await world.when("p", ready(True))
        await asyncio.sleep(40)
        async with world.agent():
            await asyncio.sleep(1)

        assert [argv[0] for _, argv in world.runtime.executed] == ["hook", "alive"]

    in_virtual_time(scenario, tmp_path)


def test_a_hook_after_the_start_that_fails_ends_the_container(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        hook = {"postStart": {"exec": {"command": ["false"]}}}
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sleep", "900", lifecycle=hook)))
            await world.when("p", phase("Failed"))
            assert await world.events("FailedPostStartHook")

    in_virtual_time(scenario, tmp_path)


def test_a_hook_before_the_end_comes_before_the_signal(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        hook = {"preStop": {"sleep": {"seconds": 3}}}
        async with world.agent():
            await world.create(a_pod("p", a_container("main", "sleep", "900", lifecycle=hook)))
            await world.when("p", runs())
            await world.store.delete(PODS, "default", "p")
            last = await world.gone("p")

        assert state(last)["terminated"]["exitCode"] == 143
        assert state(last)["terminated"]["finishedAt"] == "2026-01-01T00:00:03Z"

    in_virtual_time(scenario, tmp_path)


def test_a_hook_that_takes_all_of_the_grace_leaves_two_seconds(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        hook = {"preStop": {"exec": {"command": ["sleep", "600"]}}}
        container = a_container("main", "sh", "-c", "trap '' TERM; sleep 900", lifecycle=hook)
        async with world.agent():
            await world.create(a_pod("p", container))
            await world.when("p", runs())
            await world.store.delete(PODS, "default", "p")
            last = await world.gone("p")
            assert await world.events("FailedPreStopHook")

        assert state(last)["terminated"]["exitCode"] == 137
        assert state(last)["terminated"]["finishedAt"] in ("2026-01-01T00:00:07Z", "2026-01-01T00:00:08Z")

    in_virtual_time(scenario, tmp_path)


async def reach(**ports: int) -> HandlerRunner:
    runtime = FakeRuntime(lambda: 0.0)
    run = RunId("u.c.0")
    await runtime.start(ContainerConfig(run, "", ["true"], {}, Path("log")))
    spec = {"ports": [{"name": name, "containerPort": port} for name, port in ports.items()]}
    return HandlerRunner(runtime, run, spec, "127.0.0.1")


@pytest.fixture
async def server() -> Any:
    async def answer(request: web.Request) -> web.Response:
        asked_for = request.headers.get("X-Wanted", "200")
        return web.Response(status=int(asked_for))

    app = web.Application()
    app.router.add_get("/health", answer)
    server = TestServer(app)
    await server.start_server()
    yield server
    await server.close()


@pytest.mark.parametrize(("status", "good"), [("200", True), ("399", True), ("400", False), ("503", False)])
async def test_an_http_answer_is_good_below_400(server: TestServer, status: str, good: bool) -> None:
    headers = [{"name": "X-Wanted", "value": status}]
    action = {"httpGet": {"path": "/health", "port": "web", "httpHeaders": headers}}

    outcome = await (await reach(web=server.port or 0)).do(action, 5.0)

    assert outcome.good is good
    assert good or f"statuscode: {status}" in outcome.output


async def test_a_port_is_open_or_not(server: TestServer) -> None:
    reached = await reach()

    assert (await reached.do({"tcpSocket": {"port": server.port}}, 5.0)).good
    assert not (await reached.do({"tcpSocket": {"port": unused_port()}}, 5.0)).good
    assert not (await reached.do({"httpGet": {"port": unused_port()}}, 5.0)).good
    assert "no port of the container" in (await reached.do({"tcpSocket": {"port": "nope"}}, 5.0)).output
