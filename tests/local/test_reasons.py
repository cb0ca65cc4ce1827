"""Every pod that waits in local mode has a reason, which is also the Framework's message."""

from pathlib import Path
from typing import Any

from tests.core.manifests import a_framework, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, Server, until


def a_pod(*command: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "command": list(command)}
    return {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}


def events(server: Server, reason: str) -> list[dict[str, Any]]:
    found = server.get("/api/v1/namespaces/default/events")["items"]
    return [one for one in found if one["reason"] == reason]


def when_message_has(server: Server, name: str, words: str) -> str:
    def look() -> str | None:
        message = server.framework(name).get("status", {}).get("message") or ""
        return message if words in message else None

    return until(look, f"the message of {name} has {words!r}")


def test_a_framework_for_another_scheduler_runs_with_a_warning(serve: Serve) -> None:
    server = serve()
    pod = a_pod("true", schedulerName="hivedscheduler")
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=pod), name="moved"))

    done = server.completed("moved")

    (warning,) = until(lambda: events(server, "SchedulerNotFound") or None, "the warning event")
    assert done["status"]["message"].startswith("Succeeded")
    assert warning["type"] == "Warning"
    assert "hivedscheduler" in warning["message"]


def test_a_framework_that_waits_says_what_for(serve: Serve, tmp_path: Path) -> None:
    server = serve("--node=small,cpu=1")
    greedy = a_pod("true")
    greedy["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    missing = {"name": "data", "hostPath": {"path": str(tmp_path / "none"), "type": "Directory"}}
    for name, pod in (
        ("greedy", greedy),
        ("mount", a_pod("true", volumes=[missing])),
        ("gated", a_pod("true", schedulingGates=[{"name": "example.com/gate"}])),
        ("crash", a_pod("sh", "-c", "exit 3", restartPolicy="Always")),
    ):
        server.post(FRAMEWORKS, a_framework(a_role(pod=pod), name=name))

    assert "Insufficient cpu" in when_message_has(server, "greedy", "worker[0]: Unschedulable")
    assert "none is not a directory" in when_message_has(server, "mount", 'volume "data"')
    assert "worker[0]: SchedulingGated" in when_message_has(server, "gated", "SchedulingGated")
    assert "last exit code 3" in when_message_has(server, "crash", "worker[0]: CrashLoopBackOff")
    server.curl(FRAMEWORKS, "-X", "DELETE")


def test_the_deletion_of_a_framework_leaves_no_warning(serve: Serve) -> None:
    server = serve()
    for number in range(5):
        server.post(FRAMEWORKS, a_framework(a_role(pod=a_pod("sleep", "600")), name=f"f{number}"))
        server.runs(f"f{number}-worker-1")
        server.curl(f"{FRAMEWORKS}/f{number}", "-X", "DELETE")
    names = [f"f{number}" for number in range(5)]
    until(
        lambda: True if all(server.framework(name)["kind"] == "Status" for name in names) else None,
        "the Frameworks are deleted",
    )

    assert events(server, "Scheduled")
    assert events(server, "PodExternalDeleted") == []
