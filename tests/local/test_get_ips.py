"""``get_ips.sh`` outside the launcher's pods: with its API, and with ``kubectl proxy``."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from launcher.rendezvous.container_programs import program_text
from tests.builders import a_framework, a_pod_template, a_role
from tests.eventually import TIMEOUT_SECONDS
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, Server

NODES = ("--node=one,ip=127.0.0.11,zone=a", "--node=two,ip=127.0.0.12,zone=b")
PORTS = {"worker_port": "46866", "ps_port": "46867"}
HOSTS = "127.0.0.11:46866,127.0.0.11:46866 127.0.0.12:46867\n"


@contextmanager
def proxied(program: Path, *options: str) -> Iterator[str]:
    """The URL of a running ``kubectl proxy`` with these options."""
    with subprocess.Popen(
        [program, *options, "proxy", "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as proxy:
        try:
            assert proxy.stdout is not None
            yield "http://" + proxy.stdout.readline().split()[-1]
        finally:
            proxy.kill()


def start(server: Server) -> None:
    """Two workers on the first node, one parameter server on the second."""
    sleeping = {"containers": [{"name": "main", "image": "any", "command": ["sleep", "600"]}]}
    first, second = (a_pod_template(**sleeping, nodeSelector={"zone": zone}) for zone in ("a", "b"))
    server.post(FRAMEWORKS, a_framework(a_role(tasks=2, pod=first), a_role("ps", 1, pod=second)))


def found(directory: Path, **variables: str) -> str:
    """The output of a user's script that calls get_ips.sh."""
    (directory / "get_ips.sh").write_text(program_text("get_ips.sh"))
    done = subprocess.run(
        ["bash", "-c", "source ./get_ips.sh && echo $worker_hosts $ps_hosts"],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", "framework_name": "mnist", "worker_tasknum": "2", "ps_tasknum": "1"}
        | variables,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_get_ips_finds_the_hosts_of_all_tasks(serve: Serve, tmp_path: Path) -> None:
    server = serve(*NODES)
    start(server)

    assert found(tmp_path, LAUNCHER_API=server.url, **PORTS) == HOSTS


def test_get_ips_finds_the_hosts_through_kubectl_proxy(serve: Serve, programs: Path, tmp_path: Path) -> None:
    server = serve(*NODES)
    start(server)

    with proxied(programs / "kubectl", "--server", server.url) as url:
        assert found(tmp_path, KUBE_APISERVER_ADDRESS=url, **PORTS) == HOSTS


def test_the_launcher_serves_get_ips(serve: Serve) -> None:
    server = serve()

    assert server.curl("/rendezvous/v1/programs/get_ips.sh") == program_text("get_ips.sh")
    assert orjson.loads(server.curl("/rendezvous/v1/programs/get_hosts.sh"))["code"] == 404
