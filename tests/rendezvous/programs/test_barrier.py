"""FrameworkController's barrier, as its users know it: the rows I of the scenarios that concern the program."""

import json
import os
import signal
import subprocess

import pytest

from launcher.rendezvous.programs import program
from tests.rendezvous.programs.conftest import MakeImage, Pretend
from tests.rendezvous.programs.image import ASKERS, Image
from tests.rendezvous.programs.pretended import ATTEMPT, Answer, Pretended

BARRIER = program("barrier.sh")
FRAMEWORK = json.dumps({"kind": "Framework", "metadata": {"name": "mnist"}})
INJECTOR = """#!/bin/bash
export FB_WORKER_IPS="10.0.0.1,10.0.0.2"
export FB_WORKER_ADDRESSES="10.0.0.1:${FB_WORKER_PORT},10.0.0.2:${FB_WORKER_PORT}"
"""
PASSED = Answer(200, f"==> framework.json <==\n{FRAMEWORK}\n==> injector.sh <==\n{INJECTOR}")
WAITING = Answer(202, '{"missing":["worker/1"],"message":"no address yet of worker/1"}')


def environment(launcher: Pretended, **others: str) -> dict[str, str]:
    given = {
        "FC_FRAMEWORK_NAMESPACE": "default",
        "FC_FRAMEWORK_NAME": "mnist",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "0",
        "LAUNCHER_RENDEZVOUS": launcher.attempt,
        "LAUNCHER_TOKEN": launcher.token,
    }
    return {**given, **others}


def hurried() -> str:
    """The program with other lowest limits: nobody waits a minute for a test."""
    changed = BARRIER.replace('"$timeout" 60 1200', '"$timeout" 1 1200').replace(
        '"$interval" 5', '"$interval" 1'
    )
    assert len(changed) == len(BARRIER) - 1
    return changed


def run(image: Image, launcher: Pretended, **others: str) -> subprocess.CompletedProcess[str]:
    return image.run(BARRIER, **environment(launcher, **others))


@pytest.mark.parametrize("asker", ASKERS)
def test_i1_once_all_have_addresses_both_files_are_written(
    pretend: Pretend, image: MakeImage, shell: str, asker: str
) -> None:
    launcher, here = pretend(PASSED), image(asker, shell=shell)

    done = run(here, launcher)

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in here.directory.iterdir()}
    assert modes == {"framework.json": "0o644", "injector.sh": "0o755"}
    assert (here.directory / "framework.json").read_text() == FRAMEWORK + "\n"
    assert (here.directory / "injector.sh").read_text() == INJECTOR
    [question] = launcher.questions
    assert question.path == ATTEMPT
    wanted = {"format": "framework.json,injector.sh", "task": "worker/0", "wait": "300"}
    assert question.query == wanted


def test_i2_when_the_time_is_up_with_somebody_missing_it_ends_with_201(
    pretend: Pretend, image: MakeImage
) -> None:
    launcher, here = pretend(WAITING), image("curl")

    done = here.run(hurried(), **environment(launcher, BARRIER_CHECK_TIMEOUT_SEC="1"))

    assert done.returncode == 201
    assert done.stderr.endswith("barrier: gave up after 1 s: no address yet of worker/1\n")


@pytest.mark.parametrize("status", [403, 404])
def test_i3_without_such_a_framework_or_attempt_it_ends_with_210_at_once(
    pretend: Pretend, image: MakeImage, status: int
) -> None:
    launcher = pretend(Answer(status, '{"message":"frameworks \\"mnist\\" not found"}'))

    done = run(image("curl"), launcher)

    assert (done.returncode, done.stderr) == (210, "barrier: frameworks 'mnist' not found\n")
    assert len(launcher.questions) == 1


def test_i4_when_the_last_answer_was_an_error_it_ends_with_1(pretend: Pretend, image: MakeImage) -> None:
    launcher, here = pretend(WAITING, Answer(500, '{"message":"the store is broken"}')), image("curl")

    done = here.run(hurried(), **environment(launcher, BARRIER_CHECK_TIMEOUT_SEC="3"))

    assert done.returncode == 1
    assert done.stderr.endswith("barrier: gave up after 3 s: the store is broken\n")


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
def test_i5_a_wrong_environment_ends_it_with_210(
    pretend: Pretend, image: MakeImage, shell: str, variable: str, value: str
) -> None:
    launcher = pretend(PASSED)

    done = run(image("curl", shell=shell), launcher, **{variable: value})

    assert done.returncode == 210
    assert variable in done.stderr
    assert launcher.questions == []


def test_its_bounds_are_fine(pretend: Pretend, image: MakeImage) -> None:
    launcher, here = pretend(PASSED), image("curl")

    for timeout in ("60", "1200"):
        fine = {"BARRIER_CHECK_INTERVAL_SEC": "5", "BARRIER_CHECK_TIMEOUT_SEC": timeout}
        assert run(here, launcher, **fine).returncode == 0

    assert [question.query["wait"] for question in launcher.questions] == ["60", "300"]


def test_after_a_failure_it_asks_again(pretend: Pretend, image: MakeImage) -> None:
    launcher = pretend(Answer(503), PASSED)

    done = image("curl").run(hurried(), **environment(launcher, BARRIER_CHECK_INTERVAL_SEC="1"))

    assert (done.returncode, len(launcher.questions)) == (0, 2)


def test_what_the_original_needed_of_the_cluster_is_not_needed(pretend: Pretend, image: MakeImage) -> None:
    done = run(
        image("curl"), pretend(PASSED), KUBE_APISERVER_ADDRESS="http://127.0.0.1:9", KUBECONFIG="/none"
    )

    assert done.returncode == 0
    assert "KUBE_APISERVER_ADDRESS and KUBECONFIG are not needed" in done.stderr


def test_what_cannot_be_written_is_named(pretend: Pretend, image: MakeImage) -> None:
    here = image("curl")
    (here.directory / "injector.sh").mkdir()
    (here.directory / "injector.sh" / "in the way").touch()

    done = run(here, pretend(PASSED))

    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert "injector.sh" in done.stderr


def test_outside_of_the_launchers_pods_it_says_so(pretend: Pretend, image: MakeImage) -> None:
    done = run(image("curl"), pretend(PASSED), LAUNCHER_RENDEZVOUS="")

    assert done.returncode == 1
    assert "LAUNCHER_RENDEZVOUS is not set" in done.stderr


def test_asked_to_end_it_ends(pretend: Pretend, image: MakeImage) -> None:
    launcher, here = pretend(PASSED), image("curl")
    launcher.open.clear()

    with here.start(BARRIER, **environment(launcher)) as process:
        assert launcher.asked.wait(60)
        os.kill(process.pid, signal.SIGTERM)

        assert process.wait(60) == 143
    assert list(here.directory.iterdir()) == []
