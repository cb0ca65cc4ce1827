"""Pods can read neither the launcher's credentials nor its data directory, and cannot connect to the shim."""

import itertools
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import Json, a_framework, a_pod_template, a_role
from tests.cluster.pki import self_signed
from tests.eventually import until
from tests.local.server import FRAMEWORKS, PODS, Server

SECRETS = "/api/v1/namespaces/default/secrets"
TOKEN = "6f1c0d6a-a-token-for-this-test"
#: How the launcher is started. A service runs as an ordinary user and isolates containers by user namespaces.
INSTALLATIONS: dict[str, tuple[str, ...]] = {
    "service": (shutil.which("unshare") or "", "--user", "--map-user=1000", "--map-group=1000", "--")
}
if os.geteuid() == 0:
    INSTALLATIONS["root"] = ()
CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a certificate for localhost and its key."""
    directory = tmp_path_factory.mktemp("tls")
    self_signed(directory)
    return directory


class Installation:
    """A launcher with token, certificate, config file and systemd's credentials, and a pod with a Secret."""

    def __init__(self, directory: Path, tls: Path, under: tuple[str, ...]) -> None:
        self.credentials = directory / "credentials"
        self.credentials.mkdir(mode=0o700)
        for name in ("tls.key", "tls.crt"):
            shutil.copy(tls / name, self.credentials)
        self.token = self._written(directory / "token", TOKEN)
        self.key = self._written(directory / "other.key", (tls / "tls.key").read_text())
        self.config = self._written(directory / "config.yaml", "host: [launcher.example.com]\n")
        flags = {
            "config": self.config,
            "token-file": self.token,
            "tls-cert": self.credentials / "tls.crt",
            "tls-key": self.key,
        }
        environment = (f"CREDENTIALS_DIRECTORY={self.credentials}", "LAUNCHER_TEST_MARK=1")
        own_directory = directory / "server"
        own_directory.mkdir()
        self.server = Server(
            own_directory,
            *(f"--{flag}={path}" for flag, path in flags.items()),
            under=("env", *environment, *under),
        )
        self.server.url = self.server.url.replace("127.0.0.1", "localhost")
        curl = f'cacert = "{tls / "tls.crt"}"\nheader = "Authorization: Bearer {TOKEN}"\n'
        self.server.curl_options = ("--config", str(self._written(directory / "curl.conf", curl)))
        self.data = self.server.data
        self._numbers = itertools.count()

    def new_name(self) -> str:
        """A name that no other test uses."""
        return f"test{next(self._numbers)}"

    def _written(self, path: Path, text: str) -> Path:
        path.write_text(text)
        path.chmod(0o600)
        return path

    def post(self, path: str, obj: Json) -> None:
        response = self.server.post(path, obj)
        assert response["kind"] == obj["kind"], response

    def output(self, script: str, volumes: list[Json] | None = None, mounts: list[Json] | None = None) -> str:
        """The output of *script* in a pod."""
        container = {
            "name": "main",
            "image": "none",
            "command": ["sh", "-c", f"exec 2>&1\n{script}\necho done"],
            "volumeMounts": mounts or [],
        }
        pod = a_pod_template(containers=[container], volumes=volumes or [])
        name = self.new_name()
        self.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=pod), name=name))
        self.server.completed(name)
        log = self.server.log(f"{name}-worker-0")
        assert log.endswith("done\n"), log
        return log

    def run_a_pod_with_a_secret(self) -> str:
        """Returns the name of the pod, which prints the secret."""
        name = self.new_name()
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "stringData": {"a": "hunter2"},
        }
        self.post(SECRETS, secret)
        container = {
            "name": "main",
            "image": "none",
            "command": ["sh", "-c", "cat /password/a; exec sleep 600"],
            "volumeMounts": [{"name": "password", "mountPath": "/password"}],
        }
        volumes = [{"name": "password", "secret": {"secretName": name}}]
        pod = a_pod_template(containers=[container], volumes=volumes)
        self.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=pod), name=name))
        self.server.runs(f"{name}-worker-0")
        return f"{name}-worker-0"


@pytest.fixture(scope="module", params=INSTALLATIONS)
def installation(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tls: Path
) -> Iterator[Installation]:
    directory = tmp_path_factory.mktemp(request.param)
    installation = Installation(directory, tls, INSTALLATIONS[request.param])
    yield installation
    installation.server.end()


def waiting_message(server: Server, pod: str) -> str | None:
    """The waiting message of the pod's container."""
    found = server.get(f"{PODS}/{pod}")
    statuses = found["status"].get("containerStatuses") if found["kind"] == "Pod" else None
    for status in statuses or ():
        message: str | None = (status["state"].get("waiting") or {}).get("message")
        return message
    return None


def leaked(text: str) -> list[str]:
    marks = (TOKEN, "PRIVATE KEY", "launcher.example.com", "hunter2", "SQLite format")
    return [mark for mark in marks if mark in text]


def test_a_pod_reads_no_credential_and_nothing_of_the_data_directory(installation: Installation) -> None:
    pod = installation.run_a_pod_with_a_secret()
    data, credentials = installation.data, installation.credentials
    files = [
        installation.token,
        installation.key,
        installation.config,
        credentials / "tls.key",
        data / "store.db",
    ]

    output = installation.output(
        f"""
        cat {" ".join(map(str, files))} {data}/pods/*/volumes/*/* {data}/discovery.key {data}/runs/*/run.json
        ls {data} {credentials}
        """
    )

    assert leaked(output) == []
    assert "store.db\n" not in output.replace(f"{data}/store.db", "")
    assert installation.server.log(pod) == "hunter2"


def test_a_host_path_cannot_expose_the_data_directory(installation: Installation) -> None:
    above = installation.data.parent.parent
    volumes = [{"name": "above", "hostPath": {"path": str(above)}}]
    mounts = [{"name": "above", "mountPath": "/above"}]
    token, data = installation.token.relative_to(above), installation.data.relative_to(above)

    output = installation.output(
        f"cat /above/{token} /above/{data}/store.db; ls /above/{data}", volumes, mounts
    )

    assert leaked(output) == []
    assert "keeper.sock" not in output


@pytest.mark.parametrize("part", ["", "store.db"])
def test_a_host_path_or_sub_path_in_the_data_directory_is_refused(
    installation: Installation, part: str
) -> None:
    data = installation.data
    path, mount = (data, {}) if not part else (data.parent, {"subPath": f"{data.name}/{part}"})
    container = {
        "name": "main",
        "image": "none",
        "command": ["true"],
        "volumeMounts": [{"name": "v", "mountPath": "/v", **mount}],
    }
    pod = a_pod_template(containers=[container], volumes=[{"name": "v", "hostPath": {"path": str(path)}}])
    name = installation.new_name()
    installation.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=pod), name=name))

    message = until(
        lambda: waiting_message(installation.server, f"{name}-worker-0"),
        "the container has a waiting message",
    )

    assert "belongs to the launcher" in message


def test_a_pod_cannot_unmount_the_mounts_over_hidden_files(installation: Installation) -> None:
    installation.run_a_pod_with_a_secret()
    data, token = installation.data, installation.token

    output = installation.output(
        f"""
        umount {data} || umount -l {data}
        mount -o remount,rw {data}
        unshare --user --map-root-user --mount sh -c 'umount {data}; umount {token}; cat {token} {data}/store.db'
        cat {token} {data}/store.db
        cat /proc/1/environ /proc/1/root{token} /proc/1/root{data}/store.db
        cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep LAUNCHER_TEST_MARK
        """
    )

    assert leaked(output) == []
    assert "LAUNCHER_TEST_MARK" not in output


def test_a_pod_cannot_connect_to_the_shim(installation: Installation) -> None:
    socket = installation.data / "keeper.sock"
    until(lambda: socket.is_socket() or None, "the shim listens")

    output = installation.output(f"{sys.executable} -c {shlex.quote(CONNECT)} {socket} && echo connected")

    assert "FileNotFoundError" in output
    assert "connected\n" not in output
