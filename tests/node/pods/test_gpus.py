"""The GPUs of containers: requests, allocation, environment."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.pods.resource_requests import total_requests
from launcher.node.pods.gpus import allocate_gpus, gpu_environment, ignored_gpu_variables, requested_gpus
from launcher.node.pods.pod_spec import ContainerRole, containers_of
from launcher.store.interface import Object
from tests.node.harness import a_container, a_pod


def with_gpus(name: str, gpus: int, **more: Any) -> Object:
    return a_container(name, resources={"limits": {"nvidia.com/gpu": gpus}}, **more)


def with_sidecar(name: str, gpus: int) -> Object:
    return with_gpus(name, gpus, restartPolicy="Always")


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        pytest.param({"limits": {"nvidia.com/gpu": 2}}, 2, id="a limit"),
        pytest.param({"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}, 1, id="both"),
        pytest.param({"limits": {"nvidia.com/gpu": 0}}, 0, id="zero"),
        pytest.param({"limits": {"cpu": 1, "amd.com/gpu": 1}}, 0, id="other resources"),
        pytest.param(None, 0, id="none"),
    ],
)
def test_gpus_are_requested_by_limits_or_requests(resources: Any, gpus: int) -> None:
    assert requested_gpus({"resources": resources}) == gpus


@pytest.mark.parametrize(
    ("init", "containers", "expected"),
    [
        pytest.param(
            [], [with_gpus("a", 2), with_gpus("b", 1)], {"a": ["0", "1"], "b": ["2"]}, id="each its own"
        ),
        pytest.param([], [with_gpus("a", 0), a_container("b")], {}, id="none"),
        pytest.param([], [with_gpus("a", 2), with_gpus("b", 2)], None, id="too many"),
        pytest.param(
            [with_gpus("i", 2), with_gpus("j", 1)],
            [with_gpus("a", 3)],
            {"i": ["0", "1"], "j": ["0"], "a": ["0", "1", "2"]},
            id="those of init containers are used again",
        ),
        pytest.param(
            [with_gpus("i", 2), with_sidecar("s", 1)],
            [with_gpus("a", 2)],
            {"i": ["0", "1"], "s": ["0"], "a": ["1", "2"]},
            id="a sidecar keeps its own",
        ),
    ],
)
def test_gpus_are_allocated_as_by_the_kubelet(
    init: list[Object], containers: list[Object], expected: Mapping[str, Sequence[str]] | None
) -> None:
    pod = a_pod("p", *containers, initContainers=init)

    assert allocate_gpus(containers_of(pod), ["0", "1", "2"]) == expected


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=4),
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
)
def test_what_the_scheduler_reserves_is_enough_and_running_containers_share_nothing(
    init: list[tuple[int, bool]], main: list[int]
) -> None:
    init_containers = [
        with_sidecar(f"i{number}", gpus) if is_sidecar else with_gpus(f"i{number}", gpus)
        for number, (gpus, is_sidecar) in enumerate(init)
    ]
    pod = a_pod(
        "p", *(with_gpus(f"m{i}", gpus) for i, gpus in enumerate(main)), initContainers=init_containers
    )
    spec = pod["spec"]
    reserved = (
        total_requests(spec["containers"], spec["initContainers"], spec).get("nvidia.com/gpu", 0) // 1000
    )

    allocation = allocate_gpus(containers_of(pod), [str(number) for number in range(reserved)])

    assert allocation is not None
    running: list[str] = []
    for container in containers_of(pod):
        gpus = allocation.get(container.name, ())
        assert len(gpus) == requested_gpus(container.spec)
        assert len({*running, *gpus}) == len(running) + len(gpus)
        if container.role is not ContainerRole.INIT:
            running += gpus


@pytest.mark.parametrize(
    ("own", "gpus", "expected"),
    [
        pytest.param({}, ["1", "3"], ("1,3", "1,3"), id="the allocated ones"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "0"}, ["1"], ("1", "1"), id="the spec does not change them"),
        pytest.param({}, [], ("", "void"), id="none without a request"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "0"}, [], ("0", None), id="selected by the spec"),
        pytest.param({"NVIDIA_VISIBLE_DEVICES": "all"}, [], (None, "all"), id="all by the spec"),
        pytest.param({"NVIDIA_VISIBLE_DEVICES": "1"}, [], ("1", "1"), id="one by the spec, as on a cluster"),
        pytest.param({"NVIDIA_VISIBLE_DEVICES": "none"}, [], ("", "none"), id="none by the spec"),
    ],
)
def test_variables_select_the_gpus(
    own: dict[str, str], gpus: Sequence[str], expected: tuple[str | None, str | None]
) -> None:
    values = {**own, **gpu_environment(a_container(), gpus, own)}

    assert (values.get("CUDA_VISIBLE_DEVICES"), values.get("NVIDIA_VISIBLE_DEVICES")) == expected
    assert ("CUDA_DEVICE_ORDER" in values) == bool(gpus)


@pytest.mark.parametrize("resource", ["amd.com/gpu", "nvidia.com/mig-1g.5gb"])
def test_gpus_that_are_not_allocated_stay_visible(resource: str) -> None:
    assert not gpu_environment(a_container(resources={"limits": {resource: 1}}), [], {})
    assert gpu_environment(a_container(resources={"limits": {resource: 0}}), [], {})


def test_overridden_variables_are_named() -> None:
    env = [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}, {"name": "A", "value": "b"}]
    pod = a_pod("p", with_gpus("a", 1, env=env), a_container("b", env=env))

    (sentence,) = ignored_gpu_variables(containers_of(pod))

    assert '"a": env CUDA_VISIBLE_DEVICES is ignored' in sentence
