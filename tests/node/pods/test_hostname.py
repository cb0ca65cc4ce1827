"""Host names of pods: set in a UTS namespace, and resolvable."""

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.node.container_runtime import StartFailed
from launcher.node.pods.hostname import host_name, pod_names
from launcher.store.interface import Object
from tests.builders import a_framework, a_pod, a_pod_template, a_role
from tests.local.conftest import Serve, serve
from tests.local.server import FRAMEWORKS
from tests.node.runtimes import ISOLATION_MODES, a_runtime, log_text, run_to_end, shell, use_isolation

__all__ = ["serve"]

SHOW = """
import socket
name = socket.gethostname()
found = socket.getaddrinfo(name, None, flags=socket.AI_CANONNAME)[0]
print(name, found[3], found[4][0], open('/etc/hostname').read().strip())
"""
#: Two nodes, so that neither has the name of this machine.
NODES = ("--node=red", "--node=blue")


def a_bound_pod(name: str = "web-0", **spec: Any) -> Object:
    return a_pod(name, namespace="team", nodeName="red", **spec)


@pytest.mark.parametrize(
    ("pod", "names"),
    [
        pytest.param(a_bound_pod(), ("web-0",), id="the pod's name by default"),
        pytest.param(a_bound_pod(hostname="h"), ("h",), id="spec.hostname"),
        pytest.param(
            a_bound_pod(hostname="h", subdomain="s"),
            ("h.s.team.svc.cluster.local", "h"),
            id="with a subdomain an FQDN",
        ),
        pytest.param(a_bound_pod("x" * 62 + ".y"), ("x" * 62,), id="cut off at 63 characters"),
        pytest.param(
            a_bound_pod(hostNetwork=True, hostname="h"), ("red",), id="the node's name on the host network"
        ),
    ],
)
def test_the_host_names_of_a_pod_are(pod: Object, names: tuple[str, ...]) -> None:
    assert pod_names(pod) == names


def test_set_hostname_as_fqdn_uses_the_fqdn_if_it_is_short_enough() -> None:
    spec: Object = {"subdomain": "s", "setHostnameAsFQDN": True}

    assert host_name(a_bound_pod(hostname="h", **spec), "vm") == "h.s.team.svc.cluster.local"
    with pytest.raises(StartFailed, match=r"setHostnameAsFQDN.* maximum is 64"):
        host_name(a_bound_pod(hostname="h" * 60, **spec), "vm")


def test_the_host_name_of_the_machine_needs_no_namespace() -> None:
    assert host_name(a_bound_pod(hostNetwork=True), "red") == ""


@pytest.mark.parametrize("isolation", ISOLATION_MODES)
async def test_a_run_has_the_configured_host_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    use_isolation(isolation, tmp_path, monkeypatch)
    before = socket.gethostname()

    async with a_runtime(tmp_path) as runtime:
        config = shell(tmp_path, "uname -n; exec sleep 600", hostname="the-pod")
        await runtime.start_container(config)
        inside = await runtime.exec_sync(config.id, ["uname", "-n"], timeout_seconds=10.0)
        assert await run_to_end(runtime, shell(tmp_path, "uname -n", run="pod.other.0")) == 0

    assert inside == (0, b"the-pod\n")
    assert log_text(tmp_path) == "the-pod\n"
    assert log_text(tmp_path, "pod.other.0") == f"{before}\n"
    assert socket.gethostname() == before


async def test_an_unsupported_host_name_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_isolation("plain", tmp_path, monkeypatch)

    async with a_runtime(tmp_path) as runtime:
        config = shell(tmp_path, "uname -n", hostname="the-pod")
        assert await run_to_end(runtime, config) == 0

        assert any(
            "host name of this machine" in sentence for sentence in runtime.unsupported_features(config)
        )

    assert log_text(tmp_path) == f"{socket.gethostname()}\n"


def test_a_task_is_found_under_its_own_host_name(serve: Serve) -> None:
    server = serve(*NODES)
    command = {"name": "main", "image": "none", "command": [sys.executable, "-c", SHOW]}
    specs: dict[str, Any] = {
        "plain": {},
        "named": {"hostname": "custom", "subdomain": "sub"},
        "host": {"hostNetwork": True, "nodeName": "blue"},
    }
    roles = [
        a_role(name, 1, pod=a_pod_template(containers=[command], **spec)) for name, spec in specs.items()
    ]

    answer = server.post(FRAMEWORKS, a_framework(*roles, name="f"))
    assert answer["kind"] == "Framework", answer
    server.completed("f")

    shown = {name: server.log(f"f-{name}-0").split() for name in specs}
    assert shown["plain"][0] == shown["plain"][3] == "f-plain-0"
    assert shown["plain"][2].startswith("127.0.0.")
    assert shown["named"][:2] == ["custom", "custom.sub.default.svc.cluster.local"]
    assert shown["named"][3] == "custom"
    assert shown["host"][0] == "blue"
