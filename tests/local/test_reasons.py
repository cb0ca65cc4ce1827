"""Every pod that waits in local mode has a reason, which is also the Framework's message."""

from pathlib import Path
from typing import Any

from tests.builders import a_container, a_framework, a_pod_template, a_role
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, Server


def events(server: Server, reason: str) -> list[dict[str, Any]]:
    found = server.get("/api/v1/namespaces/default/events")["items"]
    return [one for one in found if one["reason"] == reason]


def when_message_has(server: Server, name: str, words: str) -> str:
    def probe() -> str | None:
        message = server.framework(name).get("status", {}).get("message") or ""
        return message if words in message else None

    return until(probe, f"the message of {name} has {words!r}")


def test_a_framework_for_another_scheduler_runs_with_a_warning(serve: Serve) -> None:
    server = serve()
    pod = a_pod_template(schedulerName="hivedscheduler")
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=pod), name="moved"))

    done = server.completed("moved")

    (warning,) = until(lambda: events(server, "SchedulerNotFound") or None, "the warning event")
    assert done["status"]["message"].startswith("All tasks completed: 1 succeeded")
    assert warning["type"] == "Warning"
    assert "hivedscheduler" in warning["message"]


def test_a_waiting_framework_has_the_reason_in_its_message(serve: Serve, tmp_path: Path) -> None:
    server = serve("--node=small,cpu=1")
    greedy = a_pod_template()
    greedy["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    missing = {"name": "data", "hostPath": {"path": str(tmp_path / "none"), "type": "Directory"}}
    for name, pod in (
        ("greedy", greedy),
        ("mount", a_pod_template(volumes=[missing])),
        ("gated", a_pod_template(schedulingGates=[{"name": "example.com/gate"}])),
        ("crash", a_pod_template(a_container("sh", "-c", "exit 3"), restartPolicy="Always")),
    ):
        server.post(FRAMEWORKS, a_framework(a_role(pod=pod), name=name))

    when_message_has(server, "greedy", "worker-0: no node has 2 cpu free.")
    when_message_has(
        server, "mount", f"worker-0: hostPath {tmp_path}/none does not exist or is of another type."
    )
    when_message_has(server, "gated", "worker-0: held by example.com/gate.")
    when_message_has(server, "crash", "worker-0: container main failed and is restarted: exit code 3.")
    server.curl(FRAMEWORKS, "-X", "DELETE")


def test_the_deletion_of_a_framework_leaves_no_warning(serve: Serve) -> None:
    server = serve()
    for number in range(5):
        server.post(
            FRAMEWORKS,
            a_framework(a_role(pod=a_pod_template(a_container("sleep", "600"))), name=f"f{number}"),
        )
        server.runs(f"f{number}-worker-1")
        server.curl(f"{FRAMEWORKS}/f{number}", "-X", "DELETE")
    names = [f"f{number}" for number in range(5)]
    until(
        lambda: True if all(server.framework(name)["kind"] == "Status" for name in names) else None,
        "the Frameworks are deleted",
    )

    assert events(server, "Scheduled")
    assert events(server, "PodExternalDeleted") == []
