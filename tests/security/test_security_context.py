"""A securityContext is applied, and ignored fields are reported by events."""

from typing import Any

from tests.builders import a_framework, a_pod_template, a_role
from tests.eventually import until
from tests.local.conftest import Serve, serve
from tests.local.server import FRAMEWORKS, Server

__all__ = ["serve"]


def run(server: Server, name: str, script: str, context: Any, **spec: Any) -> str:
    """The output of *script* in a pod with that securityContext."""
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script], "securityContext": context}
    pod = a_pod_template(containers=[container], **spec)
    response = server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=pod), name=name))
    assert response["kind"] == "Framework", response
    server.completed(name)
    return server.log(f"{name}-worker-0")


def test_capabilities_privileges_and_system_calls_are_restricted(serve: Serve) -> None:
    server = serve()
    context = {
        "capabilities": {"drop": ["ALL"]},
        "allowPrivilegeEscalation": False,
        "seccompProfile": {"type": "RuntimeDefault"},
    }

    output = run(
        server, "confined", "grep -E 'CapBnd|NoNewPrivs|Seccomp:' /proc/self/status", context
    ).split()

    assert output == ["CapBnd:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"]


def test_a_pod_without_a_security_context_cannot_mount_and_cannot_change_cgroups(serve: Serve) -> None:
    server = serve()
    script = (
        "mount -t tmpfs none /mnt && echo mounted; find /sys/fs/cgroup -name cgroup.procs -writable; echo end"
    )

    output = run(server, "plain", f"exec 2>/dev/null; {script}", {})

    assert output == "end\n"


def test_ignored_fields_are_reported_by_an_event(serve: Serve) -> None:
    server = serve()
    spec = {"hostPID": True, "priorityClassName": "high", "restartPolicy": "Never"}

    assert run(server, "special", "echo ran", {"seccompProfile": {"type": "Localhost"}}, **spec) == "ran\n"

    def reported() -> bool | None:
        events = server.get("/api/v1/namespaces/default/events")["items"]
        messages = " ".join(event["message"] for event in events if event["reason"] == "NotSupported")
        return all(field in messages for field in ("hostPID", "priorityClassName", "Localhost")) or None

    until(reported, "an event for each ignored field")
