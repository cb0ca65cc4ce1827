"""The actions that follow from the states of a pod's containers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.planning.retry import RetryBackoff
from launcher.node.container_runtime import ExitStatus
from launcher.node.pods.container_state import ContainerState, RunState
from launcher.node.pods.pod_lifecycle import PodState, RestartBackoff, compute_pod_actions, pod_phase
from launcher.node.pods.pod_spec import Container, ContainerRole, RestartPolicy

NOW = 1000.0
POLICIES = tuple(RestartPolicy)

NEW = ContainerState()
RUNNING = ContainerState(RunState(0, 0.0), started=True, ready=True)
STARTING = ContainerState(RunState(0, 0.0))


def ended(code: int, *, at: float = NOW, started: float = NOW - 1, restart: int = 0) -> ContainerState:
    return ContainerState(
        RunState(restart, started, ExitStatus(code, "Error" if code else "Completed", at)),
        consecutive_restarts=restart,
    )


def a_pod_state(
    policy: RestartPolicy = RestartPolicy.NEVER, *, ending: bool = False, **records: ContainerState
) -> PodState:
    """Containers by name: ``i…`` are init containers, ``s…`` sidecars."""
    roles = {"i": ContainerRole.INIT, "s": ContainerRole.SIDECAR}
    containers = [Container(name, roles.get(name[0], ContainerRole.MAIN), {}) for name in records]
    return PodState(containers, records, policy, ending)


def names(containers: tuple[Container, ...]) -> list[str]:
    return [one.name for one in containers]


@pytest.mark.parametrize(
    ("pod_state", "started"),
    [
        pytest.param(a_pod_state(m1=NEW, m2=NEW), ["m1", "m2"], id="main containers start concurrently"),
        pytest.param(a_pod_state(i1=NEW, i2=NEW, m=NEW), ["i1"], id="the first init container starts alone"),
        pytest.param(a_pod_state(i1=RUNNING, i2=NEW, m=NEW), [], id="the next waits for it"),
        pytest.param(a_pod_state(i1=ended(0), i2=NEW, m=NEW), ["i2"], id="and starts when it has succeeded"),
        pytest.param(
            a_pod_state(i1=ended(0), i2=ended(0), m=NEW), ["m"], id="then the main containers start"
        ),
        pytest.param(
            a_pod_state(s=STARTING, i=NEW, m=NEW), [], id="a sidecar that has not started blocks the rest"
        ),
        pytest.param(a_pod_state(s=RUNNING, i=NEW, m=NEW), ["i"], id="a started sidecar does not block"),
        pytest.param(
            a_pod_state(s=ended(1), i=NEW, m=NEW), ["s"], id="a sidecar that ended early is restarted first"
        ),
        pytest.param(a_pod_state(s=ended(0), m=RUNNING), ["s"], id="a sidecar is restarted with any policy"),
        pytest.param(
            a_pod_state(i=NEW, m=RUNNING), [], id="nothing initializes once the main containers run"
        ),
        pytest.param(a_pod_state(m1=ended(0), m2=RUNNING), [], id="a completed container is not restarted"),
        pytest.param(
            a_pod_state(RestartPolicy.ALWAYS, m=ended(0)), ["m"], id="Always restarts after a success"
        ),
        pytest.param(
            a_pod_state(RestartPolicy.ON_FAILURE, m=ended(1)), ["m"], id="OnFailure after a failure"
        ),
        pytest.param(
            a_pod_state(RestartPolicy.ON_FAILURE, m1=ended(0), m2=RUNNING), [], id="not after a success"
        ),
        pytest.param(
            a_pod_state(RestartPolicy.ALWAYS, i=ended(1), m=NEW),
            ["i"],
            id="a failed init container is restarted",
        ),
        pytest.param(
            a_pod_state(RestartPolicy.ALWAYS, i=ended(0), m=NEW),
            ["m"],
            id="a succeeded init container is not restarted",
        ),
        pytest.param(a_pod_state(ending=True, m=NEW), [], id="nothing starts in a pod that ends"),
    ],
)
def test_the_containers_that_start_next(pod_state: PodState, started: list[str]) -> None:
    assert names(compute_pod_actions(pod_state, NOW).start) == started


@pytest.mark.parametrize(
    ("pod_state", "stopped"),
    [
        pytest.param(
            a_pod_state(m1=RUNNING, m2=RUNNING, ending=True), ["m1", "m2"], id="all main containers at once"
        ),
        pytest.param(
            a_pod_state(s1=RUNNING, s2=RUNNING, m=RUNNING, ending=True), ["m"], id="sidecars wait for them"
        ),
        pytest.param(
            a_pod_state(s1=RUNNING, s2=RUNNING, m=ended(0), ending=True),
            ["s2"],
            id="then the last sidecar stops first",
        ),
        pytest.param(
            a_pod_state(s1=RUNNING, s2=ended(0), m=ended(0)),
            ["s1"],
            id="also when the main containers completed",
        ),
        pytest.param(
            a_pod_state(s=RUNNING, i=ended(1), m=NEW), ["s"], id="and when an init container has failed"
        ),
        pytest.param(
            a_pod_state(i=RUNNING, m=NEW, ending=True), ["i"], id="an init container is stopped like others"
        ),
        pytest.param(
            a_pod_state(s=RUNNING, m=RUNNING), [], id="running containers of an active pod continue"
        ),
    ],
)
def test_the_containers_that_stop_next(pod_state: PodState, stopped: list[str]) -> None:
    assert names(compute_pod_actions(pod_state, NOW).stop) == stopped


@pytest.mark.parametrize(
    ("pod_state", "phase"),
    [
        pytest.param(a_pod_state(m=ended(0)), "Succeeded", id="all succeeded"),
        pytest.param(a_pod_state(m1=ended(0), m2=ended(1)), "Failed", id="one failed"),
        pytest.param(a_pod_state(i=ended(1), m=NEW), "Failed", id="an init container failed"),
        pytest.param(
            a_pod_state(s=ended(143), m=ended(0)), "Succeeded", id="the exit code of a sidecar does not count"
        ),
        pytest.param(
            a_pod_state(RestartPolicy.ALWAYS, m=ended(0), ending=True),
            "Succeeded",
            id="deleted, and succeeded",
        ),
        pytest.param(
            a_pod_state(RestartPolicy.ALWAYS, m=ended(143), ending=True), "Failed", id="deleted, and killed"
        ),
        pytest.param(a_pod_state(m=NEW, ending=True), "Failed", id="deleted before it ran"),
    ],
)
def test_the_phase_of_a_terminated_pod(pod_state: PodState, phase: str) -> None:
    assert compute_pod_actions(pod_state, NOW).terminated
    assert pod_phase(pod_state, terminated=True) == phase


@pytest.mark.parametrize(
    ("pod_state", "phase"),
    [
        pytest.param(a_pod_state(m=NEW), "Pending", id="nothing has started"),
        pytest.param(a_pod_state(i=RUNNING, m=NEW), "Pending", id="it initializes"),
        pytest.param(a_pod_state(m1=RUNNING, m2=NEW), "Pending", id="one container has never started"),
        pytest.param(a_pod_state(m1=RUNNING, m2=ended(1)), "Running", id="one still runs"),
        pytest.param(a_pod_state(RestartPolicy.ALWAYS, m=ended(1)), "Running", id="it will be restarted"),
        pytest.param(
            a_pod_state(RestartPolicy.ON_FAILURE, i=ended(1), m=NEW), "Pending", id="it will initialize again"
        ),
        pytest.param(a_pod_state(s=RUNNING, m=ended(0)), "Running", id="a sidecar has to be stopped"),
        pytest.param(
            a_pod_state(s=RUNNING, i=ended(1), m=NEW),
            "Pending",
            id="a sidecar of a pod that failed to initialize",
        ),
    ],
)
def test_the_phase_of_an_active_pod(pod_state: PodState, phase: str) -> None:
    assert pod_phase(pod_state, terminated=False) == phase


@pytest.mark.parametrize(
    ("restart", "pause"), [(0, 0), (1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 300), (1000, 300)]
)
def test_the_backoff_grows_with_each_restart(restart: int, pause: float) -> None:
    pod_state = a_pod_state(RestartPolicy.ALWAYS, m=ended(1, restart=restart))

    before, after = (
        compute_pod_actions(pod_state, NOW + pause - 0.5),
        compute_pod_actions(pod_state, NOW + pause),
    )

    assert names(after.start) == ["m"]
    if pause:
        assert before.start == ()
        assert before.recheck_at == NOW + pause
        assert [(one.name, given) for one, given in before.backing_off] == [("m", pause)]


def test_a_long_run_resets_the_backoff() -> None:
    state = ended(1, restart=5, started=NOW - 600)

    assert RestartBackoff().delay(state) == 0
    assert RestartBackoff().delay(replace(state, run=RunState(5, NOW - 599, state.exit))) == 160


def test_a_failed_start_is_retried_when_it_is_due() -> None:
    pod_state = a_pod_state(m=ContainerState(not_before=NOW + 5))

    assert compute_pod_actions(pod_state, NOW).recheck_at == NOW + 5
    assert names(compute_pod_actions(pod_state, NOW + 5).start) == ["m"]


def test_a_failed_restart_is_retried_when_it_is_due() -> None:
    pod_state = a_pod_state(RestartPolicy.ALWAYS, m=replace(ended(1), not_before=NOW + 5))

    assert compute_pod_actions(pod_state, NOW).start == ()
    assert compute_pod_actions(pod_state, NOW).backing_off == ()
    assert names(compute_pod_actions(pod_state, NOW + 5).start) == ["m"]


RECORDS = st.one_of(
    st.sampled_from([NEW, RUNNING, STARTING]),
    st.builds(ended, st.sampled_from([0, 1, 137]), restart=st.integers(0, 3)),
)


@given(
    st.dictionaries(st.sampled_from(["i1", "i2", "s1", "s2", "m1", "m2"]), RECORDS, min_size=1),
    st.sampled_from(POLICIES),
    st.booleans(),
)
def test_every_active_pod_makes_progress(
    records: dict[str, ContainerState], policy: RestartPolicy, ending: bool
) -> None:
    """An active pod has a running, starting or stopping container, or a recheck; a terminated one has none."""
    ordered = {name: records[name] for name in sorted(records, key=lambda name: ("isis".find(name[0]), name))}
    pod_state = a_pod_state(policy, ending=ending, **ordered)
    todo = compute_pod_actions(pod_state, NOW)
    running = any(state.running for state in records.values())

    if todo.terminated:
        assert not running
        assert not todo.start
    else:
        assert running or todo.start or todo.stop or todo.recheck_at is not None
    assert all(records[one.name].running for one in todo.stop)
    assert not any(records[one.name].running for one in todo.start)
    assert not (todo.start and ending)


@pytest.mark.parametrize("restarts", range(12))
def test_containers_are_restarted_after_the_delays_of_task_retries(restarts: int) -> None:
    state = ContainerState(consecutive_restarts=restarts)

    assert RestartBackoff().delay(state) == RetryBackoff().delay(restarts)
