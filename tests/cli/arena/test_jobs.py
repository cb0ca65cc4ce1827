"""``arena list`` and other commands for jobs; numbers are those of the specification's test cases."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.cli.arena.jobs import ArenaJobSummary, newest_first
from launcher.cli.main import main
from launcher.store.interface import FRAMEWORKS, NODES, PODS, MergePatch
from tests.builders import a_framework, a_role
from tests.cli.conftest import BackgroundCommand
from tests.cli.in_memory_launcher import InMemoryLauncher
from tests.eventually import eventually

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]

#: Two workers and a parameter server, as in the guide to gang scheduling.
DIST = ("submit", "tf", "--name=tf-dist", "--gpus=1", "--workers=2", "--ps=1", "--image=i", "python main.py")


@pytest.fixture
def job(
    server: InMemoryLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> InMemoryLauncher:
    """A server with that job."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ARENA_CONFIG", raising=False)
    assert main(["arena", *DIST]) == 0
    server.until("tf-dist", "AttemptPreparing")
    capsys.readouterr()
    return server


def printed(capsys: Capture, *words: str) -> list[str]:
    assert main(["arena", *words]) == 0
    return capsys.readouterr().out.splitlines()


def without_ages(lines: list[str]) -> list[str]:
    return [re.sub(r"  \d+[sm]  ", "  0s  ", line) for line in lines]


def write(server: InMemoryLauncher, pod: str, container: str, *lines: str) -> None:
    """Sets the container to running and writes these lines to its log."""
    found = server.call(eventually(lambda: server.startable_pod(pod), f"pod {pod} exists"))
    if not found["spec"].get("nodeName"):
        server.call(server.store.patch(PODS, "default", pod, MergePatch({"spec": {"nodeName": "node-1"}})))
    server.call(server.logs.write(pod, found["metadata"]["uid"], container, *lines))
    early = container == "init-code"
    entry = {"name": container, "state": {"running": {}}, "restartCount": 0, "ready": not early, "image": "i"}
    statuses = {"initContainerStatuses" if early else "containerStatuses": [entry]}
    found = server.call(server.store.get(PODS, "default", pod))
    status = {"phase": "Pending" if early else "Running", **statuses}
    server.call(server.store.update_status(PODS, {**found, "status": status}))


def test_a_pending_job_is_printed_as_in_the_guide(job: InMemoryLauncher, capsys: Capture) -> None:
    assert without_ages(printed(capsys, "get", "tf-dist", "--type", "tfjob")) == [
        "NAME     STATUS   TRAINER  AGE  INSTANCE          NODE",
        "tf-dist  PENDING  TFJOB    0s   tf-dist-ps-0      N/A",
        "tf-dist  PENDING  TFJOB    0s   tf-dist-worker-0  N/A",
        "tf-dist  PENDING  TFJOB    0s   tf-dist-worker-1  N/A",
    ]


def test_36_37_a_job_is_running_when_all_its_instances_run(job: InMemoryLauncher, capsys: Capture) -> None:
    job.run("tf-dist-ps-0")
    job.run("tf-dist-worker-0")
    job.call(eventually(lambda: _running(job, 2), "two pods run"))

    states = [line.split()[1] for line in printed(capsys, "get", "tf-dist")[1:]]
    assert sorted(states) == ["PENDING", "RUNNING", "RUNNING"]
    assert printed(capsys, "list")[1].split()[1] == "PENDING"

    job.run("tf-dist-worker-1")
    job.call(eventually(lambda: _running(job, 3), "three pods run"))
    assert {line.split()[1] for line in printed(capsys, "get", "tf-dist")[1:]} == {"RUNNING"}
    assert printed(capsys, "list")[1].split()[1] == "RUNNING"


async def _running(server: InMemoryLauncher, number: int) -> bool | None:
    framework = await server.store.get(FRAMEWORKS, "default", "tf-dist")
    return True if framework["status"].get("taskCounts", {}).get("AttemptRunning") == number else None


def finish(server: InMemoryLauncher, code: int = 0) -> None:
    """Complete the job with the exit code of its first worker."""
    server.run("tf-dist-worker-0")
    server.end("tf-dist-worker-0", code)
    for pod in ("tf-dist-ps-0", "tf-dist-worker-1"):
        server.remove(pod)
    server.until("tf-dist", "Completed")


@pytest.mark.parametrize(("code", "status"), [(0, "SUCCEEDED"), (1, "FAILED")])
def test_a_completed_job_is_listed_with_its_result(
    code: int, status: str, job: InMemoryLauncher, capsys: Capture
) -> None:
    finish(job, code)

    header, line = printed(capsys, "ls")
    assert header.split() == [
        *("NAME", "STATUS", "TRAINER", "DURATION"),
        *("GPU(Requested)", "GPU(Allocated)", "NODE"),
    ]
    assert line.split()[:3] == ["tf-dist", status, "TFJOB"]
    assert line.split()[4:] == ["2", "N/A", "node-1"]


def test_instances_that_were_deleted_with_the_job_are_not_shown(
    job: InMemoryLauncher, capsys: Capture
) -> None:
    job.run("tf-dist-ps-0")
    finish(job)

    lines = printed(capsys, "get", "tf-dist")
    assert [line.split()[1::3] for line in lines[1:]] == [["SUCCEEDED", "tf-dist-worker-0"]]


def test_a_queued_job_is_listed_as_queuing(job: InMemoryLauncher, capsys: Capture) -> None:
    printed(capsys, "submit", "tf", "--name=held", "--image=i", "--queue", "x")

    header, *lines = printed(capsys, "list", "-A")
    assert header.split()[:3] == ["NAMESPACE", "NAME", "STATUS"]
    assert ["default", "held", "QUEUING"] in [line.split()[:3] for line in lines]


def test_only_jobs_of_arena_are_listed_and_deleted(job: InMemoryLauncher, capsys: Capture) -> None:
    job.create(a_framework(a_role("worker", 1)))

    assert [line.split()[0] for line in printed(capsys, "list")[1:]] == ["tf-dist"]
    assert main(["arena", "delete", "mnist"]) == 1
    assert "mnist is not a job of Arena" in capsys.readouterr().err
    assert "mnist" in job.names()


def test_jobs_are_sorted_by_start_after_those_that_have_not_started() -> None:
    def a_job(name: str, started: str | None) -> ArenaJobSummary:
        metadata = {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
        status = {} if started is None else {"startTime": f"2026-01-01T00:00:0{started}Z"}
        return ArenaJobSummary({"metadata": metadata, "status": status}, 0, ())

    jobs = [a_job("old", "1"), a_job("waits", None), a_job("new", "2")]

    assert [job.name for job in newest_first(jobs)] == ["waits", "new", "old"]


def test_the_wide_output_has_details(job: InMemoryLauncher, capsys: Capture) -> None:
    job.run("tf-dist-ps-0")
    job.until("tf-dist", "AttemptRunning")

    lines = printed(capsys, "get", "tf-dist", "-o", "wide", "-g", "-e")
    assert lines[:4] == [
        "Name:       tf-dist",
        "Status:     PENDING",
        "Namespace:  default",
        "Priority:   N/A",
    ]
    at = lines.index("Instances:")
    assert lines[at + 1].split() == ["NAME", "STATUS", "AGE", "IS_CHIEF", "GPU(Requested)", "NODE"]
    assert set(lines[at + 2]) == {" ", "-"}
    rows = {line.split()[0]: line.split()[1:] for line in lines[at + 3 : at + 6]}
    assert (rows["tf-dist-ps-0"][0], rows["tf-dist-ps-0"][2:]) == ("Running", ["false", "0", "node-1"])
    assert rows["tf-dist-worker-0"][2:] == ["true", "1", "N/A"]
    assert "  Requested: 2" in lines
    assert lines[lines.index("Events:") + 1].split() == ["SOURCE", "TYPE", "AGE", "MESSAGE"]


@pytest.mark.parametrize(("output_format", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_json_and_yaml_output_has_the_fields_of_arena(
    output_format: str, parse: Any, job: InMemoryLauncher, capsys: Capture
) -> None:
    job.run("tf-dist-worker-0")
    job.until("tf-dist", "AttemptRunning")

    detail = parse("\n".join(printed(capsys, "get", "tf-dist", "-o", output_format)))
    assert (detail["name"], detail["status"], detail["state"]) == ("tf-dist", "PENDING", "Running")
    assert (detail["trainer"], detail["chiefName"], detail["priority"]) == (
        "tfjob",
        "tf-dist-worker-0",
        "N/A",
    )
    assert (detail["requestGPUs"], detail["allocatedGPUs"]) == (2, 1)
    assert re.fullmatch(r"\d+s", detail["duration"])
    assert [each["name"] for each in detail["instances"] if each["chief"]] == ["tf-dist-worker-0"]
    (listed,) = parse("\n".join(printed(capsys, "list", "-o", output_format)))
    assert listed["uuid"] == detail["uuid"]


def test_the_tensorboard_of_a_job_has_an_address(job: InMemoryLauncher, capsys: Capture) -> None:
    arguments = ("--name=tb", "--workers=2", "--image=i", "--tensorboard", "x")
    printed(capsys, "submit", "tf", *arguments)
    job.run("tb-tensorboard-0")
    pod = job.call(job.store.get(PODS, "default", "tb-tensorboard-0"))
    job.call(job.store.update_status(PODS, {**pod, "status": {**pod["status"], "hostIP": "10.0.0.7"}}))

    lines = printed(capsys, "get", "tb", "-o", "wide")
    assert lines[-2:] == ["Tensorboard:", "  http://10.0.0.7:6006"]
    assert not any("tb-tensorboard-0" in line for line in lines)


def test_an_unknown_type_of_job_is_reported(job: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["arena", "get", "tf-dist", "-T", "mpi"]) == 1
    assert printed(capsys, "get", "tf-dist", "-T", "Tensorflow", "-o", "name") == ["tf-dist"]


def test_38_logs_are_those_of_the_chief_by_default(job: InMemoryLauncher, capsys: Capture) -> None:
    for pod in ("tf-dist-ps-0", "tf-dist-worker-0"):
        write(job, pod, "tensorflow", f"hello from {pod}")

    assert printed(capsys, "logs", "tf-dist") == ["hello from tf-dist-worker-0"]
    assert printed(capsys, "logs", "tf-dist", "-i", "tf-dist-ps-0", "--tail=1") == ["hello from tf-dist-ps-0"]
    assert printed(capsys, "logs", "tf-dist", "--since", "1h30m") == ["hello from tf-dist-worker-0"]
    assert printed(capsys, "logs", "tf-dist", "--since-time", "2999-01-01T00:00:00Z") == []
    named_as_in_the_first_version = ("-i", "tf-dist-tfjob-ps-0", "--tail=1")
    assert printed(capsys, "logs", "tf-dist", *named_as_in_the_first_version) == ["hello from tf-dist-ps-0"]
    assert main(["arena", "logs", "tf-dist", "-i", "tf-dist-ps-7"]) == 1
    assert "instances: tf-dist-ps-0, tf-dist-worker-0, tf-dist-worker-1" in capsys.readouterr().err


def test_38_logs_during_code_sync_are_those_of_the_init_container(
    job: InMemoryLauncher, capsys: Capture
) -> None:
    flags = ("--name=git", "--image=i", "--sync-mode=git", "--sync-source=https://h/p.git", "x")
    printed(capsys, "submit", "tf", *flags)
    write(job, "git-chief-0", "init-code", "cloning")

    assert printed(capsys, "logs", "git") == ["cloning"]

    write(job, "git-chief-0", "tensorflow", "training")
    assert printed(capsys, "logs", "git") == ["training"]


def test_logs_are_followed_to_the_end(job: InMemoryLauncher, capsys: Capture) -> None:
    write(job, "tf-dist-worker-0", "tensorflow", "first")
    following = BackgroundCommand("arena", "logs", "-f", "tf-dist")
    job.until_watched("pods", 1)
    write(job, "tf-dist-worker-0", "tensorflow", "last")
    job.call(job.logs.write("tf-dist-worker-0", job.uid("tf-dist-worker-0"), "tensorflow", ended=True))
    job.end("tf-dist-worker-0")

    assert following.end() == 0
    assert capsys.readouterr().out == "first\nlast\n"


def test_existing_jobs_are_deleted_though_another_one_is_missing(
    job: InMemoryLauncher, capsys: Capture
) -> None:
    assert main(["arena", "delete", "nowhere", "tf-dist"]) == 1

    captured = capsys.readouterr()
    assert captured.out == 'framework.launcher.microsoft.com "tf-dist" deleted\n'
    assert "nowhere" in captured.err
    assert "INFO[0000] The Job tf-dist has been deleted successfully" in captured.err


def test_39_prune_requires_since(job: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["arena", "prune"]) == 2

    assert capsys.readouterr().err.startswith("--since: ")


def test_39_prune_deletes_old_completed_jobs_and_pending_ones_with_a_flag(
    job: InMemoryLauncher, capsys: Capture
) -> None:
    assert main(["arena", "prune", "-s", "0s"]) == 0
    assert capsys.readouterr() == ("", "INFO[0000] There are no jobs to delete\n")

    assert printed(capsys, "prune", "-s", "0s", "--pending") == [
        'framework.launcher.microsoft.com "tf-dist" deleted'
    ]


def test_prune_keeps_jobs_that_are_not_old_enough(job: InMemoryLauncher, capsys: Capture) -> None:
    finish(job)

    assert printed(capsys, "prune", "--since=1h") == []
    assert printed(capsys, "prune", "--since=0s") == ['framework.launcher.microsoft.com "tf-dist" deleted']


def test_top_node_counts_gpus(job: InMemoryLauncher, capsys: Capture) -> None:
    ready = [{"type": "Ready", "status": "True"}]
    for name, spec, labels in (
        ("node-1", {}, {"node-role.kubernetes.io/gpu": ""}),
        ("node-2", {"unschedulable": True}, {}),
    ):
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
        }
        job.call(job.store.create(NODES, node))
        stored = job.call(job.store.get(NODES, "", name))
        addresses = [{"type": "InternalIP", "address": f"10.0.0.{name[-1]}"}]
        status = {"conditions": ready, "addresses": addresses, "capacity": {"nvidia.com/gpu": "2"}}
        job.call(job.store.update_status(NODES, {**stored, "status": status}))
    job.run("tf-dist-worker-0")

    lines = printed(capsys, "top", "node")
    assert [line.split() for line in lines[:3]] == [
        ["NAME", "IPADDRESS", "ROLE", "STATUS", "GPU(Total)", "GPU(Allocated)"],
        ["node-1", "10.0.0.1", "gpu", "Ready", "2", "1"],
        ["node-2", "10.0.0.2", "<none>", "Ready,SchedulingDisabled", "2", "0"],
    ]
    assert set(lines[3]) == {"-"}
    assert lines[4:] == ["Allocated/Total GPUs In Cluster:", "1/4 (25%)"]
    assert printed(capsys, "top", "node", "node-2")[-1] == "0/2 (0%)"
    form = json.loads("\n".join(printed(capsys, "top", "node", "-o", "json")))
    assert (form["totalGPUs"], form["allocatedGPUs"]) == (4, 1)
    assert form["nodes"][0]["ip"] == "10.0.0.1"
    assert main(["arena", "top", "node", "node-3"]) == 1


def test_top_job_shows_the_greatest_first(job: InMemoryLauncher, capsys: Capture) -> None:
    printed(capsys, "submit", "tf", "--name=great", "--image=i", "--gpus=8", "x")
    job.run("great-chief-0")
    job.until("great", "AttemptRunning")

    lines = printed(capsys, "top", "job")
    assert lines[0].split()[:4] == ["NAME", "STATUS", "TRAINER", "AGE"]
    assert [line.split()[0] for line in lines[1:3]] == ["great", "tf-dist"]
    assert lines[3:] == ["", "Total Allocated GPUs of Training Jobs:", "8"]
    form = json.loads("\n".join(printed(capsys, "top", "job", "-o", "json")))
    assert [(each["name"], each["requestGPUs"]) for each in form] == [("great", 8), ("tf-dist", 2)]
    assert printed(capsys, "top", "job", "great") == [
        "INSTANCE       STATUS   GPU(Requested)  NODE",
        "great-chief-0  RUNNING  8               node-1",
    ]


def test_attach_reports_why_a_container_cannot_be_used(job: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["arena", "attach", "tf-dist", "--", "ls", "-l"]) != 0

    assert 'container "tensorflow" in pod "tf-dist-worker-0" is not running' in capsys.readouterr().err
