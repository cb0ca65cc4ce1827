"""Variables with names or addresses of the peers of a task."""

import pytest

from launcher.core.pods.peer_variables import (
    RolePeers,
    first_ranks,
    host_variables,
    master_variables,
    rank_variables,
    tf_config,
    tf_config_of,
    world_size,
)
from launcher.core.spec import FrameworkSpec, RoleName, TaskRole

WORKER, PS, MASTER = RoleName("worker"), RoleName("ps"), RoleName("master")


def a_spec(**tasks: int) -> FrameworkSpec:
    """Roles with these numbers of tasks; TensorBoard is a background role."""
    return FrameworkSpec(
        tuple(
            TaskRole(RoleName(name), number, {}, background=name == "tensorboard")
            for name, number in tasks.items()
        )
    )


@pytest.mark.parametrize(
    ("tasks", "ranks"),
    [
        pytest.param({"worker": 2, "master": 1}, {"master": 0, "worker": 1}, id="the master is first"),
        pytest.param({"ps": 2, "worker": 3}, {"ps": 0, "worker": 2}, id="otherwise in the order of the spec"),
        pytest.param({"tensorboard": 1, "worker": 3}, {"worker": 0}, id="background roles have no ranks"),
    ],
)
def test_ranks_continue_over_all_roles(tasks: dict[str, int], ranks: dict[str, int]) -> None:
    assert first_ranks(a_spec(**tasks)) == ranks


def test_the_world_size_counts_all_tasks_except_background_ones() -> None:
    assert world_size(a_spec(master=1, worker=3, tensorboard=1)) == 4


def test_ranks_are_set_for_pytorch_and_torchrun() -> None:
    assert dict(rank_variables("2", 3)) == {
        "WORLD_SIZE": "3",
        "RANK": "2",
        "PET_NNODES": "3",
        "PET_NODE_RANK": "2",
    }


def test_the_task_with_rank_0_is_the_master() -> None:
    peers = [RolePeers(MASTER, ["a"], [None]), RolePeers(WORKER, ["b"], [7])]

    assert dict(master_variables(peers)) == {
        "MASTER_ADDR": "a",
        "MASTER_PORT": "23456",
        "PET_MASTER_ADDR": "a",
        "PET_MASTER_PORT": "23456",
    }
    assert dict(master_variables(peers[1:]))["MASTER_PORT"] == "7"
    assert dict(master_variables([RolePeers(MASTER, [], []), *peers[1:]]))["MASTER_ADDR"] == "b"


def test_every_role_is_listed_with_its_known_ports() -> None:
    peers = [
        RolePeers(WORKER, ["a", "b"], [7, 8]),
        RolePeers(PS, ["c"], [None]),
        RolePeers(RoleName("2nd"), ["d"], [1]),
    ]

    assert dict(host_variables(peers)) == {"WORKER_HOSTS": "a:7,b:8", "PS_HOSTS": "c"}


def test_tf_config_equals_that_of_the_training_operator() -> None:
    cluster = {
        "worker": ["dist-worker-0.ns1.svc:2222", "dist-worker-1.ns1.svc:2222"],
        "ps": ["dist-ps-0.ns1.svc:2222"],
        "chief": ["dist-chief-0.ns1.svc:2222"],
    }

    assert tf_config(cluster, "worker", 1) == (
        '{"cluster":{"chief":["dist-chief-0.ns1.svc:2222"],"ps":["dist-ps-0.ns1.svc:2222"],'
        '"worker":["dist-worker-0.ns1.svc:2222","dist-worker-1.ns1.svc:2222"]},'
        '"task":{"type":"worker","index":1},"environment":"cloud"}'
    )


def test_tf_config_contains_the_roles_of_tensorflow() -> None:
    peers = [RolePeers(WORKER, ["a", "b"], [None, 7]), RolePeers(RoleName("logger"), ["c"], [1])]

    assert tf_config_of(peers, WORKER, 0) == (
        '{"cluster":{"worker":["a:2222","b:7"]},"task":{"type":"worker","index":0},"environment":"cloud"}'
    )
    assert tf_config_of(peers, RoleName("logger"), 0) is None


def test_a_single_task_has_no_tf_config() -> None:
    assert tf_config_of([RolePeers(WORKER, ["a"], [1])], WORKER, 0) is None
