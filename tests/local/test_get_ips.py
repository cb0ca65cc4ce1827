"""``get_ips.sh`` outside of the launcher's pods: by its API, and by ``kubectl proxy``."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from launcher.rendezvous.programs import program
from tests.core.manifests import a_framework, a_pod, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PATIENCE


@contextmanager
def proxied(*options: str) -> Iterator[str]:
    """The URL of a ``kubectl proxy`` with these options, inside."""
    with subprocess.Popen(
        ["kubectl", *options, "proxy", "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as proxy:
        try:
            assert proxy.stdout is not None
            yield "http://" + proxy.stdout.readline().split()[-1]
        finally:
            proxy.kill()


def found(directory: Path, **variables: str) -> str:
    """What a script of the user's gets to know."""
    (directory / "get_ips.sh").write_text(program("get_ips.sh"))
    done = subprocess.run(
        ["bash", "-c", "source ./get_ips.sh && echo $worker_hosts $ps_hosts"],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", "framework_name": "mnist", "worker_tasknum": "2", "ps_tasknum": "1"}
        | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_finds_the_hosts_of_all_tasks(serve: Serve, tmp_path: Path) -> None:
    server = serve("--node=one,ip=127.0.0.11,zone=a", "--node=two,ip=127.0.0.12,zone=b")
    sleeping = {"containers": [{"name": "main", "image": "any", "command": ["sleep", "600"]}]}
    first, second = (a_pod(**sleeping, nodeSelector={"zone": zone}) for zone in ("a", "b"))
    server.post(FRAMEWORKS, a_framework(a_role(tasks=2, pod=first), a_role("ps", 1, pod=second)))
    ports = {"worker_port": "46866", "ps_port": "46867"}
    expected = "127.0.0.11:46866,127.0.0.11:46866 127.0.0.12:46867\n"

    assert found(tmp_path, LAUNCHER_API=server.url, **ports) == expected
    with proxied("--server", server.url) as url:
        assert found(tmp_path, KUBE_APISERVER_ADDRESS=url, **ports) == expected


def test_the_launcher_gives_it_out(serve: Serve) -> None:
    server = serve()

    assert server.curl("/rendezvous/v1/programs/get_ips.sh") == program("get_ips.sh")
    assert orjson.loads(server.curl("/rendezvous/v1/programs/get_hosts.sh"))["code"] == 404
