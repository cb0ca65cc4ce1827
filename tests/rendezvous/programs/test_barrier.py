"""FrameworkController's barrier: the rows I of the scenarios that concern the program."""

import json
import os
import signal
import subprocess

import pytest

from launcher.rendezvous.container_programs import program_text
from tests.eventually import TIMEOUT_SECONDS
from tests.rendezvous.programs.conftest import MakeImage, StartLauncher
from tests.rendezvous.programs.fake_launcher import ATTEMPT_PATH, FakeLauncher, FakeResponse
from tests.rendezvous.programs.image import HTTP_CLIENTS, ProgramImage

BARRIER = program_text("barrier.sh")
FRAMEWORK = json.dumps({"kind": "Framework", "metadata": {"name": "mnist"}})
INJECTOR = """#!/bin/bash
export FB_WORKER_IPS="10.0.0.1,10.0.0.2"
export FB_WORKER_ADDRESSES="10.0.0.1:${FB_WORKER_PORT},10.0.0.2:${FB_WORKER_PORT}"
"""
COMPLETE = FakeResponse(200, f"==> framework.json <==\n{FRAMEWORK}\n==> injector.sh <==\n{INJECTOR}")
MISSING = FakeResponse(202, '{"missing":["worker/1"],"message":"waiting for addresses of worker-1"}')


def environment(launcher: FakeLauncher, **others: str) -> dict[str, str]:
    variables = {
        "FC_FRAMEWORK_NAMESPACE": "default",
        "FC_FRAMEWORK_NAME": "mnist",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "0",
        "LAUNCHER_RENDEZVOUS": launcher.attempt_url,
        "LAUNCHER_TOKEN": launcher.token,
    }
    return {**variables, **others}


def barrier_with_short_limits() -> str:
    """The program with lower minimums of timeout and interval."""
    changed = BARRIER.replace('"$timeout" 60 1200', '"$timeout" 1 1200').replace(
        '"$interval" 5', '"$interval" 1'
    )
    assert len(changed) == len(BARRIER) - 1
    return changed


def run(image: ProgramImage, launcher: FakeLauncher, **others: str) -> subprocess.CompletedProcess[str]:
    return image.run(BARRIER, **environment(launcher, **others))


@pytest.mark.parametrize("http_client", HTTP_CLIENTS)
def test_i1_when_all_tasks_have_addresses_both_files_are_written(
    start_launcher: StartLauncher, make_image: MakeImage, shell: str, http_client: str
) -> None:
    launcher, image = start_launcher(COMPLETE), make_image(http_client, shell=shell)

    done = run(image, launcher)

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in image.directory.iterdir()}
    assert modes == {"framework.json": "0o644", "injector.sh": "0o755"}
    assert (image.directory / "framework.json").read_text() == FRAMEWORK + "\n"
    assert (image.directory / "injector.sh").read_text() == INJECTOR
    [request] = launcher.requests
    assert request.path == ATTEMPT_PATH
    assert request.query == {"format": "framework.json,injector.sh", "task": "worker/0", "wait": "300"}


def test_i2_after_the_timeout_with_missing_tasks_it_exits_with_201(
    start_launcher: StartLauncher, make_image: MakeImage
) -> None:
    launcher, image = start_launcher(MISSING), make_image("curl")

    done = image.run(barrier_with_short_limits(), **environment(launcher, BARRIER_CHECK_TIMEOUT_SEC="1"))

    assert done.returncode == 201
    assert done.stderr.endswith("barrier: timed out after 1s: waiting for addresses of worker-1\n")


@pytest.mark.parametrize("status", [403, 404])
def test_i3_without_the_framework_or_the_attempt_it_exits_with_210_at_once(
    start_launcher: StartLauncher, make_image: MakeImage, status: int
) -> None:
    launcher = start_launcher(FakeResponse(status, '{"message":"frameworks \\"mnist\\" not found"}'))

    done = run(make_image("curl"), launcher)

    assert (done.returncode, done.stderr) == (210, "barrier: frameworks 'mnist' not found\n")
    assert len(launcher.requests) == 1


def test_i4_if_the_last_request_before_the_timeout_failed_it_exits_with_1(
    start_launcher: StartLauncher, make_image: MakeImage
) -> None:
    launcher = start_launcher(MISSING, FakeResponse(500, '{"message":"the store is broken"}'))

    done = make_image("curl").run(
        barrier_with_short_limits(), **environment(launcher, BARRIER_CHECK_TIMEOUT_SEC="3")
    )

    assert done.returncode == 1
    assert done.stderr.endswith("barrier: timed out after 3s: the store is broken\n")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BARRIER_CHECK_INTERVAL_SEC", "4"),
        ("BARRIER_CHECK_INTERVAL_SEC", "ten"),
        ("BARRIER_CHECK_INTERVAL_SEC", "-10"),
        ("BARRIER_CHECK_INTERVAL_SEC", ""),
        ("BARRIER_CHECK_TIMEOUT_SEC", "59"),
        ("BARRIER_CHECK_TIMEOUT_SEC", "1201"),
        ("BARRIER_CHECK_TIMEOUT_SEC", "99999999999999999999"),
        ("BARRIER_CHECK_TIMEOUT_SEC", "6e2"),
        ("FC_FRAMEWORK_NAME", ""),
    ],
)
def test_i5_with_an_invalid_environment_it_exits_with_210(
    start_launcher: StartLauncher, make_image: MakeImage, shell: str, variable: str, value: str
) -> None:
    launcher = start_launcher(COMPLETE)

    done = run(make_image("curl", shell=shell), launcher, **{variable: value})

    assert done.returncode == 210
    assert variable in done.stderr
    assert launcher.requests == []


def test_the_limits_of_timeout_and_interval_are_valid(
    start_launcher: StartLauncher, make_image: MakeImage
) -> None:
    launcher, image = start_launcher(COMPLETE), make_image("curl")

    for timeout in ("60", "1200"):
        limits = {"BARRIER_CHECK_INTERVAL_SEC": "5", "BARRIER_CHECK_TIMEOUT_SEC": timeout}
        assert run(image, launcher, **limits).returncode == 0

    assert [request.query["wait"] for request in launcher.requests] == ["60", "300"]


def test_a_failed_request_is_retried(start_launcher: StartLauncher, make_image: MakeImage) -> None:
    launcher = start_launcher(FakeResponse(503), COMPLETE)

    done = make_image("curl").run(
        barrier_with_short_limits(), **environment(launcher, BARRIER_CHECK_INTERVAL_SEC="1")
    )

    assert (done.returncode, len(launcher.requests)) == (0, 2)


def test_the_address_and_the_credentials_of_the_cluster_are_ignored(
    start_launcher: StartLauncher, make_image: MakeImage
) -> None:
    done = run(
        make_image("curl"),
        start_launcher(COMPLETE),
        KUBE_APISERVER_ADDRESS="http://127.0.0.1:9",
        KUBECONFIG="/none",
    )

    assert done.returncode == 0
    assert "KUBE_APISERVER_ADDRESS and KUBECONFIG are ignored" in done.stderr


def test_a_file_that_cannot_be_written_is_named(start_launcher: StartLauncher, make_image: MakeImage) -> None:
    image = make_image("curl")
    (image.directory / "injector.sh").mkdir()
    (image.directory / "injector.sh" / "file").touch()

    done = run(image, start_launcher(COMPLETE))

    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert "injector.sh" in done.stderr


def test_outside_of_the_pods_of_the_launcher_it_names_the_missing_variable(
    start_launcher: StartLauncher, make_image: MakeImage
) -> None:
    done = run(make_image("curl"), start_launcher(COMPLETE), LAUNCHER_RENDEZVOUS="")

    assert done.returncode == 1
    assert "LAUNCHER_RENDEZVOUS is not set" in done.stderr


def test_it_exits_on_sigterm(start_launcher: StartLauncher, make_image: MakeImage) -> None:
    launcher, image = start_launcher(COMPLETE), make_image("curl")
    launcher.responding.clear()

    with image.start(BARRIER, **environment(launcher)) as process:
        assert launcher.requested.wait(TIMEOUT_SECONDS)
        os.kill(process.pid, signal.SIGTERM)

        assert process.wait(TIMEOUT_SECONDS) == 143
    assert list(image.directory.iterdir()) == []
