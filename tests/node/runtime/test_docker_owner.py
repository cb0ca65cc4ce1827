"""The owners of containers that end with their launcher."""

import os
import subprocess

from launcher.node.runtime.docker_owner import has_ended, own_process


def test_a_running_process_has_not_ended() -> None:
    assert not has_ended(own_process())


def test_a_process_that_does_not_exist_has_ended() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait(30)
    scope, _, start_time = own_process().split(" ")

    assert has_ended(f"{scope} {process.pid} {start_time}")


def test_another_process_with_the_same_id_is_not_the_owner() -> None:
    scope, _, _ = own_process().split(" ")

    assert has_ended(f"{scope} {os.getpid()} 1")


def test_nothing_is_known_of_a_process_of_another_machine() -> None:
    _, _, start_time = own_process().split(" ")

    assert not has_ended(f"other:1 1234567 {start_time}")
