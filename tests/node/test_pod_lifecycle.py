"""What a pod needs next, from what is known of its containers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.node.pods.container_state import ContainerExit, ContainerState, RunState
from launcher.node.pods.pod_lifecycle import PodState, RestartBackoff, compute_pod_actions, phase_of
from launcher.node.pods.pod_spec import Container, ContainerRole, RestartPolicy

NOW = 1000.0
POLICIES = tuple(RestartPolicy)

NEW = ContainerState()
RUNNING = ContainerState(RunState(0, 0.0), started=True, ready=True)
STARTING = ContainerState(RunState(0, 0.0))


def ended(code: int, *, at: float = NOW, started: float = NOW - 1, restart: int = 0) -> ContainerState:
    return ContainerState(
        RunState(restart, started, ContainerExit(code, "Error" if code else "Completed", at)), streak=restart
    )


def a_pod(
    policy: RestartPolicy = RestartPolicy.NEVER, *, ending: bool = False, **records: ContainerState
) -> PodState:
    """Containers by name: those that begin with ``i`` initialize, those with ``s`` are sidecars."""
    roles = {"i": ContainerRole.INIT, "s": ContainerRole.SIDECAR}
    containers = [Container(name, roles.get(name[0], ContainerRole.MAIN), {}) for name in records]
    return PodState(containers, records, policy, ending)


def names(containers: tuple[Container, ...]) -> list[str]:
    return [one.name for one in containers]


@pytest.mark.parametrize(
    ("situation", "started"),
    [
        pytest.param(a_pod(m1=NEW, m2=NEW), ["m1", "m2"], id="main containers start side by side"),
        pytest.param(a_pod(i1=NEW, i2=NEW, m=NEW), ["i1"], id="the first init container starts alone"),
        pytest.param(a_pod(i1=RUNNING, i2=NEW, m=NEW), [], id="the next waits for it"),
        pytest.param(a_pod(i1=ended(0), i2=NEW, m=NEW), ["i2"], id="and starts when it has succeeded"),
        pytest.param(a_pod(i1=ended(0), i2=ended(0), m=NEW), ["m"], id="then come the main containers"),
        pytest.param(
            a_pod(s=STARTING, i=NEW, m=NEW), [], id="a sidecar that has not started holds up the rest"
        ),
        pytest.param(a_pod(s=RUNNING, i=NEW, m=NEW), ["i"], id="one that has started does not"),
        pytest.param(
            a_pod(s=ended(1), i=NEW, m=NEW), ["s"], id="one that ended too early starts again first"
        ),
        pytest.param(
            a_pod(s=ended(0), m=RUNNING), ["s"], id="a sidecar always runs again, whatever the policy"
        ),
        pytest.param(a_pod(i=NEW, m=RUNNING), [], id="nothing initializes once the main containers run"),
        pytest.param(a_pod(m1=ended(0), m2=RUNNING), [], id="what ended for good stays so"),
        pytest.param(a_pod(RestartPolicy.ALWAYS, m=ended(0)), ["m"], id="Always runs again after a success"),
        pytest.param(a_pod(RestartPolicy.ON_FAILURE, m=ended(1)), ["m"], id="OnFailure after a failure"),
        pytest.param(a_pod(RestartPolicy.ON_FAILURE, m1=ended(0), m2=RUNNING), [], id="not after a success"),
        pytest.param(
            a_pod(RestartPolicy.ALWAYS, i=ended(1), m=NEW), ["i"], id="a failed init container runs again"
        ),
        pytest.param(a_pod(RestartPolicy.ALWAYS, i=ended(0), m=NEW), ["m"], id="one that succeeded does not"),
        pytest.param(a_pod(ending=True, m=NEW), [], id="nothing starts in a pod that ends"),
    ],
)
def test_what_starts_next(situation: PodState, started: list[str]) -> None:
    assert names(compute_pod_actions(situation, NOW).start) == started


@pytest.mark.parametrize(
    ("situation", "stopped"),
    [
        pytest.param(
            a_pod(m1=RUNNING, m2=RUNNING, ending=True), ["m1", "m2"], id="all main containers at once"
        ),
        pytest.param(
            a_pod(s1=RUNNING, s2=RUNNING, m=RUNNING, ending=True), ["m"], id="sidecars wait for them"
        ),
        pytest.param(
            a_pod(s1=RUNNING, s2=RUNNING, m=ended(0), ending=True), ["s2"], id="then the last goes first"
        ),
        pytest.param(
            a_pod(s1=RUNNING, s2=ended(0), m=ended(0)), ["s1"], id="also when the pod is simply done"
        ),
        pytest.param(a_pod(s=RUNNING, i=ended(1), m=NEW), ["s"], id="and when an init container has failed"),
        pytest.param(
            a_pod(i=RUNNING, m=NEW, ending=True), ["i"], id="an init container is ended like others"
        ),
        pytest.param(a_pod(s=RUNNING, m=RUNNING), [], id="nothing is ended without need"),
    ],
)
def test_what_is_stopped_next(situation: PodState, stopped: list[str]) -> None:
    assert names(compute_pod_actions(situation, NOW).stop) == stopped


@pytest.mark.parametrize(
    ("situation", "phase"),
    [
        pytest.param(a_pod(m=ended(0)), "Succeeded", id="all succeeded"),
        pytest.param(a_pod(m1=ended(0), m2=ended(1)), "Failed", id="one failed"),
        pytest.param(a_pod(i=ended(1), m=NEW), "Failed", id="an init container failed"),
        pytest.param(a_pod(s=ended(143), m=ended(0)), "Succeeded", id="how a sidecar ended does not count"),
        pytest.param(
            a_pod(RestartPolicy.ALWAYS, m=ended(0), ending=True), "Succeeded", id="deleted, and succeeded"
        ),
        pytest.param(
            a_pod(RestartPolicy.ALWAYS, m=ended(143), ending=True), "Failed", id="deleted, and killed"
        ),
        pytest.param(a_pod(m=NEW, ending=True), "Failed", id="deleted before it ran"),
    ],
)
def test_how_a_pod_is_over(situation: PodState, phase: str) -> None:
    assert compute_pod_actions(situation, NOW).over
    assert phase_of(situation, over=True) == phase


@pytest.mark.parametrize(
    ("situation", "phase"),
    [
        pytest.param(a_pod(m=NEW), "Pending", id="nothing has started"),
        pytest.param(a_pod(i=RUNNING, m=NEW), "Pending", id="it initializes"),
        pytest.param(a_pod(m1=RUNNING, m2=NEW), "Pending", id="one container has never started"),
        pytest.param(a_pod(m1=RUNNING, m2=ended(1)), "Running", id="one still runs"),
        pytest.param(a_pod(RestartPolicy.ALWAYS, m=ended(1)), "Running", id="it will run again"),
        pytest.param(
            a_pod(RestartPolicy.ON_FAILURE, i=ended(1), m=NEW), "Pending", id="it will initialize again"
        ),
        pytest.param(a_pod(s=RUNNING, m=ended(0)), "Running", id="a sidecar is still to be ended"),
        pytest.param(
            a_pod(s=RUNNING, i=ended(1), m=NEW), "Pending", id="a sidecar of a pod that failed to initialize"
        ),
    ],
)
def test_the_phase_of_a_pod_that_is_not_over(situation: PodState, phase: str) -> None:
    assert phase_of(situation, over=False) == phase


@pytest.mark.parametrize(
    ("restart", "pause"), [(0, 0), (1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 300), (1000, 300)]
)
def test_the_pause_grows_with_each_restart(restart: int, pause: float) -> None:
    situation = a_pod(RestartPolicy.ALWAYS, m=ended(1, restart=restart))

    before, after = (
        compute_pod_actions(situation, NOW + pause - 0.5),
        compute_pod_actions(situation, NOW + pause),
    )

    assert names(after.start) == ["m"]
    if pause:
        assert before.start == ()
        assert before.look_again == NOW + pause
        assert [(one.name, given) for one, given in before.pausing] == [("m", pause)]


def test_a_long_run_makes_the_next_pause_short_again() -> None:
    record = ended(1, restart=5, started=NOW - 600)

    assert RestartBackoff().pause(record) == 0
    assert RestartBackoff().pause(replace(record, attempt=RunState(5, NOW - 599, record.ended))) == 160


def test_a_start_that_was_hindered_is_tried_again_when_it_is_due() -> None:
    situation = a_pod(m=ContainerState(not_before=NOW + 5))

    assert compute_pod_actions(situation, NOW).look_again == NOW + 5
    assert names(compute_pod_actions(situation, NOW + 5).start) == ["m"]


def test_a_restart_that_was_hindered_is_tried_again_when_it_is_due() -> None:
    situation = a_pod(RestartPolicy.ALWAYS, m=replace(ended(1), not_before=NOW + 5))

    assert compute_pod_actions(situation, NOW).start == ()
    assert compute_pod_actions(situation, NOW).pausing == ()
    assert names(compute_pod_actions(situation, NOW + 5).start) == ["m"]


RECORDS = st.one_of(
    st.sampled_from([NEW, RUNNING, STARTING]),
    st.builds(ended, st.sampled_from([0, 1, 137]), restart=st.integers(0, 3)),
)


@given(
    st.dictionaries(st.sampled_from(["i1", "i2", "s1", "s2", "m1", "m2"]), RECORDS, min_size=1),
    st.sampled_from(POLICIES),
    st.booleans(),
)
def test_every_pod_gets_on(records: dict[str, ContainerState], policy: RestartPolicy, ending: bool) -> None:
    """Unless it is over, something runs, starts, ends or is looked at again; what is over neither runs nor starts."""
    ordered = {name: records[name] for name in sorted(records, key=lambda name: ("isis".find(name[0]), name))}
    situation = a_pod(policy, ending=ending, **ordered)
    todo = compute_pod_actions(situation, NOW)
    running = any(record.running for record in records.values())

    if todo.over:
        assert not running
        assert not todo.start
    else:
        assert running or todo.start or todo.stop or todo.look_again is not None
    assert all(records[one.name].running for one in todo.stop)
    assert not any(records[one.name].running for one in todo.start)
    assert not (todo.start and ending)
